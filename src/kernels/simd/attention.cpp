// Grouped-query attention over paged KV blocks of 64 tokens. Decode and prefill give the same bits for a
// query.
//
// Order of operations for one query row, whatever the tile, batch and thread:
//   score of a key  = chain of fma over d = 0..D-1 in the lane of that key
//   block of 64     : running maximum, rescale when it grows, p = exp(s - max), sum by a fixed tree,
//                     o[d] = chain of fma over the keys
//   partial of 512  : the unit of parallel work; partials are merged in key order
// Keys outside a row's range get p = 0, an exact no-op, so a tile may run past the range of one of its rows.
#include "kernels/simd/kernel_functions.h"
#include "kernels/simd/simd.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

constexpr float masked = -1e30f;
constexpr int block = kv_block_tokens;

template <bool F16>
static inline F32 load_kv(const uint8_t* p, size_t index) {
    if constexpr (F16)
        return load_f16((const uint16_t*)p + index);
    else
        return load((const float*)p + index);
}

// Scores of T rows against the 64 keys of a block: s[i][g] = keys 16g..16g+15.
template <bool F16, int T>
static inline void scores(const float* q, int D, const uint8_t* k, const uint8_t* v, bool first_tile,
                          F32 (*s)[4]) {
    FOR_ROWS(i, T) {
        DEEPINFER_UNROLL(4)
        for (int g = 0; g < 4; ++g) s[i][g] = zero();
    }
    constexpr int bytes = F16 ? 128 : 256;
    for (int d = 0; d < D; ++d) {
        if (first_tile)  // V is needed next; a block of it is as large as K's
            for (int i = 0; i < bytes; i += 64) prefetch(v + (size_t)d * bytes + i);
        F32 x[4];
        DEEPINFER_UNROLL(4)
        for (int g = 0; g < 4; ++g) x[g] = load_kv<F16>(k, (size_t)d * block + 16 * g);
        FOR_ROWS(i, T) {
            const F32 y = set1(q[i * D + d]);
            DEEPINFER_UNROLL(4)
            for (int g = 0; g < 4; ++g) s[i][g] = fma(x[g], y, s[i][g]);
        }
    }
}

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
        const F32 e = exp_negative(sub(s[g], set1(m)));
        store(p + 16 * g, e);
        total = add(total, e);
    }
    if (m != top) {
        alignas(64) float factor[16];
        const F32 f = exp_negative(set1(top - m));
        store(factor, f);
        sum *= factor[0];
        for (int d = 0; d < D; d += 16) store(o + d, mul(f, load(o + d)));
        top = m;
    }
    sum += reduce_add(total);
}

// o[i][d0 .. d0+16*G) += sum over keys [from, to) of p[i][key] * V[key]
template <bool F16, int T, int G>
static inline void values(const float* p, const uint8_t* v, const uint8_t* next_k, int D, int d0, int from,
                          int to, bool ahead, float* o) {
    F32 a[T][G];
    FOR_ROWS(i, T) {
        DEEPINFER_UNROLL(4)
        for (int g = 0; g < G; ++g) a[i][g] = load(o + i * D + d0 + 16 * g);
    }
    constexpr int bytes = 16 * G * (F16 ? 2 : 4);
    for (int t = from; t < to; ++t) {
        if (ahead && next_k)
            for (int i = 0; i < bytes; i += 64)
                prefetch(next_k + (size_t)(d0 * block * (F16 ? 2 : 4)) + (size_t)t * bytes + i);
        F32 x[G];
        DEEPINFER_UNROLL(4)
        for (int g = 0; g < G; ++g) x[g] = load_kv<F16>(v, (size_t)t * D + d0 + 16 * g);
        FOR_ROWS(i, T) {
            const F32 w = set1(p[i * block + t]);
            DEEPINFER_UNROLL(4)
            for (int g = 0; g < G; ++g) a[i][g] = fma(x[g], w, a[i][g]);
        }
    }
    FOR_ROWS(i, T) {
        DEEPINFER_UNROLL(4)
        for (int g = 0; g < G; ++g) store(o + i * D + d0 + 16 * g, a[i][g]);
    }
}

