#include "kv/block_pool.h"

#include <cassert>

namespace deepinfer::kv {

Result<BlockPool> BlockPool::create(const Layout& layout, int32_t count) {
    auto memory = HugeBuffer::allocate(layout.block_bytes * static_cast<size_t>(count));
    if (!memory) return std::move(memory).error();
    BlockPool pool;
    pool.layout_ = layout;
    pool.memory_ = std::move(*memory);
    pool.references_.assign(static_cast<size_t>(count), 0);
    for (BlockId block = count; block-- > 0;) pool.free_.push_back(block);
    return pool;
}

BlockId BlockPool::allocate() {
    if (free_.empty()) return -1;
    const BlockId block = free_.back();
    free_.pop_back();
    assert(references_[static_cast<size_t>(block)] == 0);
    references_[static_cast<size_t>(block)] = 1;
    return block;
}

void BlockPool::retain(BlockId block) {
    assert(references_[static_cast<size_t>(block)] > 0);
    ++references_[static_cast<size_t>(block)];
}

void BlockPool::release(BlockId block) {
    int32_t& references = references_[static_cast<size_t>(block)];
    assert(references > 0);
    if (--references == 0) free_.push_back(block);
}

}  // namespace deepinfer::kv
