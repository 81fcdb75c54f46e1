// Where the keys and values of a model's layers stand inside a KV block.
//
// A block holds 64 tokens of one sequence for all layers in one contiguous range of bytes: the unit that is
// allocated, shared, stored and sent. Inside, layer after layer, head after head, the keys, then the values: so a
// query that attends with all heads of a layer reads one stretch of memory. base/kv_type.h has the types, the
// kernels (simd/attention_kv.h) the order of the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/kv_type.h"

namespace deepinfer::kv {

constexpr int block_tokens = kv_block_tokens;

// Blocks that hold so many tokens.
constexpr int64_t blocks_for(int64_t tokens) { return (tokens + block_tokens - 1) / block_tokens; }

struct LayerLayout {
    int kv_heads = 0, head_dim = 0;
    size_t k_offset = 0, v_offset = 0;  // bytes from the start of the block, of head 0
    size_t head_stride = 0;             // from one head to the next
};

struct Layout {
    KvType type = KvType::f16;
    std::vector<LayerLayout> layers;
    size_t block_bytes = 0;

    void add_layer(int kv_heads, int head_dim) {
        const size_t head = kv_head_bytes(type, head_dim);
        layers.push_back({kv_heads, head_dim, block_bytes, block_bytes + head, 2 * head});
        block_bytes += 2 * head * static_cast<size_t>(kv_heads);
    }
};

}  // namespace deepinfer::kv
