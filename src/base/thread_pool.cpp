#include "base/thread_pool.h"

#include <sched.h>

#include <chrono>
#include <utility>

namespace deepinfer {

namespace {

void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Spins until ready() or about 20 us have passed; true if ready.
template <class F>
bool spin_until(F&& ready) {
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + std::chrono::microseconds(20);
    do {
        for (int i = 0; i < 64; ++i) {
            if (ready()) return true;
            pause_briefly();
        }
    } while (clock::now() < end);
    return ready();
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
    stop_.store(true, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::start(Job job, void* context) {
    job_ = job;
    context_ = context;
    pending_.store(static_cast<int32_t>(workers_.size()), std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
}

void ThreadPool::do_share(int thread) {
    try {
        job_(context_, thread);
    } catch (...) {
        if (!failed_.exchange(true, std::memory_order_relaxed)) failure_ = std::current_exception();
    }
}

void ThreadPool::wait() {
    if (!spin_until([this] { return pending_.load(std::memory_order_acquire) == 0; }))
        for (int32_t left; (left = pending_.load(std::memory_order_acquire)) != 0;)
            pending_.wait(left, std::memory_order_acquire);
    if (failed_.exchange(false, std::memory_order_relaxed))
        std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::work(int thread) {
    uint32_t seen = 0;
    for (;;) {
        if (!spin_until([&] { return epoch_.load(std::memory_order_acquire) != seen; }))
            epoch_.wait(seen, std::memory_order_acquire);
        if (epoch_.load(std::memory_order_acquire) == seen) continue;
        ++seen;
        if (stop_.load(std::memory_order_relaxed)) return;
        do_share(thread);
        if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
    }
}

int available_processors() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    const unsigned n = std::thread::hardware_concurrency();
    return n ? static_cast<int>(n) : 1;
}

}  // namespace deepinfer
