#include "base/read_bandwidth.h"

#include <gtest/gtest.h>

#include <chrono>

namespace deepinfer {
namespace {

TEST(ReadBandwidth, IsBytesOverTime) {
    ThreadPool pool(2);
    auto bandwidth = ReadBandwidth::create(pool);
    ASSERT_TRUE(bandwidth.ok()) << bandwidth.error().message;
    EXPECT_GE(bandwidth->bytes(), size_t{512} << 20);
    const auto start = std::chrono::steady_clock::now();
    const double rate = bandwidth->measure();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    // All of it was read, in no more than the time that passed here; and by hardware that exists.
    EXPECT_GE(rate, static_cast<double>(bandwidth->bytes()) / seconds / 1e9);
    EXPECT_LT(rate, 5000);
}

TEST(ReadBandwidth, TooLargeABufferIsRefused) {
    ThreadPool pool(1);
    const auto bandwidth = ReadBandwidth::create(pool, size_t{1} << 50);
    ASSERT_FALSE(bandwidth.ok());
    EXPECT_EQ(bandwidth.error().code, ErrorCode::resource_exhausted);
}

}  // namespace
}  // namespace deepinfer
