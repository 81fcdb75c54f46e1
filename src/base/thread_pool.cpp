#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/cpu_quota.h"
#include "base/start_thread.h"

namespace deepinfer {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

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
    const auto end = Clock::now() + std::chrono::microseconds(budget_us);
    do {
        for (int i = 0; i < 64; ++i) {
            if (ready()) {
                budget_us = std::min(longest_spin_us, 2 * budget_us);
                return true;
            }
            pause_briefly();
        }
    } while (Clock::now() < end);
    budget_us = std::max(shortest_spin_us, budget_us / 2);
    return ready();
}

// How much of its processor a worker gets, judged from time to time.
constexpr Clock::duration window = milliseconds(10), withdrawal_step = milliseconds(20);
constexpr Clock::duration shortest_withdrawal = milliseconds(100), longest_withdrawal = milliseconds(800);

class Processor {
  public:
    Processor() { begin(Clock::now()); }
    void begin(Clock::time_point at) {
        start_ = at;
        start_cpu_ = cpu_time();
        slept_ = {};
    }
    void slept(Clock::duration time) { slept_ += time; }

    // Zero while all is well. Else longer each time, until a window passes undisturbed.
    Clock::duration time_to_withdraw() {
        const auto now = Clock::now();
        if (now - start_ < window) return {};
        const auto awake = now - start_ - slept_, lost = awake - (cpu_time() - start_cpu_);
        const bool disturbed = awake > window / 2 && 4 * lost > awake;
        const auto rest = disturbed ? withdrawal_ : Clock::duration::zero();
        withdrawal_ = disturbed ? std::min(2 * withdrawal_, longest_withdrawal) : shortest_withdrawal;
        begin(now);
        return rest;
    }

  private:
    static Clock::duration cpu_time() {
        timespec t{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
    }
    Clock::time_point start_;
    Clock::duration start_cpu_{}, slept_{}, withdrawal_ = shortest_withdrawal;
};

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
    workers_.reserve(static_cast<size_t>(count));
    try {
        for (int i = 1; i < count; ++i) workers_.emplace_back([this, i] { work(i); });
    } catch (const std::system_error& error) {
        const auto started = static_cast<int>(workers_.size());
        end_workers();
        throw std::runtime_error(thread_error("that compute", started, count - 1, error).message);
    }
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int threads, const Topology& topology, bool pin) {
    try {
        return std::make_unique<ThreadPool>(threads, topology, pin);
    } catch (const std::runtime_error& error) {
        return Error{ErrorCode::resource_exhausted, error.what()};
    }
}

ThreadPool::~ThreadPool() { end_workers(); }

void ThreadPool::end_workers() {
    stop_.store(true, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);  // with no job that is open
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

void ThreadPool::open(Job job, void* context) {
    job_ = job;
    context_ = context;
    const uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
    state_.store(epoch << 16 | open_bit, std::memory_order_release);
    epoch_.store(epoch, std::memory_order_release);
    epoch_.notify_all();
}

bool ThreadPool::join(uint32_t epoch) {
    uint32_t state = state_.load(std::memory_order_relaxed);
    do {
        if (state >> 16 != (epoch & 0xffff) || !(state & open_bit)) return false;
    } while (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                           std::memory_order_relaxed));
    return true;
}

void ThreadPool::leave() {
    const uint32_t before = state_.fetch_sub(1, std::memory_order_acq_rel);
    if (!(before & open_bit) && (before & members) == 1)
        state_.notify_one();  // the caller waits for the last one
}

void ThreadPool::do_share(int thread) {
    try {
        job_(context_, thread);
    } catch (...) {
        if (!failed_.exchange(true, std::memory_order_relaxed)) failure_ = std::current_exception();
    }
}

void ThreadPool::close() {
    state_.fetch_and(~open_bit, std::memory_order_acq_rel);
    const auto done = [this] { return (state_.load(std::memory_order_acquire) & members) == 0; };
    if (!spin_until(spin_us_, done))
        for (uint32_t state; (state = state_.load(std::memory_order_acquire)) & members;)
            state_.wait(state, std::memory_order_acquire);
    if (failed_.exchange(false, std::memory_order_relaxed))
        std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::work(int thread) {
    if (const int processor = places_[static_cast<size_t>(thread)].processor; processor >= 0)
        bind_this_thread({processor});
    int spin_us = longest_spin_us;
    uint32_t seen = 0;
    Processor processor;
    while (!stop_.load(std::memory_order_relaxed)) {
        if (!spin_until(spin_us, [&] { return epoch_.load(std::memory_order_acquire) != seen; })) {
            const auto from = Clock::now();
            epoch_.wait(seen, std::memory_order_acquire);
            processor.slept(Clock::now() - from);
        }
        const uint32_t epoch = epoch_.load(std::memory_order_acquire);
        if (epoch == seen) continue;
        seen = epoch;
        if (stop_.load(std::memory_order_relaxed)) return;
        if (!join(epoch)) continue;
        do_share(thread);
        leave();
        auto rest = processor.time_to_withdraw();
        if (rest == Clock::duration::zero()) continue;
        for (; rest > Clock::duration::zero(); rest -= withdrawal_step) {
            if (stop_.load(std::memory_order_relaxed)) return;
            std::this_thread::sleep_for(withdrawal_step);
        }
        processor.begin(Clock::now());
    }
}

int available_processors() { return threads_within(Topology::of_this_process().processors(), cpu_quota()); }

}  // namespace deepinfer
