// Moves blocks between the pool and the stores behind it: one thread looks up and reads, and one for each store writes to it, so that
// a far one that stalls does not keep blocks from a near one. The engine thread hands over orders and takes reports; it never waits
// for a store.
//
// The memory named in an order must stay as it is until the report that gives it back.
//
// Threads: everything is called by the engine thread; `wake` is called by the others when there is a report.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "store/block_store.h"

namespace deepinfer::engine {

using Stores = std::vector<std::unique_ptr<store::BlockStore>>;  // nearest first

class BlockTransfer {
  public:
    using Ticket = uint64_t;
    static constexpr uint32_t all_stores = ~uint32_t{0};

    // Where a run of consecutive blocks is.
    struct Run {
        size_t store = 0;
        int32_t blocks = 0;
        double seconds_per_block = 0;  // that loading took lately
        bool measure_anew = false;     // of a load: what it takes counts alone
    };
    struct Lookup {
        Ticket ticket = 0;
        std::vector<kv::BlockKey> keys;
        Clock::time_point deadline;
    };
    struct Load {
        Ticket ticket = 0;
        std::vector<kv::BlockKey> keys;
        std::vector<TokenId> tokens;  // of all keys, one block after the other
        std::vector<std::span<uint8_t>> memory;
        std::vector<Run> runs;  // cover the keys
        Clock::time_point deadline;
    };
    struct Touch {
        Ticket ticket = 0;
        std::vector<kv::BlockKey> keys;
    };
    struct Write {
        store::Put put;                // its bytes are here or in the pool
        std::vector<uint8_t> bytes;    // given back in the report
        uint32_t stores = all_stores;  // bit i: into store i
    };

    struct Report {
        enum class Kind : uint8_t {
            located,  // `runs`: what was found
            loaded,   // `blocks` more are in memory
            ended,    // the load: nothing of it is written to any more; `outcome` says why, ok if complete
            touched,  // `runs`: of each store that lacks some of the keys, how many from the first on it has
            written,  // to store `store`, or not: `stored`. The order's last one: `bytes` are free again, `last`
        };
        Kind kind = Kind::located;
        Ticket ticket = 0;
        std::vector<Run> runs;
        int32_t blocks = 0;
        store::Get::Outcome outcome = store::Get::Outcome::ok;
        std::vector<uint8_t> bytes;
        size_t store = 0;
        bool stored = false;  // the store has it; of the last one: any store has it
        bool last = false;
    };

    // Throws std::system_error if the system gives it no thread.
    BlockTransfer(Stores stores, std::function<void()> wake);
    // Ends after the orders to write, but at most `drain_time` later, or as much as a store exceeds the deadline of a call;
    // loads and look-ups end with the call that they are in, at most `read_time` later.
    ~BlockTransfer();

    size_t stores() const { return stores_.size(); }
    const store::BlockStore& store(size_t i) const { return *stores_[i]; }

    void look_up(Lookup order);
    void load(Load order);
    void cancel_load(Ticket ticket);  // its end is reported soon
    void write(Write order);
    // They are used from the pool: stores keep them longer. False: not now, and nothing is reported.
    bool touch(Touch order);
    std::vector<Report> reports();

    static constexpr auto drain_time = std::chrono::seconds(5);
    static constexpr auto read_time = std::chrono::seconds(2);   // of one call
    static constexpr auto write_time = std::chrono::seconds(4);  // of one call

  private:
    // What reading from a store takes, lately.
    struct Speed {
        double seconds_per_block = 1e-3;
        int32_t observed = 0;
        void observe(size_t blocks, double seconds);
    };
    struct Loading {
        Load order;
        size_t done = 0, run = 0;  // blocks that are there; the run that comes next
        int32_t in_run = 0;        // blocks of it that are there
        bool cancelled = false;
    };

    // An order to write, on its way to several stores. The mutex's.
    struct Writing {
        Write order;
        size_t left = 0;  // stores that have not had it
        bool stored = false;
    };
    struct Writer {
        std::deque<std::shared_ptr<Writing>> queue;  // the mutex's
        std::condition_variable wake;
        std::thread thread;
    };

    void stop();
    void read_loop();
    void write_loop(size_t store);
    void answer(const Lookup& order);
    void touch_all(const Touch& order);
    bool load_some(Loading& loading);  // true: ended
    void report(Report report);

    Stores stores_;
    const std::function<void()> wake_;
    std::vector<Speed> speeds_;  // the reading thread's

    std::mutex mutex_;  // of all below
    std::condition_variable read_wake_;
    std::deque<Lookup> lookups_;
    std::deque<Load> loads_;
    std::vector<Ticket> cancelled_;
    std::deque<Touch> touches_;
    std::vector<Report> reports_;
    bool stopping_ = false;
    Clock::time_point stop_by_{};

    std::thread reader_;
    std::vector<std::unique_ptr<Writer>> writers_;  // by store
};

}  // namespace deepinfer::engine
