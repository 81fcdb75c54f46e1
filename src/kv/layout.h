// Where the keys and values of a model's layers stand inside a KV block.
//
// A block holds 64 tokens of one sequence for all layers in one contiguous range of bytes: the unit that is
// allocated, shared, stored and sent. Inside, layer after layer, the keys of all KV heads, then the values:
//   keys of a head   [head_dim][64 tokens]   one query reads a block as one stream, 64 keys a step
//   values of a head [64 tokens][head_dim]
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace deepinfer::kv {

constexpr int block_tokens = 64;

enum class KvType { f16, f32 };
constexpr size_t value_bytes(KvType type) { return type == KvType::f16 ? 2 : 4; }

struct LayerLayout {
    int kv_heads = 0, head_dim = 0;
    size_t k_offset = 0, v_offset = 0;  // bytes from the start of the block, of head 0
    size_t head_bytes = 0;              // from one head to the next
};

struct Layout {
    KvType type = KvType::f16;
    std::vector<LayerLayout> layers;
    size_t block_bytes = 0;

    void add_layer(int kv_heads, int head_dim) {
        const size_t head = static_cast<size_t>(block_tokens * head_dim) * value_bytes(type),
                     all = head * static_cast<size_t>(kv_heads);
        layers.push_back({kv_heads, head_dim, block_bytes, block_bytes + all, head});
        block_bytes += 2 * all;
    }
};

}  // namespace deepinfer::kv
