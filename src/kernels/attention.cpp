#include "kernels/attention.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace deepinfer::kernels {

namespace {

// Up to 24 (token, query head) pairs of each of some KV heads, counted token by token, head by head.
struct Tile {
    const AttentionSequence* sequence = nullptr;
    int first_head = 0, heads = 0, first_item = 0, items = 0;
    int first_partial = 0, last_partial = 0;  // partials that hold a visible key of any row
    size_t partial_offset = 0;  // in floats, when partials are computed as separate pieces of work

    int partials() const { return last_partial - first_partial; }
};

struct Job {
    const AttentionShape& shape;
    const KvLayerView& layer;
    const float* q;
    float* out;
    int group;  // query heads per KV head

    size_t dim() const { return static_cast<size_t>(shape.head_dim); }
    size_t head_floats(const Tile& tile) const { return static_cast<size_t>(tile.items) * (dim() + 2); }
    size_t partial_floats(const Tile& tile) const {
        return head_floats(tile) * static_cast<size_t>(tile.heads);
    }
    size_t row_floats(const Tile& tile) const {
        return static_cast<size_t>(tile.heads) * static_cast<size_t>(tile.items) * dim();
    }
    // Where the vector of an item of the tile's head stands in q and out.
    size_t row_offset(const Tile& tile, int head, int item) const {
        const int at = tile.first_item + item, row = tile.sequence->first_row + at / group,
                  query_head = (tile.first_head + head) * group + at % group;
        return (static_cast<size_t>(row) * static_cast<size_t>(shape.heads) +
                static_cast<size_t>(query_head)) *
               dim();
    }
    int last_key(const Tile& tile, int item) const {
        return tile.sequence->position + (tile.first_item + item) / group + 1;
    }
    int first_key(const Tile& tile, int item) const {
        return shape.window > 0 ? std::max(0, last_key(tile, item) - shape.window) : 0;
    }

    // `rows` has room for row_floats().
    void compute(Context& context, const Tile& tile, int first_partial, int last_partial, float* partials,
                 float* rows) const {
        int first[attention_tile_rows], last[attention_tile_rows];
        for (int i = 0; i < tile.items; ++i) first[i] = first_key(tile, i), last[i] = last_key(tile, i);
        float* to = rows;
        for (int h = 0; h < tile.heads; ++h)
            for (int i = 0; i < tile.items; ++i, to += dim())
                std::memcpy(to, q + row_offset(tile, h, i), dim() * sizeof(float));
        AttentionArgs args;
        args.q = rows;
        args.kv_heads = tile.heads;
        args.rows = tile.items;
        args.head_dim = shape.head_dim;
        args.first_key = first;
        args.last_key = last;
        args.blocks = tile.sequence->blocks;
        const size_t head = static_cast<size_t>(tile.first_head) * layer.head_stride;
        args.k_offset = layer.k_offset + head;
        args.v_offset = layer.v_offset + head;
        args.head_stride = layer.head_stride;
        args.kv_type = layer.type;
        args.first_partial = first_partial;
        args.last_partial = last_partial;
        args.partials = partials;
        context.table.attention_partials(args);
    }

