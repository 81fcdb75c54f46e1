// Finds the blocks of the pool that hold the beginning of a token sequence. Blocks enter when all their tokens are
// computed, never change, and are shared by whoever needs them; they leave when the pool needs room.
//
// Which block leaves: of those that nobody references and no other block continues, the one of the lowest value
// (GreedyDual: the seconds that computing it again would take, plus the value of the block that left last when it was used
// last). So a sequence goes from its end, what costs more stays longer, and what is not used ages.
//
// A key is trusted no further than its hash: the tokens are kept with the block and compared on every hit.
//
// Threads: owned by the engine thread, as the pool.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/duration_histogram.h"
#include "base/token.h"
#include "kv/block_key.h"
#include "kv/block_pool.h"

namespace deepinfer::kv {

// The full blocks of a token sequence: keys[i] names tokens[64 i ... 64 i + 63] after all before.
struct Prefix {
    std::span<const BlockKey> keys;
    std::span<const TokenId> tokens;  // at least 64 for each key

    std::span<const TokenId> block(size_t i) const { return tokens.subspan(i * block_tokens, block_tokens); }
};

class PrefixCache {
  public:
    // `pool` must outlive it.
    explicit PrefixCache(BlockPool& pool) : pool_(pool) {}
    PrefixCache(const PrefixCache&) = delete;

    // How many blocks of the prefix are there, from the first on. `known`: what it was the last time; only what changed
    // since is looked at.
    int32_t match(const Prefix& prefix, int32_t known = 0) const;
    // Of the first `count` blocks, which match() found: how many nobody references, so that acquire() takes them out of
    // available().
    int32_t unreferenced(const Prefix& prefix, int32_t count) const;
    // References the first `count` blocks, which match() found, for the caller, and counts it as a use. Each is compared once
    // more, token by token from the first; so there may be fewer, if keys collided.
    std::vector<BlockId> acquire(const Prefix& prefix, int32_t count);

    // `table[index]` holds block `index` of the prefix; it is computed and will not be written again. Returns the block that
    // the caller is to hold in its place: if the same was published by somebody else before, theirs, referenced for the
    // caller, who releases its own when no step uses it any more; else its own, which has entered unless the block
    // before it is not the one that is here.
    BlockId publish(const Prefix& prefix, int32_t index, std::span<const BlockId> table,
                    double seconds_to_compute);
    // Where block `index` of the prefix is; -1: not here.
    BlockId block_of(const Prefix& prefix, int32_t index) const {
        const Entry* entry = find(prefix, static_cast<size_t>(index));
        return entry ? entry->block : -1;
    }
    bool holds(BlockId block) const { return owner_of(block) != nullptr; }
    bool holds(BlockId block, const BlockKey& key) const {
        return holds(block) && owner_of(block)->key == key;
    }

    // Blocks that allocate() can give.
    int32_t available() const { return pool_.free() + pool_.kept(); }
    // A free block, if need be one that is not worth keeping; -1 if there is none.
    BlockId allocate();
    // It was here and made room, not long ago: less than twice as many blocks as the pool has left since.
    bool evicted_lately(const BlockKey& key) const { return gone_.contains(key); }
    // Forgets all blocks; those that are referenced are their owners' alone from then on.
    void clear();

    struct Stats {
        uint64_t blocks = 0;  // now
        uint64_t evicted_total = 0;
        DurationHistogram lifetime;   // of blocks that made room, since they entered
        DurationHistogram idle;       // of these, since they were used last
        DurationHistogram reuse_gap;  // from one use to the next
    };
    const Stats& stats() const { return stats_; }
    // Walks everything; a message for the first thing that is wrong, or empty. For tests.
    std::string check() const;

  private:
    struct Entry {
        BlockKey key;
        Entry* parent = nullptr;  // null: the first block of a sequence
        BlockId block = -1;
        int32_t children = 0;
        double seconds = 0, value = 0;
        uint64_t used = 0;  // when, in uses of any
        std::chrono::steady_clock::time_point entered_at, used_at;
        std::array<TokenId, block_tokens> tokens{};
    };
    struct ByValue {
        bool operator()(const Entry* a, const Entry* b) const {
            return a->value != b->value ? a->value < b->value : a->used < b->used;
        }
    };

    const Entry* find(const Prefix& prefix, size_t i) const;
    Entry* owner_of(BlockId block) const {
        const auto i = static_cast<size_t>(block);
        return i < owners_.size() ? owners_[i] : nullptr;
    }
    void use(Entry& entry);
    void set_value(Entry& entry) { entry.value = floor_ + entry.seconds, entry.used = ++uses_; }
    void evict(Entry& entry);
    void note_eviction(const Entry& entry);

    BlockPool& pool_;
    std::unordered_map<BlockKey, Entry, BlockKeyHash> entries_;
    std::set<Entry*, ByValue> leaves_;                 // entries without children
    std::vector<Entry*> owners_;                       // by block
    double floor_ = 0;                                 // value of the block that left last
    std::unordered_set<BlockKey, BlockKeyHash> gone_;  // those that made room last
    std::deque<BlockKey> gone_order_;                  // the same, the longest gone first
    uint64_t uses_ = 0;
    Stats stats_;
};

}  // namespace deepinfer::kv
