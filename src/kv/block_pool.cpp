#include "kv/block_pool.h"

#include <cassert>

namespace deepinfer::kv {

Result<BlockPool> BlockPool::create(const Layout& layout, int32_t count) {
    auto memory = HugeBuffer::allocate(layout.block_bytes * static_cast<size_t>(count));
    if (!memory) return std::move(memory).error();
    BlockPool pool;
    pool.layout_ = layout;
    pool.memory_ = std::move(*memory);
    pool.blocks_.resize(static_cast<size_t>(count));
    for (BlockId block = count; block-- > 0;) pool.free_.push_back(block);
    return pool;
}

BlockId BlockPool::allocate() {
    if (free_.empty()) return -1;
    const BlockId id = free_.back();
    free_.pop_back();
    Block& block = blocks_[static_cast<size_t>(id)];
    assert(block.references == 0 && !block.keep);
    block.references = 1;
    return id;
}

void BlockPool::retain(BlockId id) {
    Block& block = blocks_[static_cast<size_t>(id)];
    assert(block.references > 0 || block.keep);
    if (block.references++ == 0) --kept_;
}

void BlockPool::release(BlockId id) {
    Block& block = blocks_[static_cast<size_t>(id)];
    assert(block.references > 0);
    if (--block.references > 0) return;
    if (block.keep)
        ++kept_;
    else
        free_.push_back(id);
}

void BlockPool::set_kept(BlockId id, bool keep) {
    Block& block = blocks_[static_cast<size_t>(id)];
    assert(block.references > 0 || block.keep);
    if (block.references == 0 && !keep) {
        --kept_;
        free_.push_back(id);
    }
    block.keep = keep;
}

}  // namespace deepinfer::kv
