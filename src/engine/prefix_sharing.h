// What sequences find in the prefix cache and what they leave there.
//
// A prompt's first full blocks may be there already; then they are not computed again. While one sequence computes blocks,
// another that needs the same ones waits for them instead of computing them a second time; if the first one ends or gives
// way, the other goes on itself. Every block enters when all its tokens are computed, those of the answer as well: so the
// next turn of a conversation finds all of this one.
//
// Threads: owned by the engine thread.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "kv/prefix_cache.h"

namespace deepinfer::engine {

class PrefixSharing {
  public:
    // `times` says what a block is worth; it and `pool` must outlive this. `fingerprint`: kv::CacheScope. Not `enabled`:
    // nothing is found and nothing is kept.
    PrefixSharing(kv::BlockPool& pool, const StepTimes& times, const kv::BlockKey& fingerprint, bool enabled)
        : cache_(pool), times_(times), fingerprint_(fingerprint), enabled_(enabled) {}

    // A sequence that was just submitted by `tenant`.
    void enter(Sequence& s, const std::string& tenant, const std::string& salt) const;
    // Of a waiting sequence: looks what of it is there, and whether others are computing what it needs next. Sets
    // `found` and `held`. True if `found` changed.
    bool look(Sequence& s) const;
    // The same for `found` alone.
    bool look_again(Sequence& s) const;
    // Of waiting sequences that need the same block next, all are held but the one whose turn comes first.
    void hold_back_twins(const std::deque<SequencePtr>& waiting) const;
    // Blocks that admitting a waiting sequence takes from available(), though they are found.
    int32_t revived(const Sequence& s) const { return cache_.unreferenced(prefix(s), s.found); }
    // Of a sequence that begins: why the tokens of its prompt that are not cached are not. Nothing without a cache.
    CacheMisses misses(const Sequence& s) const;
    // Gives an admitted sequence the blocks that were found, and the right to compute the others.
    void admit(Sequence& s);
    struct Entered {
        int32_t index = 0;
        double seconds = 0;  // that computing it takes; 0: not known
    };
    struct Published {
        std::vector<Entered> entered;  // are new in the cache
        std::vector<kv::BlockId>
            replaced;  // that the sequence gave up for another's equal ones; still referenced
    };
    // The first `computed` tokens of a running sequence are in its blocks.
    Published publish(Sequence& s, int32_t computed);
    // The sequence ends or gives way: others need not wait for it any more. Before its blocks are released.
    void leave(Sequence& s);

    kv::BlockId allocate() { return cache_.allocate(); }
    int32_t available() const { return cache_.available(); }
    kv::PrefixCache& cache() { return cache_; }

  private:
    static kv::Prefix prefix(const Sequence& s) {
        return {std::span(s.keys).first(std::min(s.keys.size(), static_cast<size_t>(s.usable))), s.tokens};
    }

    kv::PrefixCache cache_;
    const StepTimes& times_;
    const kv::BlockKey fingerprint_;
    const bool enabled_;
    std::unordered_map<kv::BlockKey, const Sequence*, kv::BlockKeyHash> claims_;  // blocks being computed
};

}  // namespace deepinfer::engine