template <bool F16, int T>
static void block_rows(const AttentionArgs& a, int row0, int b, const uint8_t* k, const uint8_t* v,
                       const uint8_t* next_k, int from, int to, float* o, float* top, float* sum) {
    const int D = a.head_dim;
    F32 s[T][4];
    scores<F16, T>(a.q + row0 * D, D, k, v, row0 == 0, s);
    alignas(64) float p[T * block];
    for (int i = 0; i < T; ++i)
        softmax_step(s[i], a.first_key[row0 + i] - b, a.last_key[row0 + i] - b, p + i * block,
                     o + (row0 + i) * D, D, top[row0 + i], sum[row0 + i]);
    int d0 = 0;
    for (; d0 + 64 <= D; d0 += 64) values<F16, T, 4>(p, v, next_k, D, d0, from, to, row0 == 0, o + row0 * D);
    for (; d0 < D; d0 += 16) values<F16, T, 1>(p, v, nullptr, D, d0, from, to, false, o + row0 * D);
}

template <bool F16>
static void rows_of_block(const AttentionArgs& a, int b, int from, int to, const uint8_t* next_k, float* o,
                          float* top, float* sum) {
    const uint8_t* base = a.blocks[b / block];
    const uint8_t *k = base + a.k_offset, *v = base + a.v_offset;
    for (int row = 0; row < a.rows;) {
        const int left = a.rows - row;
        // 12 rows are 6 + 6, 7 are 4 + 3: even tiles use the registers best, and the split does not change a
        // bit.
        const int tiles = (left + attention_rows - 1) / attention_rows, take = (left + tiles - 1) / tiles;
        switch (take) {
#define ROWS(T)                                                             \
    case T:                                                                 \
        block_rows<F16, T>(a, row, b, k, v, next_k, from, to, o, top, sum); \
        break;
            ROWS(1)
            default:
                if constexpr (attention_rows > 1) {
                    switch (take) { ROWS(2) default : break; }
                }
                if constexpr (attention_rows > 2) {
                    switch (take) { ROWS(3) ROWS(4) ROWS(5) ROWS(6) default : break; }
                }
#undef ROWS
        }
        row += take;
    }
}

void attention_partials(const AttentionArgs& a) {
    const int D = a.head_dim;
    int lowest = a.first_key[0], highest = a.last_key[0];
    for (int i = 1; i < a.rows; ++i) {
        lowest = a.first_key[i] < lowest ? a.first_key[i] : lowest;
        highest = a.last_key[i] > highest ? a.last_key[i] : highest;
    }
    float top[attention_tile_rows], sum[attention_tile_rows];
    for (int part = a.first_partial; part < a.last_partial; ++part) {
        // Values of all rows stand together while they grow: [rows][D], then max and sum.
        float* o = a.partials + (size_t)(part - a.first_partial) * (size_t)a.rows * (size_t)(D + 2);
        memset(o, 0, (size_t)a.rows * (size_t)D * sizeof(float));
        for (int i = 0; i < a.rows; ++i) top[i] = masked, sum[i] = 0;
        const int end =
            (part + 1) * attention_partial_keys < highest ? (part + 1) * attention_partial_keys : highest;
        for (int b = part * attention_partial_keys; b < end; b += block) {
            if (b + block <= lowest) continue;
            const uint8_t* next_k = b + block < end ? a.blocks[b / block + 1] + a.k_offset : nullptr;
            const int from = lowest > b ? lowest - b : 0, to = highest - b < block ? highest - b : block;
            if (a.kv_f16)
                rows_of_block<true>(a, b, from, to, next_k, o, top, sum);
            else
                rows_of_block<false>(a, b, from, to, next_k, o, top, sum);
        }
        for (int i = 0; i < a.rows; ++i) o[a.rows * D + 2 * i] = top[i], o[a.rows * D + 2 * i + 1] = sum[i];
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
        const F32 f = exp_negative(set1(stats[0] - m));
        store(factor, f);
        s += stats[1] * factor[0];
        for (int d = 0; d < D; d += 16) store(out + d, fma(load(p + (size_t)row * D + d), f, load(out + d)));
    }
    const F32 total = set1(s);
    for (int d = 0; d < D; d += 16) store(out + d, div(load(out + d), total));
}

}  // namespace deepinfer::kernels::DEEPINFER_ISA
