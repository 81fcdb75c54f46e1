// The paged pool of KV blocks: memory for `count` blocks, their reference counts, and the list of free ones.
//
// Invariant, checked by the engine whenever it is idle: free + referenced = total. A block is owned by
// whoever holds a reference; the last release frees it. Blocks freed last are handed out first: their memory
// is warm and already committed.
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

    int32_t total() const { return static_cast<int32_t>(references_.size()); }
    int32_t free() const { return static_cast<int32_t>(free_.size()); }
    const Layout& layout() const { return layout_; }

    // A block with one reference, or -1 if none is free.
    BlockId allocate();
    void retain(BlockId block);   // one more reference to a live block
    void release(BlockId block);  // one fewer
    int32_t references(BlockId block) const { return references_[static_cast<size_t>(block)]; }
    uint8_t* data(BlockId block) const {
        return memory_.data() + static_cast<size_t>(block) * layout_.block_bytes;
    }

  private:
    Layout layout_;
    HugeBuffer memory_;
    std::vector<int32_t> references_;
    std::vector<BlockId> free_;  // a stack
};

}  // namespace deepinfer::kv
