// What a step costs in operations and bytes, counted from the model's description: the same numbers as counting what the
// kernels are asked for (tests/models/step_cost_test.cpp does that). How long that takes is another question:
// engine/cost_model.h.
//
// Not counted, because they go with the rows or the weights: norms, gates, rotations, the embedding's rows, sampling.
// All functions are pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/kv_type.h"
#include "models/config.h"

namespace deepinfer::models {

// Rows of one sequence in a step: tokens at positions [position, position + rows), and how many of them need logits.
struct ChunkShape {
    int32_t rows = 0, position = 0, logit_rows = 0;
};

// Few rows are computed while the weights are read; many no longer fit into the caches.
constexpr std::array<int32_t, 3> beyond_rows{4, 16, 128};

struct StepCost {
    int64_t rows = 0, sequences = 0, logit_rows = 0;
    int64_t product_ops = 0;                      // multiply-adds of activations with weights
    std::array<int64_t, 3> product_ops_beyond{};  // of these, those of rows beyond the first beyond_rows[i]
    int64_t pairs = 0;                            // attended (query head, key) pairs of all layers
    int64_t attention_ops = 0;                    // multiply-adds of these: scores, and sums of values
    int64_t weight_bytes = 0;  // read: once per step, the output head only if logits are wanted
    // Of keys and values read: once for each tile of up to 24 query vectors of a KV head (kernels/attention.cpp), a decoding
    // sequence's once.
    int64_t kv_bytes = 0;

    bool operator==(const StepCost&) const = default;
};

// What the formulas need to know about a dense decoder.
struct DenseShape {
    int64_t layer_ops = 0;    // multiply-adds per row with the weights of all layers
    int64_t head_ops = 0;     // per row of logits with the output head
    int64_t layer_bytes = 0;  // of the weights of all layers, as the kernels read them
    int64_t head_bytes = 0;
    int64_t heads = 0, kv_heads = 0, head_dim = 0;
    int64_t global_layers = 0;  // that see all tokens
    int64_t local_layers = 0;   // that see a window
    int64_t window = 0;         // a query sees itself and the window - 1 tokens before it
};

// All but the bytes of the weights, which depend on how they are packed.
DenseShape dense_shape(const DecoderConfig& config);

// Rows, sequences and rows of logits only.
StepCost count_rows(std::span<const ChunkShape> step);

// In a time that grows with the number of chunks only. Chunks without rows cost nothing.
StepCost dense_cost(const DenseShape& shape, std::span<const ChunkShape> step, KvType kv_type);

}  // namespace deepinfer::models
