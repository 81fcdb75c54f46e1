// The table of cos and sin grows without moving what it has.
#include "models/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace deepinfer::models {
namespace {

RopeConfig some_config() {
    RopeConfig config;
    config.theta = 500000;
    config.dim = 16;
    config.scaling.kind = RopeScaling::Kind::yarn;  // with a magnitude
    config.scaling.factor = 4;
    config.scaling.original_context = 2048;
    return config;
}

TEST(RopeTable, RowsAreTheFormula) {
    const RopeConfig config = some_config();
    RopeTable table(config);
    table.ensure(3000);
    const std::vector<double> frequencies = rope_frequencies(config);
    const double magnitude = 0.1 * std::log(4.0) + 1;
    for (const int position : {0, 1, 1023, 1024, 1025, 2047, 2048, 2999})
        for (size_t i = 0; i < 8; ++i) {
            const double angle = position * frequencies[i];
            EXPECT_EQ(table.row(position)[i], static_cast<float>(std::cos(angle) * magnitude)) << position;
            EXPECT_EQ(table.row(position)[8 + i], static_cast<float>(std::sin(angle) * magnitude))
                << position;
        }
}

TEST(RopeTable, GrowsWithoutMovingRows) {
    RopeTable table(some_config());
    table.ensure(1);
    const float* first = table.row(0);
    table.ensure(1024);
    table.ensure(5000);
    const float* later = table.row(4999);
    table.ensure(100);  // fewer: as it was
    table.ensure(70000);
    EXPECT_EQ(table.row(0), first);
    EXPECT_EQ(table.row(4999), later);
    EXPECT_EQ(table.row(65536)[0], static_cast<float>(std::cos(65536.0) * (0.1 * std::log(4.0) + 1)));
}

}  // namespace
}  // namespace deepinfer::models
