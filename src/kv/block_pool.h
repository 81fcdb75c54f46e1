// The paged pool of KV blocks: memory for `count` blocks, their reference counts, and the list of free ones.
//
// A block is free, referenced, or kept: kept blocks hold something worth finding again (prefix_cache.h) but nobody uses
// them at the moment. Invariant: free + kept + referenced = total, and nothing is referenced when the engine is idle.
// Blocks freed last are handed out first: their memory is warm and already committed.
//
// Threads: owned by the engine thread. Kernels write and read the memory of blocks that the engine gave them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "kv/layout.h"

namespace deepinfer::kv {

using BlockId = int32_t;

class BlockPool {
  public:
    static Result<BlockPool> create(const Layout& layout, int32_t count);

    int32_t total() const { return static_cast<int32_t>(blocks_.size()); }
    int32_t free() const { return static_cast<int32_t>(free_.size()); }
    int32_t kept() const { return kept_; }
    const Layout& layout() const { return layout_; }

    // A free block with one reference, or -1 if none is free.
    BlockId allocate();
    void retain(BlockId block);   // one more reference to a live or kept block
    void release(BlockId block);  // one fewer; the last one frees it, or keeps it
    int32_t references(BlockId block) const { return blocks_[static_cast<size_t>(block)].references; }
    // Whether the block is to be kept when nobody references it. Of a block that is kept, false frees it.
    void set_kept(BlockId block, bool keep);

    uint8_t* data(BlockId block) const {
        return memory_.data() + static_cast<size_t>(block) * layout_.block_bytes;
    }

  private:
    struct Block {
        int32_t references = 0;
        bool keep = false;
    };

    Layout layout_;
    HugeBuffer memory_;
    std::vector<Block> blocks_;
    std::vector<BlockId> free_;  // a stack
    int32_t kept_ = 0;
};

}  // namespace deepinfer::kv
