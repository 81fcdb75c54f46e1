// Where blocks of keys and values live when the pool has no room for them, or the process ends: a folder of segment files,
// a Redis server; for tests plain memory. All behave alike (tests/store/conformance.h):
//
//   - A block is never wrong. It is found by its key and returned only if its bytes are those that were put, and its
//     tokens those that the caller asks for; anything else counts as damaged and is forgotten.
//   - A failure is a miss. Nothing here ends a request: get() says per block what happened, find() finds less, put()
//     says what was not stored. After several failures in a row a remote store is left alone for a second.
//   - What put() said is stored may still be gone a moment later: evicted, expired, lost with a server.
//   - A block that is there already is not stored twice; its time to live starts anew.
//
// Threads: find(), get() and touch() are called by one thread, put() by another one, at the same time; stats() by any.
// Every call may block, for I/O, up to about its deadline; none waits for another process's lock.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "kv/block_key.h"
#include "kv/layout.h"
#include "kv/retention.h"

namespace deepinfer::store {

using Clock = std::chrono::steady_clock;

// The size and the sections of every block of a store, and the fingerprint that all its keys contain.
struct BlockShape {
    kv::BlockKey fingerprint;
    uint32_t block_bytes = 0;
    std::vector<uint32_t> sections;  // bytes of each, in order; their sum is block_bytes. One per layer.
};
BlockShape block_shape(const kv::Layout& layout, const kv::BlockKey& fingerprint);

struct Put {
    enum class Outcome : uint8_t {
        stored,
        present,  // was there already
        no_room,  // beyond the store's or the tenant's budget
        failed,   // I/O, a server that is gone or full
        late,     // the deadline passed before its turn
    };
    kv::BlockKey key;
    kv::BlockKey parent;  // of the block before it; of the first block: the root
    int32_t index = 0;    // of the block in its sequence
    std::array<TokenId, kv::block_tokens> tokens{};
    float seconds = 0;  // that computing it takes
    kv::Retention retention = kv::Retention::chat;
    uint64_t tenant = 0;             // a hash of whose it is, for budgets per tenant
    std::span<const uint8_t> bytes;  // block_bytes, not changed during the call

    Outcome outcome = Outcome::failed;  // set by put()
};

struct Get {
    enum class Outcome : uint8_t {
        ok,
        missing,
        damaged,  // checksums or tokens differ; the block was forgotten
        failed,   // I/O
        late,     // the deadline passed before it was complete
    };
    kv::BlockKey key;
    std::span<const TokenId> tokens;  // of the block: block_tokens
    std::span<uint8_t> bytes;         // block_bytes; undefined unless ok

    Outcome outcome = Outcome::missing;  // set by get()
};

// Since the store was opened, but for the first two.
struct StoreStats {
    std::optional<uint64_t> blocks, bytes;  // now, as far as known here; nothing: the store does not tell
    std::optional<uint64_t> budget_bytes;   // nothing: not limited by this process
    uint64_t stored_total = 0, stored_bytes_total = 0;
    uint64_t not_stored_total = 0;  // no room, failed or late
    uint64_t read_total = 0, read_bytes_total = 0;
    uint64_t missing_total = 0, damaged_total = 0, failed_total = 0;  // of reads and look-ups
    uint64_t evicted_total = 0, expired_total = 0;                    // blocks
    std::string problem;  // of the last failure, for people; empty if nothing is known of it
};

class BlockStore {
  public:
    virtual ~BlockStore() = default;

    // For people and labels of metrics: "disk", "redis", ...
    virtual std::string name() const = 0;
    // How many of `keys`, which continue one another, are there, from the first on.
    virtual size_t find(std::span<const kv::BlockKey> keys, Clock::time_point deadline) = 0;
    // Stops at the first item that is not ok: the later ones cannot be used and are marked `late`.
    virtual void get(std::span<Get> items, Clock::time_point deadline) = 0;
    // Ordered: an item's parent stands before it or was put before. Returns when all that are `stored` would survive the
    // end of this process.
    virtual void put(std::span<Put> items, Clock::time_point deadline) = 0;
    // They were used: their time to live starts anew, at most once per eighth of it, and they are evicted later.
    virtual void touch(std::span<const kv::BlockKey> keys, Clock::time_point deadline) = 0;
    virtual StoreStats stats() const = 0;
};

}  // namespace deepinfer::store
