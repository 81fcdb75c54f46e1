#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

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
                ASSERT_EQ(std::accumulate(done.begin(), done.end(), 0), count);
            }
        }
    }
}

TEST(ThreadPool, WorksAfterTheWorkersHaveParked) {
    ThreadPool pool(3);
    for (int round = 0; round < 20; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far longer than the workers spin
        std::atomic<int> ran{0};
        pool.run([&](int) { ran.fetch_add(1); });
        EXPECT_EQ(ran.load(), 3);
    }
}

TEST(ThreadPool, AnExceptionEndsTheCallAndNotTheProcess) {
    for (int threads : {1, 2, 4}) {
        ThreadPool pool(threads);
        for (int thrower = 0; thrower < threads; ++thrower) {
            EXPECT_THROW(pool.run([&](int thread) {
                if (thread == thrower) throw std::runtime_error("full");
            }),
                         std::runtime_error);
            std::atomic<int> ran{0};
            pool.run([&](int) { ran.fetch_add(1); });
            EXPECT_EQ(ran.load(), threads) << "the pool works on";
        }
    }
}

}  // namespace
}  // namespace deepinfer