    // Merges from the first partial any row of the tile sees; partials without visible keys of a row add
    // exact zeros.
    void merge(Context& context, const Tile& tile, const float* partials) const {
        for (int h = 0; h < tile.heads; ++h)
            for (int i = 0; i < tile.items; ++i)
                context.table.attention_merge(partials + static_cast<size_t>(h) * head_floats(tile),
                                              partial_floats(tile), tile.partials(), tile.items, i,
                                              shape.head_dim, out + row_offset(tile, h, i));
    }
};

// KV heads that one piece of work takes together. A sequence with few rows reads each key and value once, so memory
// sets the pace: all heads of a block are one stretch of it. But every thread wants work.
int heads_together(const Job& job, std::span<const AttentionSequence> sequences, int threads) {
    int partials = 0;
    for (const AttentionSequence& s : sequences) {
        if (s.rows * job.group > attention_tile_rows) return 1;
        partials += (s.position + s.rows + attention_partial_keys - 1) / attention_partial_keys;
    }
    int together = std::min(job.shape.kv_heads, most_attention_heads);
    while (together > 1 && partials * ((job.shape.kv_heads + together - 1) / together) < 4 * threads)
        --together;
    return together;
}

std::vector<Tile> cut(const Job& job, std::span<const AttentionSequence> sequences, int together) {
    std::vector<Tile> tiles;
    size_t offset = 0;
    for (const AttentionSequence& sequence : sequences)
        for (int head = 0; head < job.shape.kv_heads; head += together)
            for (int item = 0; item < sequence.rows * job.group; item += attention_tile_rows) {
                Tile tile;
                tile.sequence = &sequence;
                tile.first_head = head;
                tile.heads = std::min(together, job.shape.kv_heads - head);
                tile.first_item = item;
                tile.items = std::min(attention_tile_rows, sequence.rows * job.group - item);
                tile.first_partial = job.first_key(tile, 0) / attention_partial_keys;
                tile.last_partial = (job.last_key(tile, tile.items - 1) + attention_partial_keys - 1) /
                                    attention_partial_keys;
                tile.partial_offset = offset;
                offset += job.partial_floats(tile) * static_cast<size_t>(tile.partials());
                tiles.push_back(tile);
            }
    return tiles;
}

// Enough tiles: each is one piece of work.
void by_tiles(Context& context, const Job& job, std::span<const Tile> tiles) {
    const int count = static_cast<int>(tiles.size());
    size_t rows = 0, partials = 0;
    for (const Tile& tile : tiles) {
        rows = std::max(rows, job.row_floats(tile));
        partials = std::max(partials, job.partial_floats(tile) * static_cast<size_t>(tile.partials()));
    }
    context.pool.for_each_guided(count, 1, [&](int begin, int end, int thread) {
        auto* memory = reinterpret_cast<float*>(context.scratch(thread, (rows + partials) * sizeof(float)));
        for (const Tile& tile : tiles.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))) {
            job.compute(context, tile, tile.first_partial, tile.last_partial, memory + rows, memory);
            job.merge(context, tile, memory + rows);
        }
    });
}

// Few tiles over a long context: each partial is a piece of work, merged afterwards.
void by_partials(Context& context, const Job& job, std::span<const Tile> tiles) {
    struct Piece {
        const Tile* tile;
        int partial;
    };
    std::vector<Piece> work;
    size_t rows = 0;
    for (const Tile& tile : tiles) {
        rows = std::max(rows, job.row_floats(tile));
        for (int p = tile.first_partial; p < tile.last_partial; ++p) work.push_back({&tile, p});
    }
    const Tile& last = tiles.back();
    std::vector<float> partials(last.partial_offset +
                                job.partial_floats(last) * static_cast<size_t>(last.partials()));
    context.pool.for_each(static_cast<int>(work.size()), 1, [&](int begin, int end, int thread) {
        auto* memory = reinterpret_cast<float*>(context.scratch(thread, rows * sizeof(float)));
        for (int i = begin; i < end; ++i) {
            const auto [tile, p] = work[static_cast<size_t>(i)];
            float* to = partials.data() + tile->partial_offset +
                        job.partial_floats(*tile) * static_cast<size_t>(p - tile->first_partial);
            job.compute(context, *tile, p, p + 1, to, memory);
        }
    });
    context.pool.for_each(static_cast<int>(tiles.size()), 1, [&](int begin, int end, int) {
        for (int t = begin; t < end; ++t) {
            const Tile& tile = tiles[static_cast<size_t>(t)];
            job.merge(context, tile, partials.data() + tile.partial_offset);
        }
    });
}

}  // namespace

void attention(Context& context, const AttentionShape& shape, const KvLayerView& layer,
               std::span<const AttentionSequence> sequences, const float* q, float* out) {
    const Job job{shape, layer, q, out, shape.heads / shape.kv_heads};
    const std::vector<Tile> tiles =
        cut(job, sequences, heads_together(job, sequences, context.pool.threads()));
    if (tiles.empty()) return;
    int pieces = 0;
    for (const Tile& tile : tiles) pieces += tile.partials();
    const int count = static_cast<int>(tiles.size());
    count >= 4 * context.pool.threads() || pieces == count ? by_tiles(context, job, tiles)
                                                           : by_partials(context, job, tiles);
}

}  // namespace deepinfer::kernels
