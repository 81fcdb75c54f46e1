// Grouped-query attention over paged KV blocks of 64 tokens. Decode and prefill give the same bits for a
// query.
//
// Order of operations for one query row, whatever the tile, batch and thread:
//   score of a key  = chain of fma over d = 0..D-1 in the lane of that key
//                     bf16: chain of dots (dot_bf16.h) over pairs of d, q rounded to BF16
//                     q8: such a chain over each 32 d, then s = fma(chain, scale of the key, s)
//   block of 64     : running maximum, rescale when it grows, p = 2^(s - max), sum by a fixed tree,
//                     o[d] = chain of fma over the keys
//                     bf16: chain of dots (dot_bf16.h) over pairs of keys, p rounded to BF16; q8: with p * scale of the key
//   partial of 512  : the unit of parallel work; partials are merged in key order
// Keys outside a row's range get p = 0, an exact no-op, so a tile may run past the range of one of its rows.
#include "kernels/simd/attention_kv.h"
#include "kernels/simd/kernel_functions.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

constexpr float masked = -1e30f;
constexpr int block = kv_block_tokens;

// Softmax step of one row: fills p[64], rescales o, updates max and sum. Keys [from, to) of the block are
// visible.
static inline void softmax_step(F32* s, int from, int to, float* p, float* o, int D, float& top, float& sum) {
    F32 highest = set1(masked);
    for (int g = 0; g < 4; ++g) {
        s[g] = keep_lanes(s[g], from - 16 * g, to - 16 * g, set1(masked));
        highest = max(highest, s[g]);
    }
    const float block_top = reduce_max(highest), m = block_top > top ? block_top : top;
    if (!(m > masked)) {
        for (int g = 0; g < 4; ++g) store(p + 16 * g, zero());
        return;
    }
    F32 total = zero();
    for (int g = 0; g < 4; ++g) {
        const F32 e = exp2_negative(sub(s[g], set1(m)));
        store(p + 16 * g, e);
        total = add(total, e);
    }
    if (m != top) {
        alignas(64) float factor[16];
        const F32 f = exp2_negative(set1(top - m));
        store(factor, f);
        sum *= factor[0];
        for (int d = 0; d < D; d += 16) store(o + d, mul(f, load(o + d)));
        top = m;
    }
    sum += reduce_add(total);
}

// All rows of a tile with one block of one KV head. T rows fit into the registers at a time.
template <class Kv, int T>
static void block_rows(const AttentionArgs& a, const float* q, int row0, int b, const uint8_t* k,
                       const uint8_t* v, const uint8_t* next_k, int from, int to, float* o, float* top,
                       float* sum) {
    const int D = a.head_dim;
    F32 s[T][4];
    Kv::template scores<T>(q + row0 * D, D, k, row0 == 0 ? v : nullptr, s);
    alignas(64) float p[T * block];
    for (int i = 0; i < T; ++i)
        softmax_step(s[i], a.first_key[row0 + i] - b, a.last_key[row0 + i] - b, p + i * block,
                     o + (row0 + i) * D, D, top[row0 + i], sum[row0 + i]);
    Kv::template values<T>(p, v, row0 == 0 ? next_k : nullptr, D, from, to, o + row0 * D);
}

template <class Kv>
static void rows_of_block(const AttentionArgs& a, const float* q, int b, const uint8_t* k, const uint8_t* v,
                          const uint8_t* next_k, int from, int to, float* o, float* top, float* sum) {
    for (int row = 0; row < a.rows;) {
        const int left = a.rows - row;
        // 12 rows are 6 + 6, 7 are 4 + 3: even tiles use the registers best, and the split does not change a
        // bit.
        const int tiles = (left + attention_rows - 1) / attention_rows, take = (left + tiles - 1) / tiles;
        with_rows<attention_rows>(
            take, [&]<int T>() { block_rows<Kv, T>(a, q, row, b, k, v, next_k, from, to, o, top, sum); });
        row += take;
    }
}

