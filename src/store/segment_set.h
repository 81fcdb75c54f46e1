// The segments of a folder as one process sees them: which block is where, what each is worth, what has to go.
//
// No I/O but looking at a folder's names and sizes. Threads: not locked; FileStore locks around it.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/block_store.h"
#include "store/segment.h"

namespace deepinfer::store {

struct Segment {
    std::filesystem::path path;
    kv::Retention retention = kv::Retention::chat;
    std::vector<SegmentEntry> entries;
    std::vector<int64_t> used;  // of each record, seconds since 1970; 0: not found any more
    int64_t bytes = 0;          // of the file
    int64_t last_used = 0;      // as the file's time of change says
    bool sealed = false;
    bool own = false;  // being written by this process
};
using SegmentPtr = std::shared_ptr<Segment>;

// A file of another model in the same folder, or one that this version cannot read: it counts, and may have to go.
struct OtherFile {
    std::filesystem::path path;
    kv::Retention retention = kv::Retention::chat;
    int64_t bytes = 0, last_used = 0;
    bool in_use = false;  // a process is writing it: it stays
};

class SegmentSet {
  public:
    // ages_of_tenants: oldest_of() will be asked.
    SegmentSet(int64_t record_bytes, bool ages_of_tenants)
        : record_bytes_(record_bytes), ages_of_tenants_(ages_of_tenants) {}

    struct Place {
        SegmentPtr segment;
        size_t record = 0;
    };
    const Place* find(const kv::BlockKey& key) const;
    // Record `record` of the segment can be found from now on, unless the same block can be already.
    void add(const SegmentPtr& segment, size_t record, int64_t used);
    void forget(const kv::BlockKey& key);
    void touch(const Place& place, int64_t now);

    void insert(SegmentPtr segment) { segments_[segment->path.filename()] = std::move(segment); }
    SegmentPtr named(const std::filesystem::path& name) const;
    void erase(const SegmentPtr& segment);  // and forgets its blocks
    const std::unordered_map<std::string, SegmentPtr>& all() const { return segments_; }

    uint64_t blocks() const { return places_.size(); }
    int64_t bytes() const;  // of these and of the other files
    uint64_t tenant_bytes(uint64_t tenant) const;
    std::vector<uint64_t> tenants() const;
    // The block of the tenant that was stored first, and can still be found. Null if there is none.
    const kv::BlockKey* oldest_of(uint64_t tenant);

    std::vector<OtherFile> others;
    // Their lifetimes have passed.
    std::vector<SegmentPtr> expired(int64_t now) const;
    // The least worth, of those that nobody writes: a segment or an index into `others`. Neither: there is none.
    struct Victim {
        SegmentPtr segment;
        std::optional<size_t> other;
        double worth = 0, next_worth = 0;  // of it and of the one that would be next
    };
    Victim least_worth(int64_t now) const;
    double worth(const SegmentEntry& entry, int64_t used, int64_t now) const;

  private:
    double worth(const Segment& segment, int64_t now) const;

    const int64_t record_bytes_;
    const bool ages_of_tenants_;
    std::unordered_map<kv::BlockKey, Place, kv::BlockKeyHash> places_;
    std::unordered_map<std::string, SegmentPtr> segments_;  // by file name
    struct Tenant {
        uint64_t blocks = 0;
        std::deque<kv::BlockKey> stored;  // oldest first; some can no longer be found
    };
    void drop_gone(Tenant& tenant);
    std::unordered_map<uint64_t, Tenant> tenants_;
};

}  // namespace deepinfer::store
