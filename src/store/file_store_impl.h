// FileStore's state, for the two files that implement it: file_store.cpp (opening, reading, the folder) and
// file_store_writing.cpp (segments that are being written, and what has to go for them).
#pragma once

#include <array>
#include <atomic>
#include <ctime>
#include <mutex>
#include <system_error>

#include "base/file_descriptor.h"
#include "store/file_store.h"
#include "store/segment_set.h"

namespace deepinfer::store {

constexpr std::string_view segment_suffix = ".segment";
std::string writer_name();                          // of this process, unlike all others
bool in_use(const std::filesystem::path& segment);  // a process is writing it

class FileStore final : public BlockStore {
  public:
    explicit FileStore(const FileStoreOptions& options)
        : options_(options),
          io_(options.io ? options.io : std::make_shared<FileIo>()),
          folder_(options.folder / options.shape.fingerprint.hex()),
          stride_(record_stride(options.shape)),
          writer_(writer_name()),
          set_(stride_, options.tenant_bytes > 0) {
        // Several segments must fit into the budget, or evicting one would be evicting all.
        const auto most = static_cast<int64_t>(options_.budget_bytes / 8);
        options_.segment_bytes = std::max(std::min(options_.segment_bytes, most), 2 * page_bytes + stride_);
    }
    ~FileStore() override {
        for (Writing& writing : writing_) close(writing);
    }

    Status open();
    std::string name() const override { return options_.name; }
    size_t find(std::span<const kv::BlockKey> keys, Clock::time_point deadline) override;
    void get(std::span<Get> items, Clock::time_point deadline) override;
    void put(std::span<Put> items, Clock::time_point deadline) override;
    void touch(std::span<const kv::BlockKey> keys, Clock::time_point deadline) override;
    StoreStats stats() const override;

  private:
    // The segment of a class that is being appended to. The writing thread's.
    struct Writing {
        SegmentPtr segment;
        FileDescriptor file{-1};
        size_t records = 0;  // written, of which those from `durable` on are not yet durable
        size_t durable = 0;
        std::vector<Put*> pending;  // of those that are not
    };

    int64_t now() const { return options_.now ? options_.now() : std::time(nullptr); }
    size_t count_found(std::span<const kv::BlockKey> keys) const;
    void look(Clock::time_point deadline, bool all);
    void look_at(const std::filesystem::path& path, int64_t last_used);
    bool is_complete(const std::filesystem::path& path) const;
    bool knows(const std::filesystem::path& path) const;
    void clean();
    bool make_room(int64_t bytes);
    void make_tenant_room(uint64_t tenant, uint64_t bytes);
    std::error_code make_folder() const;
    void drop_deleted(Writing& writing);
    bool evict(bool keep_best);
    std::vector<size_t> best_of(const SegmentSet::Victim& victim) const;
    void forget(const SegmentSet::Victim& victim, std::span<const size_t> best);
    size_t read_run(std::span<Get> items, const SegmentSet::Place& first);
    bool make_file(Writing& writing, const std::filesystem::path& path);
    bool ready_to_write(Writing& writing, kv::Retention retention);
    bool append(Writing& writing, Put& put, int64_t created);
    int write(Put& item, int64_t time);
    bool commit(Writing& writing);
    Writing& writing_of(kv::Retention retention) {
        return writing_[retention == kv::Retention::agent ? 0 : 1];  // as stored_classes
    }
    void close(Writing& writing);
    void count(const Put& put);

    FileStoreOptions options_;
    const std::shared_ptr<FileIo> io_;
    const std::filesystem::path folder_;
    const int64_t stride_;
    const std::string writer_;

    // Writing thread.
    std::array<Writing, kv::stored_classes.size()> writing_;
    uint64_t next_segment_ = 0;
    Clock::time_point cleaned_{}, shrinks_again_{};

    std::mutex looking_;              // one thread looks at the folder at a time
    std::atomic<int64_t> looked_{0};  // when it last did, to the end

    mutable std::mutex mutex_;  // of what follows; never held during I/O on blocks
    SegmentSet set_;
    StoreStats stats_;
};

}  // namespace deepinfer::store
