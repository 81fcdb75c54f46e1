// A fixed set of threads that run one piece of work together, for the many short phases of a forward pass.
//
// The calling thread is thread 0. Between phases a thread spins about as long as a wake-up costs (a park and
// wake through the kernel is ~20 us here), then parks; so back-to-back phases cost a fraction of a
// microsecond, an idle engine costs nothing, and a busy neighbour on the same core costs a bounded loss
// instead of a collapse.
//
// Threads: run() and for_each() are called by one thread at a time (the owner); they return when all work is
// done.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

namespace deepinfer {

class ThreadPool {
  public:
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const { return static_cast<int>(workers_.size()) + 1; }

    // f(thread) on every thread, thread = 0 .. threads()-1.
    template <class F>
    void run(F&& f) {
        if (workers_.empty()) return f(0);
        start([](void* context, int thread) { (*static_cast<std::remove_reference_t<F>*>(context))(thread); },
              &f);
        do_share(0);
        wait();
    }

    // f(begin, end, thread) over [0, count) in pieces of at most `piece`, handed out to whichever thread is
    // free.
    template <class F>
    void for_each(int count, int piece, F&& f) {
        if (count <= 0) return;
        if (workers_.empty() || count <= piece) return f(0, count, 0);
        std::atomic<int> next{0};
        run([&](int thread) {
            for (int begin; (begin = next.fetch_add(piece, std::memory_order_relaxed)) < count;)
                f(begin, begin + piece < count ? begin + piece : count, thread);
        });
    }

  private:
    using Job = void (*)(void* context, int thread);
    void start(Job job, void* context);
    void do_share(int thread);  // runs the job, keeping what it throws
    void wait();                // for all shares; throws what one of them threw
    void work(int thread);

    Job job_ = nullptr;  // written before epoch_ is raised, read after it was seen raised
    void* context_ = nullptr;
    std::atomic<uint32_t> epoch_{0};
    std::atomic<int32_t> pending_{0};
    std::atomic<bool> stop_{false};
    std::atomic<bool> failed_{false};
    std::exception_ptr failure_;  // written by the share that sets failed_, read after all are done
    std::vector<std::thread> workers_;
};

// Processors this process may run on.
int available_processors();

}  // namespace deepinfer
