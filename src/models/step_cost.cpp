#include "models/step_cost.h"

#include <algorithm>

#include "kernels/kernel_table.h"
#include "models/pairs.h"

namespace deepinfer::models {

namespace {

// Keys that attention reads for one KV head of one layer, summed over the tiles that it cuts `rows` x `group` query
// vectors into: a tile reads from the first key of its first vector to the last key of its last one.
int64_t tile_keys(int64_t position, int64_t rows, int64_t group, int64_t window) {
    constexpr int64_t most = kernels::attention_tile_rows;
    const int64_t vectors = rows * group, tiles = (vectors + most - 1) / most, full = vectors / most;
    // The last vector of full tile t belongs to row floor((most t + most - 1) / group).
    int64_t keys = tiles * (position + 1) + floor_sum(full, group, most, most - 1);
    if (tiles > full) keys += rows - 1;
    if (window == 0) return keys;
    // The first vector of tile t belongs to row floor(most t / group), whose keys begin `shift` before it, if that is not
    // before the sequence's start.
    const int64_t shift = position + 1 - window,
                  first = shift >= 0 ? 0 : std::min(tiles, ((1 - shift) * group + most - 1) / most);
    return keys - (tiles - first) * shift - floor_sum(tiles, group, most, 0) +
           floor_sum(first, group, most, 0);
}

}  // namespace

DenseShape dense_shape(const DecoderConfig& config) {
    const int64_t hidden = config.hidden, q_width = int64_t{config.heads} * config.head_dim,
                  kv_width = int64_t{config.kv_heads} * config.head_dim;
    DenseShape shape;
    shape.layer_ops =
        config.layers * (hidden * (q_width + 2 * kv_width) + q_width * hidden + 3 * hidden * config.ffn);
    shape.head_ops = hidden * config.vocabulary;
    shape.heads = config.heads;
    shape.kv_heads = config.kv_heads;
    shape.head_dim = config.head_dim;
    shape.local_layers = std::count(config.local_layers.begin(), config.local_layers.end(), true);
    shape.global_layers = config.layers - shape.local_layers;
    shape.window = config.sliding_window;
    return shape;
}

StepCost count_rows(std::span<const ChunkShape> step) {
    StepCost cost;
    for (const ChunkShape& chunk : step) {
        if (chunk.rows <= 0) continue;
        cost.rows += chunk.rows;
        cost.logit_rows += chunk.logit_rows;
        ++cost.sequences;
    }
    return cost;
}

StepCost dense_cost(const DenseShape& shape, std::span<const ChunkShape> step, KvType kv_type) {
    StepCost cost = count_rows(step);
    if (cost.rows == 0) return cost;
    const int64_t group = shape.heads / shape.kv_heads;
    int64_t pairs = 0, keys = 0;  // per query head, per KV head
    for (const ChunkShape& chunk : step) {
        if (chunk.rows <= 0) continue;
        const int64_t begin = chunk.position, end = begin + chunk.rows;
        if (shape.global_layers > 0) {
            pairs += shape.global_layers * pairs_of(begin, end, 1, 0);
            keys += shape.global_layers * tile_keys(begin, chunk.rows, group, 0);
        }
        if (shape.local_layers > 0) {
            pairs += shape.local_layers * pairs_of(begin, end, 1, shape.window);
            keys += shape.local_layers * tile_keys(begin, chunk.rows, group, shape.window);
        }
    }
    const auto block = static_cast<int64_t>(kv_head_bytes(kv_type, static_cast<int>(shape.head_dim)));
    const auto product_ops = [&](int64_t without) {  // of the rows but the first ones
        return std::max<int64_t>(0, cost.rows - without) * shape.layer_ops +
               std::max<int64_t>(0, cost.logit_rows - without) * shape.head_ops;
    };
    cost.product_ops = product_ops(0);
    for (size_t i = 0; i < beyond_rows.size(); ++i) cost.product_ops_beyond[i] = product_ops(beyond_rows[i]);
    cost.pairs = pairs * shape.heads;
    cost.attention_ops = cost.pairs * 2 * shape.head_dim;
    cost.weight_bytes = shape.layer_bytes + (cost.logit_rows > 0 ? shape.head_bytes : 0);
    cost.kv_bytes = keys * shape.kv_heads * (2 * block / kv_block_tokens);
    return cost;
}

}  // namespace deepinfer::models
