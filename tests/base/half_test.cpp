#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace deepinfer {
namespace {

uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

TEST(Half, F16RoundTripsThroughF32) {
    for (uint32_t h = 0; h < 65536; ++h) {
        const auto half = static_cast<uint16_t>(h);
        const bool nan = (half & 0x7fff) > 0x7c00;
        ASSERT_EQ(f32_to_f16(f16_to_f32(half)), nan ? half | 0x0200 : half) << h;
        ASSERT_EQ(std::isnan(f16_to_f32(half)), nan);
    }
}

TEST(Half, Bf16RoundTripsThroughF32) {
    for (uint32_t b = 0; b < 65536; ++b) {
        const auto half = static_cast<uint16_t>(b);
        const bool nan = (half & 0x7fff) > 0x7f80;
        ASSERT_EQ(f32_to_bf16(bf16_to_f32(half)), nan ? half | 0x0040 : half) << b;
    }
}

TEST(Half, KnownF16Values) {
    EXPECT_EQ(f16_to_f32(0x3c00), 1.0f);
    EXPECT_EQ(f16_to_f32(0xc000), -2.0f);
    EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
    EXPECT_EQ(f16_to_f32(0x0400), 0x1p-14f);
    EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
    EXPECT_EQ(f16_to_f32(0x03ff), 0x3ffp-24f);
    EXPECT_EQ(bits(f16_to_f32(0x8000)), bits(-0.0f));
    EXPECT_EQ(f16_to_f32(0x7c00), std::numeric_limits<float>::infinity());
}

// Every midpoint between neighbouring halves goes to the even one; a hair to either side goes to the nearer
// one.
template <class Widen, class Narrow>
void expect_nearest_even(uint16_t infinity, Widen widen, Narrow narrow) {
    for (uint16_t low = 0; low + 1 < infinity; ++low) {
        const float a = widen(low), b = widen(static_cast<uint16_t>(low + 1));
        const auto middle = static_cast<float>((static_cast<double>(a) + b) / 2);
        const uint16_t even = low % 2 == 0 ? low : static_cast<uint16_t>(low + 1);
        ASSERT_EQ(narrow(middle), even) << low;
        ASSERT_EQ(narrow(-middle), even | 0x8000) << low;
        ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)), low);
        ASSERT_EQ(narrow(std::nextafter(middle, std::numeric_limits<float>::infinity())), low + 1);
    }
}

TEST(Half, NarrowingRoundsToNearestEven) {
    expect_nearest_even(0x7c00, f16_to_f32, f32_to_f16);
    // The lowest bf16 midpoint is a subnormal f32 with neighbours on both sides, too.
    expect_nearest_even(0x7f80, bf16_to_f32, f32_to_bf16);
}

TEST(Half, NarrowingOverflowsToInfinity) {
    EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
    EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
    EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
    EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7c00);
    EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
    EXPECT_EQ(f32_to_bf16(-std::numeric_limits<float>::infinity()), 0xff80);
    EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(std::numeric_limits<float>::quiet_NaN()))));
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

#ifdef __FLT16_MAX__
TEST(Half, AgreesWithTheCompilersHalfType) {
    for (uint64_t pattern = 0; pattern < (uint64_t{1} << 32); pattern += 4099) {
        const auto value = std::bit_cast<float>(static_cast<uint32_t>(pattern));
        if (std::isnan(value)) continue;
        ASSERT_EQ(f32_to_f16(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
    }
}
#endif

}  // namespace
}  // namespace deepinfer
