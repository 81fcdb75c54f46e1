#include "base/philox.h"

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

TEST(Philox, KnownAnswers) {  // from the authors' Random123 library
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
              (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
              (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    // Seed 42, draws 21, 22, 23: the three streams of position 7.
    EXPECT_EQ(philox4x32({0, 0, 21, 0}, {42, 0})[0], 0xe0020480u);
    EXPECT_EQ(philox4x32({0, 0, 22, 0}, {42, 0})[0], 0xf7dd2f89u);
    EXPECT_EQ(philox4x32({0, 0, 23, 0}, {42, 0})[0], 0x1ebff96fu);
}

TEST(Philox, UniformDrawsFillTheIntervalEvenly) {
    int bins[16] = {};
    for (uint64_t i = 0; i < 160000; ++i) {
        const double u = uniform_draw(7, i);
        ASSERT_GT(u, 0.0);
        ASSERT_LT(u, 1.0);
        ++bins[static_cast<int>(u * 16)];
    }
    double chi = 0;
    for (int n : bins) chi += (n - 10000.0) * (n - 10000.0) / 10000.0;
    EXPECT_LT(chi, 37.7);  // 15 degrees of freedom, p = 0.001; the draws are fixed, so this never flakes
}

}  // namespace
}  // namespace deepinfer
