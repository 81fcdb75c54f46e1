#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "support/few_threads.h"

namespace deepinfer {
namespace {

TEST(ThreadPool, EveryPieceIsDoneOnceWhateverTheNumberOfThreads) {
    for (int threads : {1, 2, 3, 8}) {
        ThreadPool pool(threads);
        EXPECT_EQ(pool.threads(), threads);
        for (int count : {0, 1, 5, 1000}) {
            for (int round = 0; round < 200; ++round) {
                std::vector<int> done(static_cast<size_t>(count), 0);
                pool.for_each(count, 3, [&](int begin, int end, int thread) {
                    ASSERT_LT(thread, threads);
                    for (int i = begin; i < end; ++i) ++done[static_cast<size_t>(i)];
                });
                ASSERT_EQ(std::count(done.begin(), done.end(), 1), count);
            }
        }
    }
}

// Pieces that wait for each other can only be done by as many threads.
void meet(ThreadPool& pool) {
    std::atomic<int> here{0};
    pool.for_each(pool.threads(), 1, [&](int, int, int) {
        here.fetch_add(1);
        while (here.load() < pool.threads()) std::this_thread::yield();
    });
    EXPECT_EQ(here.load(), pool.threads());
}

TEST(ThreadPool, ThreadsThatTheSystemDoesNotGiveAreAnError) {
    for (unsigned more : {0u, 2u})  // with some started, those must end
        EXPECT_EXIT((allow_threads(more), exit_with(ThreadPool::create(8, Topology{{{0}}}, false))),
                    testing::ExitedWithCode(0), "cannot start thread . of 7 that compute .*--threads");
}

TEST(ThreadPool, WorksAfterTheWorkersHaveParked) {
    ThreadPool pool(3);
    for (int round = 0; round < 20; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far longer than the workers spin
        meet(pool);
    }
}

TEST(ThreadPool, NobodyWaitsForAWorkerThatHasNotBegun) {
    ThreadPool pool(2);
    for (int round = 0; round < 1000; ++round) {
        // The worker of this round may come late, into the next round, or not at all.
        std::atomic<int> done{0};
        pool.for_each(2, 1, [&](int, int, int) { done.fetch_add(1); });
        ASSERT_EQ(done.load(), 2);
    }
}

TEST(ThreadPool, AnExceptionEndsTheCallAndNotTheProcess) {
    for (int threads : {1, 2, 4}) {
        ThreadPool pool(threads);
        for (int thrower = 0; thrower < threads; ++thrower) {
            EXPECT_THROW(pool.for_each(threads, 1,
                                       [&](int begin, int, int) {
                                           if (begin == thrower) throw std::runtime_error("full");
                                       }),
                         std::runtime_error);
            meet(pool);  // the pool works on
        }
    }
}

// Whether a thread on this processor gets nearly all of it for some milliseconds.
bool is_free(int processor) {
    bool free = false;
    std::thread([&] {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(processor, &set);
        sched_setaffinity(0, sizeof set, &set);
        const auto cpu_seconds = [] {
            timespec t{};
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
            return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
        };
        const double before = cpu_seconds();
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
        while (std::chrono::steady_clock::now() < end) {
        }
        free = cpu_seconds() - before > 0.027;
    }).join();
    return free;
}

// Two busy threads on one processor: the worker withdraws, the caller does the work, and later it comes back.
TEST(ThreadPool, AWorkerWithABusyNeighbourWithdraws) {
    const Topology here = Topology::of_this_process();
    if (here.processors() < 2) GTEST_SKIP() << "needs two processors";
    ThreadPool pool(2, Topology{{{here.nodes[0][0], here.nodes.back().back()}}}, true);
    ThreadPool::PinnedCaller pinned(pool);
    std::atomic<bool> stop{false};
    std::thread neighbour([&] {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(here.nodes.back().back(), &set);
        sched_setaffinity(0, sizeof set, &set);
        while (!stop.load(std::memory_order_relaxed)) {
        }
    });
    const auto share_of_worker = [&](std::chrono::milliseconds time) {
        int worker = 0, all = 0;
        for (const auto end = std::chrono::steady_clock::now() + time;
             std::chrono::steady_clock::now() < end;) {
            std::atomic<int> by_worker{0};
            pool.for_each(8, 1, [&](int, int, int thread) {
                volatile int x = 0;
                for (int i = 0; i < 20000; ++i) x = x + 1;
                by_worker += thread;
            });
            worker += by_worker, all += 8;
        }
        return static_cast<double>(worker) / all;
    };
    share_of_worker(std::chrono::milliseconds(300));
    EXPECT_LT(share_of_worker(std::chrono::milliseconds(1500)), 0.25);
    stop = true;
    neighbour.join();
    // It comes back within a second, unless others keep the processor busy.
    int chances = 0;
    for (int i = 0; i < 100 && chances < 10; ++i) {
        if (share_of_worker(std::chrono::milliseconds(300)) > 0.1) return;
        chances = is_free(here.nodes.back().back()) ? chances + 1 : 0;
    }
    EXPECT_LT(chances, 10) << "the processor was free for seconds, and the worker did not come back";
}

}  // namespace
}  // namespace deepinfer