template <class Kv>
static void partials(const AttentionArgs& a) {
    const int D = a.head_dim;
    const size_t head_floats = (size_t)a.rows * (size_t)(D + 2);
    int lowest = a.first_key[0], highest = a.last_key[0];
    for (int i = 1; i < a.rows; ++i) {
        lowest = a.first_key[i] < lowest ? a.first_key[i] : lowest;
        highest = a.last_key[i] > highest ? a.last_key[i] : highest;
    }
    Kv::prepare(a.q, a.kv_heads * a.rows, D);
    for (int part = a.first_partial; part < a.last_partial; ++part) {
        // Of each head: values of all rows while they grow, [rows][D], then max and sum.
        float* first = a.partials + (size_t)(part - a.first_partial) * (size_t)a.kv_heads * head_floats;
        float top[most_attention_heads][attention_tile_rows], sum[most_attention_heads][attention_tile_rows];
        for (int h = 0; h < a.kv_heads; ++h) {
            memset(first + (size_t)h * head_floats, 0, (size_t)a.rows * (size_t)D * sizeof(float));
            for (int i = 0; i < a.rows; ++i) top[h][i] = masked, sum[h][i] = 0;
        }
        const int end =
            (part + 1) * attention_partial_keys < highest ? (part + 1) * attention_partial_keys : highest;
        for (int b = part * attention_partial_keys; b < end; b += block) {
            if (b + block <= lowest) continue;
            const int from = lowest > b ? lowest - b : 0, to = highest - b < block ? highest - b : block;
            // Keys and values of one head after the other are one stretch of memory; it goes on in another block.
            for (int h = 0; h < a.kv_heads; ++h) {
                const uint8_t* k = a.blocks[b / block] + a.k_offset + (size_t)h * a.head_stride;
                const uint8_t* next = h + 1 < a.kv_heads ? k + a.head_stride
                                      : b + block < end  ? a.blocks[b / block + 1] + a.k_offset
                                                         : nullptr;
                rows_of_block<Kv>(a, a.q + (size_t)(h * a.rows * D), b, k, k + (a.v_offset - a.k_offset),
                                  next, from, to, first + (size_t)h * head_floats, top[h], sum[h]);
            }
        }
        for (int h = 0; h < a.kv_heads; ++h)
            for (int i = 0; i < a.rows; ++i) {
                float* stats = first + (size_t)h * head_floats + a.rows * D + 2 * i;
                stats[0] = top[h][i], stats[1] = sum[h][i];
            }
    }
}

void attention_partials(const AttentionArgs& a) {
    switch (a.kv_type) {
        case KvType::f32:
            return partials<KvFloat<false>>(a);
        case KvType::f16:
            return partials<KvFloat<true>>(a);
        case KvType::bf16:
            return partials<KvBf16<false>>(a);
        case KvType::q8:
            return partials<KvQ8>(a);
    }
}

#if defined(DEEPINFER_ISA_AVX512)
void attention_partials_bf16(const AttentionArgs& a) {
    a.kv_type == KvType::bf16 ? partials<KvBf16<true>>(a) : attention_partials(a);
}
#endif

void store_kv(const float* k, const float* v, size_t stride, int D, int slot, int tokens, KvType type,
              uint8_t* k_block, uint8_t* v_block) {
    switch (type) {
        case KvType::f32:
            return KvFloat<false>::store_tokens(k, v, stride, D, slot, tokens, k_block, v_block);
        case KvType::f16:
            return KvFloat<true>::store_tokens(k, v, stride, D, slot, tokens, k_block, v_block);
        case KvType::bf16:
            return KvBf16<false>::store_tokens(k, v, stride, D, slot, tokens, k_block, v_block);
        case KvType::q8:
            return KvQ8::store_tokens(k, v, stride, D, slot, tokens, k_block, v_block);
    }
}

void attention_merge(const float* first, size_t stride, int n, int rows, int row, int D, float* out) {
    if (n == 1) {  // what the general case comes to: its factor is 1, and adding to +0 leaves no -0
        const F32 total = set1(first[rows * D + 2 * row + 1]);
        for (int d = 0; d < D; d += 16)
            store(out + d, div(add(load(first + (size_t)row * (size_t)D + d), zero()), total));
        return;
    }
    float m = masked;
    for (int c = 0; c < n; ++c) {
        const float t = first[(size_t)c * stride + (size_t)(rows * D + 2 * row)];
        m = t > m ? t : m;
    }
    float s = 0;
    for (int d = 0; d < D; d += 16) store(out + d, zero());
    for (int c = 0; c < n; ++c) {
        const float* p = first + (size_t)c * stride;
        const float* stats = p + (size_t)(rows * D + 2 * row);
        alignas(64) float factor[16];
        const F32 f = exp2_negative(set1(stats[0] - m));
        store(factor, f);
        s += stats[1] * factor[0];
        for (int d = 0; d < D; d += 16) store(out + d, fma(load(p + (size_t)row * D + d), f, load(out + d)));
    }
    const F32 total = set1(s);
    for (int d = 0; d < D; d += 16) store(out + d, div(load(out + d), total));
}

}  // namespace deepinfer::kernels::DEEPINFER_ISA
