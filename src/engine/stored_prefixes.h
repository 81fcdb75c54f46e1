// The prefix cache beyond the pool: blocks that were computed are written to the stores behind decoding, and what a waiting
// sequence does not find in the pool is looked for there and loaded, while others run.
//
//   A sequence looks once. What is found is loaded as far as that takes no more than half of the time that computing it would
//   (by the cost model and the store's speed lately), and no longer than that. Blocks enter the pool's cache as they
//   come; when the load ends, complete or cut off, the sequence goes on with what is there.
//   A store that answers nothing, not even late, holds up nobody: who waits goes on, and it is not asked until it answers.
//   What is used from the pool and lacking in a store (which was down then, or lost it) is written again, once a minute at most.
//   A block is written once, in the order of computing. It is copied for that, when its turn comes: only so many copies at a
//   time for each store; the others wait, and are dropped if the pool needs their room first. A store that does not move any more is
//   not waited for.
//
// Threads: owned by the engine thread. Never waits.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "engine/block_transfer.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "kv/prefix_cache.h"

namespace deepinfer::engine {

class StoredPrefixes {
  public:
    // All but `stores` must outlive it. Counts in `counters`: cache_lookups_total and what follows it.
    StoredPrefixes(kv::PrefixCache& cache, kv::BlockPool& pool, const StepTimes& times, EngineStats& counters,
                   Stores stores, std::function<void()> wake);
    // Writes what waits, for at most BlockTransfer::drain_time.
    ~StoredPrefixes();

    bool enabled() const { return transfer_ != nullptr; }
    // Of a waiting sequence that is not held back: looks, loads. True while it is to wait for that. `spare`: blocks that must
    // stay available to those that run; `others_run`: they will give some back.
    bool fetch(const SequencePtr& s, int32_t spare, bool others_run);
    // It ends: its load does, too.
    void give_up(const Sequence& s);
    // Block `index` of the sequence has entered the cache; computing it takes so long.
    void offer(const Sequence& s, int32_t index, double seconds);
    // It starts with the first `found` blocks: they stay longer in the stores, too.
    void started(const SequencePtr& s);
    // Takes over what the stores have done.
    void receive();
    // No block is referenced from here.
    bool idle() const { return loads_.empty(); }
    size_t loads() const { return loads_.size(); }

    // EngineStats::tiers, with the hits of `stats`. Any thread.
    std::vector<TierStats> tiers(const EngineStats& stats) const;

  private:
    struct Located {
        int32_t first = 0;  // block that the runs begin with
        std::vector<BlockTransfer::Run> runs;
    };
    struct Loading {
        SequencePtr sequence;
        std::vector<kv::BlockId> table;  // referenced
        size_t ready = 0;                // of them in the cache
        std::vector<BlockTransfer::Run> runs;
        size_t run = 0;
        int32_t in_run = 0;
    };

    void look_up(const SequencePtr& s);
    static void skip(Located& located, int32_t found);
    int32_t cut_to_worth(Sequence& s, Located& located);
    bool begin_load(const SequencePtr& s, Located& located, int32_t spare, bool others_run);
    void loaded(Loading& loading, int32_t blocks);
    void ended(Loading& loading, store::Get::Outcome outcome);
    bool give_up_waiting(Sequence& s);
    void write_lacking(const Sequence& s, const BlockTransfer::Run& has);
    std::optional<uint32_t> ready_stores(uint32_t stores, int32_t most) const;
    void write_more();
    double seconds_to_compute(int32_t first, int32_t blocks) const;
    void queue_write(const Sequence& s, int32_t index, kv::BlockId block, double seconds, uint32_t stores);

    kv::PrefixCache& cache_;
    kv::BlockPool& pool_;
    const StepTimes& times_;
    // Of each store, below 1 while loads from it are not begun, since they were slow: what is not tried is not measured, so
    // that after a while one is tried again.
    std::vector<double> doubt_;
    std::unordered_map<uint64_t, SequencePtr> looking_;
    std::unordered_map<uint64_t, Located> located_;
    std::unordered_map<uint64_t, Loading> loads_;
    std::unordered_map<uint64_t, SequencePtr> touched_;
    bool unresponsive_ = false;  // a search had to be given up, and nothing came from the stores since
    std::unordered_map<kv::BlockKey, Clock::time_point, kv::BlockKeyHash> written_again_;
    struct Waiting {
        kv::BlockId block = -1;
        BlockTransfer::Write order;  // its bytes are those of the block
    };
    std::deque<Waiting> waiting_writes_;
    // Of each store: copies on their way to it, and when it took one last.
    struct Backlog {
        int32_t blocks = 0;
        Clock::time_point moved{};
    };
    std::vector<Backlog> backlog_;
    std::vector<std::vector<uint8_t>> spare_;  // copies that may be written over
    uint64_t next_ticket_ = 1;
    EngineStats& counters_;
    std::unique_ptr<BlockTransfer> transfer_;  // null without stores
};

}  // namespace deepinfer::engine
