#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace deepinfer {

namespace {

// A park and a wake cost ~20 us here; spinning longer than that never pays, spinning in vain costs its time.
constexpr int longest_spin_us = 20, shortest_spin_us = 2;

void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Spins until ready() or about `budget_us` have passed; true if ready. The budget halves after a spin in vain
// and doubles after one that was worth it.
template <class F>
bool spin_until(int& budget_us, F&& ready) {
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + std::chrono::microseconds(budget_us);
    do {
        for (int i = 0; i < 64; ++i) {
            if (ready()) {
                budget_us = std::min(longest_spin_us, 2 * budget_us);
                return true;
            }
            pause_briefly();
        }
    } while (clock::now() < end);
    budget_us = std::max(shortest_spin_us, budget_us / 2);
    return ready();
}

void bind_this_thread(const std::vector<int>& processors) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : processors)
        if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // a wish; unbound threads work as well
}

}  // namespace

ThreadPool::ThreadPool(int threads) : ThreadPool(threads, Topology{{{0}}}, false) {}

ThreadPool::ThreadPool(int threads, const Topology& topology, bool pin) : spin_us_(longest_spin_us) {
    const int count = std::max(threads, 1),
              nodes = std::min({static_cast<int>(topology.nodes.size()), most_nodes, count});
    node_threads_.assign(static_cast<size_t>(nodes), 0);
    for (int i = 0; i < count; ++i) {
        const int node = static_cast<int>(static_cast<int64_t>(i) * nodes / count);
        const auto& processors = topology.nodes[static_cast<size_t>(node)];
        const auto used = static_cast<size_t>(node_threads_[static_cast<size_t>(node)]++);
        places_.push_back({node, pin && used < processors.size() ? processors[used] : -1});
    }
    for (int i = 1; i < count; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
    stop_.store(true, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

ThreadPool::PinnedCaller::PinnedCaller(const ThreadPool& pool) {
    const int processor = pool.places_[0].processor;
    cpu_set_t set;
    if (processor < 0 || pthread_getaffinity_np(pthread_self(), sizeof set, &set) != 0) return;
    for (int i = 0; i < CPU_SETSIZE; ++i)
        if (CPU_ISSET(i, &set)) before_.push_back(i);
    bind_this_thread({processor});
}

ThreadPool::PinnedCaller::~PinnedCaller() {
    if (!before_.empty()) bind_this_thread(before_);
}

ThreadPool::Ranges::Ranges(const ThreadPool& pool, int count, int smallest)
    : nodes_(pool.nodes()), smallest_(std::max(smallest, 1)) {
    int before = 0;
    for (int n = 0; n < nodes_; ++n) {
        Range& range = ranges_[n];
        range.threads = pool.node_threads_[static_cast<size_t>(n)];
        const auto at = [&](int threads) {
            return static_cast<int>(static_cast<int64_t>(count) * threads / pool.threads());
        };
        range.next.store(at(before), std::memory_order_relaxed);
        before += range.threads;
        range.end = at(before);
    }
}

bool ThreadPool::Ranges::take_from(Range& range, int& begin, int& end) const {
    int at = range.next.load(std::memory_order_relaxed), piece = 0;
    do {
        const int left = range.end - at;
        if (left <= 0) return false;
        piece = std::min(left, std::max(smallest_, left / (2 * range.threads)));
    } while (!range.next.compare_exchange_weak(at, at + piece, std::memory_order_relaxed));
    begin = at;
    end = at + piece;
    return true;
}

bool ThreadPool::Ranges::take(int node, int& begin, int& end) {
    for (int i = 0; i < nodes_; ++i)
        if (take_from(ranges_[(node + i) % nodes_], begin, end)) return true;
    return false;
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
    if (!spin_until(spin_us_, [this] { return pending_.load(std::memory_order_acquire) == 0; }))
        for (int32_t left; (left = pending_.load(std::memory_order_acquire)) != 0;)
            pending_.wait(left, std::memory_order_acquire);
    if (failed_.exchange(false, std::memory_order_relaxed))
        std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::work(int thread) {
    if (const int processor = places_[static_cast<size_t>(thread)].processor; processor >= 0)
        bind_this_thread({processor});
    int spin_us = longest_spin_us;
    uint32_t seen = 0;
    for (;;) {
        if (!spin_until(spin_us, [&] { return epoch_.load(std::memory_order_acquire) != seen; }))
            epoch_.wait(seen, std::memory_order_acquire);
        if (epoch_.load(std::memory_order_acquire) == seen) continue;
        ++seen;
        if (stop_.load(std::memory_order_relaxed)) return;
        do_share(thread);
        if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
    }
}

int available_processors() { return Topology::of_this_process().processors(); }

}  // namespace deepinfer
