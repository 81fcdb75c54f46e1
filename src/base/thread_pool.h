// A fixed set of threads that run one piece of work together, for the many short phases of a forward pass.
//
// The calling thread is thread 0. Between phases a thread spins about as long as a wake-up costs (a park and
// wake through the kernel is ~20 us here), then parks; so back-to-back phases cost a fraction of a
// microsecond and an idle engine costs nothing. A thread whose spinning was in vain spins less the next time.
//
// Busy neighbours: work is handed out in pieces to whoever takes part; nobody waits for a worker that has not begun.
// A worker that gets less than three quarters of its processor withdraws for a while, because a piece that it holds
// while another process runs in its place holds up everyone.
//
// Memory nodes: work that is handed out by for_each_guided() is cut into one range per memory node, always in
// the same way, and a thread takes from its own node's range before it helps elsewhere. So what a thread
// touched first while loading is what it reads while computing.
//
// Threads: for_each() and for_each_guided() are called by one thread at a time (the owner); they return when all
// work is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "base/topology.h"

namespace deepinfer {

class ThreadPool {
  public:
    // As the constructor below; resource_exhausted if the system does not give so many threads.
    static Result<std::unique_ptr<ThreadPool>> create(int threads, const Topology& topology, bool pin);
    // Threads that run anywhere.
    explicit ThreadPool(int threads);
    // Threads spread evenly over the nodes of `topology` and, if `pin`, each bound to a processor of its own as
    // long as there are enough. The caller is bound only inside a PinnedCaller. Throws std::runtime_error.
    ThreadPool(int threads, const Topology& topology, bool pin);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const { return static_cast<int>(workers_.size()) + 1; }
    int node_of(int thread) const { return places_[static_cast<size_t>(thread)].node; }
    int nodes() const { return static_cast<int>(node_threads_.size()); }

    // While it lives, the calling thread is bound to thread 0's processor, if the pool is pinned.
    class PinnedCaller {
      public:
        explicit PinnedCaller(const ThreadPool& pool);
        ~PinnedCaller();
        PinnedCaller(const PinnedCaller&) = delete;
        PinnedCaller& operator=(const PinnedCaller&) = delete;

      private:
        std::vector<int> before_;  // processors allowed before; empty if nothing was changed
    };

    // f(begin, end, thread) over [0, count) in pieces of at most `piece`, handed out to whichever thread is
    // free.
    template <class F>
    void for_each(int count, int piece, F&& f) {
        if (count <= 0) return;
        if (workers_.empty() || count <= piece) return f(0, count, 0);
        std::atomic<int> next{0};
        share([&](int thread) {
            for (int begin; (begin = next.fetch_add(piece, std::memory_order_relaxed)) < count;)
                f(begin, begin + piece < count ? begin + piece : count, thread);
        });
    }

    // The same in pieces that shrink as the work runs out, from an even share down to `smallest`: few
    // hand-outs, and nobody waits long at the end. Node by node, as described above.
    template <class F>
    void for_each_guided(int count, int smallest, F&& f) {
        if (count <= 0) return;
        if (workers_.empty() || count <= smallest) return f(0, count, 0);
        Ranges ranges(*this, count, smallest);
        share([&](int thread) {
            for (int begin, end; ranges.take(node_of(thread), begin, end);) f(begin, end, thread);
        });
    }

  private:
    struct Place {
        int node = 0, processor = -1;  // -1: anywhere
    };
    static constexpr int most_nodes = 16;  // threads are spread over no more than these
    class Ranges {
      public:
        Ranges(const ThreadPool& pool, int count, int smallest);
        bool take(int node, int& begin, int& end);  // of this node, else of the nearest that has work left

      private:
        struct alignas(64) Range {
            std::atomic<int> next{0};
            int end = 0, threads = 1;
        };
        bool take_from(Range& range, int& begin, int& end) const;
        int nodes_, smallest_;
        Range ranges_[most_nodes];
    };

    // f(thread) on the calling thread and on each worker that comes while it runs.
    template <class F>
    void share(F&& f) {
        open([](void* context, int thread) { (*static_cast<std::remove_reference_t<F>*>(context))(thread); },
             &f);
        do_share(0);
        close();
    }

    using Job = void (*)(void* context, int thread);
    void open(Job job, void* context);  // to the workers
    void close();                       // waits for those who came; throws what one share threw
    void do_share(int thread);          // runs the job, keeping what it throws
    bool join(uint32_t epoch);
    void leave();
    void work(int thread);
    void end_workers();

    Job job_ = nullptr;  // written before state_ opens, read by those who joined
    void* context_ = nullptr;
    int spin_us_;  // of the caller in close(); workers keep their own
    std::vector<Place> places_;
    std::vector<int> node_threads_;               // threads of each node
    alignas(64) std::atomic<uint32_t> epoch_{0};  // number of jobs so far; parked workers wait for the next
    // The current job: low half of its epoch << 16 | open_bit | workers in it. A worker joins by adding itself to
    // exactly the state it saw open, so it never touches a job that has been closed.
    alignas(64) std::atomic<uint32_t> state_{0};
    static constexpr uint32_t open_bit = 1u << 15, members = open_bit - 1;
    std::atomic<bool> stop_{false};
    std::atomic<bool> failed_{false};
    std::exception_ptr failure_;  // written by the share that sets failed_, read after all are done
    std::vector<std::thread> workers_;
};

// Processors this process may run on, or fewer if its control group's quota does not keep them busy.
int available_processors();

}  // namespace deepinfer
