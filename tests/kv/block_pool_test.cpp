#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace deepinfer::kv {
namespace {

TEST(BlockPool, HandsOutEachBlockOnceAndTakesItBackOnTheLastRelease) {
    Layout layout;
    layout.add_layer(2, 16);
    layout.add_layer(2, 16);
    EXPECT_EQ(layout.block_bytes, 2u * 2 * 2 * 64 * 16 * 2);
    auto created = BlockPool::create(layout, 5);
    ASSERT_TRUE(created.ok());
    BlockPool pool = std::move(*created);
    std::set<BlockId> blocks;
    for (int i = 0; i < 5; ++i) blocks.insert(pool.allocate());
    EXPECT_EQ(blocks.size(), 5u);
    EXPECT_FALSE(blocks.contains(-1));
    EXPECT_EQ(pool.allocate(), -1);
    pool.retain(2);
    pool.release(2);
    EXPECT_EQ(pool.free(), 0) << "one reference is left";
    pool.release(2);
    EXPECT_EQ(pool.free(), 1);
    EXPECT_EQ(pool.allocate(), 2);
    for (BlockId block : blocks) {
        uint8_t* data = pool.data(block);
        for (BlockId other : blocks) {
            if (other == block) continue;
            EXPECT_GE(std::abs(data - pool.data(other)), static_cast<std::ptrdiff_t>(layout.block_bytes));
        }
    }
}

}  // namespace
}  // namespace deepinfer::kv
