// Grouped-query attention of a batch of sequences over paged KV blocks.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/linear.h"

namespace deepinfer::kernels {

// Where one layer's keys and values are inside a block, for each KV head h: offset + h * head_stride.
struct KvLayerView {
    size_t k_offset = 0, v_offset = 0, head_stride = 0;
    KvType type = KvType::f16;
};

// Rows [first_row, first_row + rows) of the batch are tokens at positions position.. of one sequence, whose
// KV blocks are `blocks` (block i holds tokens 64 i .. 64 i + 63; all tokens up to the last row's are
// stored).
struct AttentionSequence {
    int first_row = 0, rows = 0, position = 0;
    const uint8_t* const* blocks = nullptr;
};

struct AttentionShape {
    int heads = 0, kv_heads = 0, head_dim = 0;
    int window = 0;  // a query sees itself and the window - 1 tokens before it; 0 = all
};

// q: [batch rows][heads * head_dim], already multiplied by the softmax scale and by log2(e), so that the weight of a key
// is 2^(q . k) / sum; out likewise. Each (row, head) is computed in one fixed order.
void attention(Context& context, const AttentionShape& shape, const KvLayerView& layer,
               std::span<const AttentionSequence> sequences, const float* q, float* out);

}  // namespace deepinfer::kernels
