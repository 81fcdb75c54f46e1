#include "kernels/attention.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace deepinfer::kernels {

namespace {

// One tile: up to 12 (token, head) pairs of one KV head, counted token by token, head by head.
struct Tile {
    const AttentionSequence* sequence = nullptr;
    int kv_head = 0, first_item = 0, items = 0;
    int first_partial = 0, last_partial = 0;  // partials that hold a visible key of any row
    size_t partial_offset = 0;  // in floats, when partials are computed as separate pieces of work
};

struct Job {
    const AttentionShape& shape;
    const KvLayerView& layer;
    const float* q;
    float* out;
    int group;  // query heads per KV head

    size_t partial_floats(int rows) const {
        return static_cast<size_t>(rows) * static_cast<size_t>(shape.head_dim + 2);
    }
    size_t row_offset(const Tile& tile, int item) const {
        const int row = tile.sequence->first_row + item / group, head = tile.kv_head * group + item % group;
        return (static_cast<size_t>(row) * static_cast<size_t>(shape.heads) + static_cast<size_t>(head)) *
               static_cast<size_t>(shape.head_dim);
    }
    int last_key(const Tile& tile, int item) const { return tile.sequence->position + item / group + 1; }
    int first_key(const Tile& tile, int item) const {
        return shape.window > 0 ? std::max(0, last_key(tile, item) - shape.window) : 0;
    }

    void compute(Context& context, const Tile& tile, int first_partial, int last_partial, float* partials,
                 float* rows) const {
        int first[attention_tile_rows], last[attention_tile_rows];
        const size_t dim = static_cast<size_t>(shape.head_dim);
        for (int i = 0; i < tile.items; ++i) {
            std::memcpy(rows + static_cast<size_t>(i) * dim, q + row_offset(tile, tile.first_item + i),
                        dim * sizeof(float));
            first[i] = first_key(tile, tile.first_item + i);
            last[i] = last_key(tile, tile.first_item + i);
        }
        AttentionArgs args;
        args.q = rows;
        args.rows = tile.items;
        args.head_dim = shape.head_dim;
        args.first_key = first;
        args.last_key = last;
        args.blocks = tile.sequence->blocks;
        args.k_offset = layer.k_offset + static_cast<size_t>(tile.kv_head) * layer.head_bytes;
        args.v_offset = layer.v_offset + static_cast<size_t>(tile.kv_head) * layer.head_bytes;
        args.kv_f16 = layer.f16;
        args.first_partial = first_partial;
        args.last_partial = last_partial;
        args.partials = partials;
        context.table.attention_partials(args);
    }

    // Merges from the first partial any row of the tile sees; partials without visible keys of a row add
    // exact zeros.
    void merge(Context& context, const Tile& tile, const float* partials) const {
        for (int i = 0; i < tile.items; ++i)
            context.table.attention_merge(partials, partial_floats(tile.items),
                                          tile.last_partial - tile.first_partial, tile.items, i,
                                          shape.head_dim, out + row_offset(tile, tile.first_item + i));
    }
};

}  // namespace

void attention(Context& context, const AttentionShape& shape, const KvLayerView& layer,
               std::span<const AttentionSequence> sequences, const float* q, float* out) {
    const Job job{shape, layer, q, out, shape.heads / shape.kv_heads};
    std::vector<Tile> tiles;
    size_t partial_floats = 0;
    int pieces = 0, most_partials = 0;
    for (const AttentionSequence& sequence : sequences)
        for (int head = 0; head < shape.kv_heads; ++head)
            for (int item = 0; item < sequence.rows * job.group; item += attention_tile_rows) {
                Tile tile{
                    &sequence, head, item, std::min(attention_tile_rows, sequence.rows * job.group - item),
                    0,         0,    0};
                tile.first_partial = job.first_key(tile, item) / attention_partial_keys;
                tile.last_partial = (job.last_key(tile, item + tile.items - 1) + attention_partial_keys - 1) /
                                    attention_partial_keys;
                tile.partial_offset = partial_floats;
                const int n = tile.last_partial - tile.first_partial;
                partial_floats += job.partial_floats(tile.items) * static_cast<size_t>(n);
                pieces += n;
                most_partials = std::max(most_partials, n);
                tiles.push_back(tile);
            }
    const int count = static_cast<int>(tiles.size());
    const size_t row_floats = static_cast<size_t>(attention_tile_rows) * static_cast<size_t>(shape.head_dim);
    if (count >= 4 * context.pool.threads() || pieces == count) {  // enough tiles: each is one piece of work
        context.pool.for_each(
            count, std::max(1, count / (16 * context.pool.threads())), [&](int begin, int end, int thread) {
                const size_t floats =
                    row_floats + job.partial_floats(attention_tile_rows) * static_cast<size_t>(most_partials);
                auto* rows = reinterpret_cast<float*>(context.scratch(thread, floats * sizeof(float)));
                for (int t = begin; t < end; ++t) {
                    const Tile& tile = tiles[static_cast<size_t>(t)];
                    job.compute(context, tile, tile.first_partial, tile.last_partial, rows + row_floats,
                                rows);
                    job.merge(context, tile, rows + row_floats);
                }
            });
        return;
    }
    // Few tiles over a long context: each partial is a piece of work, merged afterwards.
    std::vector<float> partials(partial_floats);
    struct Piece {
        const Tile* tile;
        int partial;
    };
    std::vector<Piece> work;
    for (const Tile& tile : tiles)
        for (int p = tile.first_partial; p < tile.last_partial; ++p) work.push_back({&tile, p});
    context.pool.for_each(pieces, 1, [&](int begin, int end, int thread) {
        auto* rows = reinterpret_cast<float*>(context.scratch(thread, row_floats * sizeof(float)));
        for (int i = begin; i < end; ++i) {
            const auto [tile, p] = work[static_cast<size_t>(i)];
            job.compute(context, *tile, p, p + 1,
                        partials.data() + tile->partial_offset +
                            job.partial_floats(tile->items) * static_cast<size_t>(p - tile->first_partial),
                        rows);
        }
    });
    context.pool.for_each(count, 1, [&](int begin, int end, int) {
        for (int t = begin; t < end; ++t)
            job.merge(context, tiles[static_cast<size_t>(t)],
                      partials.data() + tiles[static_cast<size_t>(t)].partial_offset);
    });
}

}  // namespace deepinfer::kernels
