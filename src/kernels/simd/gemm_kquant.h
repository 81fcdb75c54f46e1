// Matrix product for the K-quants (super-blocks of 256) and int8 activations with one scale per 256.
//
//   per super-block, in increasing order:
//     S   = sum over sub-blocks of scale_s * dot_s      exact int32 (|S| < 2^27), so its inner order is free
//     acc = fma(float(S), d * dx, acc)
//     Q2_K, Q4_K, Q5_K:  Z = sum of min_s * sum_s (exact);   acc = fnma(float(Z), dmin * dx, acc)
// Weights are unpacked in registers. Q2_K and Q3_K with many rows have a second path with equal results
// (gemm_kquant_wide.h); for the others it was measured to be slower.
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/pack_layout.h"
#include "kernels/simd/dots.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

constexpr size_t kquant_prefetch = 2304;  // distance in bytes

// The scales, and mins, of a super-block as bytes: 16 outputs per sub-block.
struct alignas(64) KQuantScales {
    uint8_t scale[256], min[256];
};
template <WeightLayout F>
static inline void unpack_scales(const uint8_t* w, KQuantScales& out) {
    const U8 low4 = set1_u8(15), low6 = set1_u8(63), two = set1_u8(0x30);
    if constexpr (F == WeightLayout::q2_k) {
        for (int i = 0; i < 256; i += 64) {
            const U8 v = load_u8(w + 64 + i);
            store_u8(out.scale + i, and_u8(v, low4));
            store_u8(out.min + i, and_u8(shift_right_u8(v, 4), low4));
        }
    } else if constexpr (F == WeightLayout::q3_k) {
        const U8 high = load_u8(w + 192), minus32 = set1_u8(224);
        for (int i = 0; i < 2; ++i) {
            const U8 v = load_u8(w + 64 + 64 * i), h = i ? shift_left_u8(high, 2) : shift_left_u8(high, 4),
                     h2 = i ? shift_right_u8(high, 2) : high;
            store_u8(out.scale + 64 * i, add_u8(or_and_u8(and_u8(v, low4), h, two), minus32));
            store_u8(out.scale + 64 * i + 128,
                     add_u8(or_and_u8(and_u8(shift_right_u8(v, 4), low4), h2, two), minus32));
        }
    } else {
        const U8 a = load_u8(w + 64), b = load_u8(w + 128), c = load_u8(w + 192);
        store_u8(out.scale, and_u8(a, low6)), store_u8(out.min, and_u8(b, low6));
        store_u8(out.scale + 64, or_and_u8(and_u8(c, low4), shift_right_u8(a, 2), two));
        store_u8(out.min + 64, or_and_u8(and_u8(shift_right_u8(c, 4), low4), shift_right_u8(b, 2), two));
    }
}
static inline I32 min_pair(const uint8_t* mn, int s) {
    return or_i32(widen_u8(mn + 32 * s), shift_left_i32(widen_u8(mn + 32 * s + 16), 16));
}
template <WeightLayout F>
static inline F32 load_d(const uint8_t* w) {
    if constexpr (KQuant<F>::has_mins)
        return load_f16((const uint16_t*)w);
    else
        return load((const float*)w);
}
static inline F32 load_dmin(const uint8_t* w) { return load_f16((const uint16_t*)(w + 32)); }

// Line j (4 values of 16 outputs) of sub-block High of a chunk of 64 values.
template <WeightLayout F, int High>
static inline U8 pair_line(const uint8_t* chunk, int j) {
    U8 x = load_u8(chunk + (F == WeightLayout::q5_k ? 128 : 0) + 64 * j);
    x = and_u8(High ? shift_right_u8(x, 4) : x, set1_u8(15));
    if constexpr (F == WeightLayout::q5_k) {
        const U8 h = load_u8(chunk + 64 * (j / 4));
        x = or_and_u8(x, High ? shift_right_u8(h, j % 4) : shift_left_u8(h, 4 - j % 4), set1_u8(16));
    }
    return x;
}
static inline U8 shift_u8(U8 x, int left) {
    return left > 0 ? shift_left_u8(x, left) : left < 0 ? shift_right_u8(x, -left) : x;
}
// Line j of quarter T (32 values) of a half of 128 values. Q3_K: eight times the value + 4.
template <WeightLayout F, int T>
static inline U8 quarter_line(const uint8_t* half, int j) {
    if constexpr (F == WeightLayout::q2_k) {
        return and_u8(shift_u8(load_u8(half + 64 * j), -2 * T), set1_u8(3));
    } else if constexpr (F == WeightLayout::q3_k) {
        const U8 h = load_u8(half + 64 * (j / 2)), x = load_u8(half + 256 + 64 * j);
        return or_and_u8(and_u8(shift_u8(x, 3 - 2 * T), set1_u8(0x18)), shift_u8(h, 5 - T - 4 * (j % 2)),
                         set1_u8(0x20));
    } else {
        const U8 l = load_u8(half + (T & 1 ? 1024 + 64 * j : 128 * j)), g = load_u8(half + 128 * j + 64);
        return or_and_u8(and_u8(T & 2 ? shift_right_u8(l, 4) : l, set1_u8(15)), shift_u8(g, 4 - 2 * T),
                         set1_u8(0x30));
    }
}

// Asks for an eighth of the super-block ahead: a burst of all its lines would overflow the miss queue.
template <WeightLayout F>
static inline void prefetch_eighth(const uint8_t* w, int s) {
    constexpr int lines = KQuant<F>::block / 64;
    for (int i = s * lines / 8; i < (s + 1) * lines / 8; ++i) prefetch(w + kquant_prefetch + 64 * i);
}

template <WeightLayout F, int High, int R>
static inline void sub_block_of_32(const uint8_t* w, const uint8_t* scales, const int* a, int s, I32* S) {
    const uint8_t* chunk = w + KQuant<F>::quants + KQuant<F>::chunk * (s / 2);
    read_memory_again();
    if constexpr (R >= 6) prefetch_eighth<F>(w, s);
    Dots<F == WeightLayout::q4_k ? 15 : 31, R> dot([](int) { return zero_i32(); });
    DEEPINFER_UNROLL(8)
    for (int j = 0; j < 8; ++j) dot.line(j, pair_line<F, High>(chunk, j), a + (8 * s + j) * R);
    const I32 scale = widen_u8(scales + 16 * s);
    FOR_ROWS(r, R) S[r] = add_i32(S[r], mul_i32(dot.end(r), scale));
}
// Values times scale: a product is < 256, so the two bytes of a 16-bit lane can be multiplied at once. Cheaper than
// scaling each row's sum from some rows on.
static inline U8 q2k_scaled(U8 x, I32 scale) {
    return mul_u16(x, as_u8(or_i32(scale, shift_left_i32(scale, 16))));
}
constexpr int q2k_scaled_rows = 4;

template <WeightLayout F, int T, int R>
static inline void two_sub_blocks_of_16(const uint8_t* w, const uint8_t* scales, const int* a, int half,
                                        I32* S) {
    const int t = 4 * half + T;
    read_memory_again();
    if constexpr (R >= 4) prefetch_eighth<F>(w, t);
    const uint8_t* values = w + KQuant<F>::quants + KQuant<F>::chunk * half;
    DEEPINFER_UNROLL(2)
    for (int s = 0; s < 2; ++s) {
        const I32 scale = widen_i8(scales + 16 * (2 * t + s));
        if constexpr (F == WeightLayout::q2_k && R >= q2k_scaled_rows) {
            DEEPINFER_UNROLL(4)
            for (int j = 0; j < 4; ++j) {
                const U8 x = q2k_scaled(quarter_line<F, T>(values, 4 * s + j), scale);
                FOR_ROWS(r, R) S[r] = dot_u8_i8(S[r], x, a[(8 * t + 4 * s + j) * R + r]);
            }
            continue;
        }
        Dots<F == WeightLayout::q2_k ? 3 : 63, R> dot([&](int r) {
            return F == WeightLayout::q2_k ? zero_i32() : set1_i32(a[(68 + 2 * t + s) * R + r]);
        });
        DEEPINFER_UNROLL(4)
        for (int j = 0; j < 4; ++j)
            dot.line(j, quarter_line<F, T>(values, 4 * s + j), a + (8 * t + 4 * s + j) * R);
        FOR_ROWS(r, R) S[r] = add_i32(S[r], mul_i32(dot.end(r), scale)), settle(S[r]);
    }
}

// acc = fnma(float(sum over s of min_s * sum_s), dmin * dx, acc); min(s) is line s of pairs of mins of 32 as
// int16, or of Q2_K's mins of 16 as int32.
template <WeightLayout F, int R, class Min>
static inline void subtract_mins(const int* a, Min min, F32 dmin, F32* acc) {
    const float* dx = (const float*)a + 84 * R;
    I32 Z[R];
    FOR_ROWS(r, R) Z[r] = zero_i32();
    DEEPINFER_UNROLL(1)
    for (int s = 0; s < (F == WeightLayout::q2_k ? 16 : 4); ++s) {
        const I32 m = min(s);
        if constexpr (F == WeightLayout::q2_k) {
            FOR_ROWS(r, R) Z[r] = add_i32(Z[r], mul_i32(m, set1_i32(a[(68 + s) * R + r])));
        } else {
            FOR_ROWS(r, R) Z[r] = dot_i16(Z[r], m, a[(64 + s) * R + r]);
        }
    }
    if constexpr (F == WeightLayout::q2_k) {  // the record has -32 times the sums of 16
        FOR_ROWS(r, R) acc[r] = fma(to_f32(shift_right_i32(Z[r], 5)), mul(dmin, set1(dx[r])), acc[r]);
    } else {
        FOR_ROWS(r, R) acc[r] = fnma(to_f32(Z[r]), mul(dmin, set1(dx[r])), acc[r]);
    }
}

template <WeightLayout F, int R>
[[gnu::noinline]] static void kquant_kernel(const uint8_t* w, const uint8_t* act, int blocks, float* y,
                                            size_t ldy) {
    F32 acc[R];
    FOR_ROWS(r, R) acc[r] = zero();
    for (int b = 0; b < blocks; ++b, w += KQuant<F>::block, act += R * kquant_record) {
        const int* a = (const int*)act;
        const float* dx = (const float*)act + 84 * R;
        KQuantScales unpacked;
        const uint8_t* scales = w + 64;
        if constexpr (F != WeightLayout::q6_k) unpack_scales<F>(w, unpacked), scales = unpacked.scale;
        I32 S[R];
        FOR_ROWS(r, R) S[r] = zero_i32();
        if constexpr (KQuant<F>::sub_blocks_of_32) {
            DEEPINFER_UNROLL(1)
            for (int s = 0; s < 8; s += 2) {
                sub_block_of_32<F, 0, R>(w, scales, a, s, S);
                sub_block_of_32<F, 1, R>(w, scales, a, s + 1, S);
            }
        } else {
            DEEPINFER_UNROLL(1)
            for (int h = 0; h < 2; ++h) {
                two_sub_blocks_of_16<F, 0, R>(w, scales, a, h, S);
                two_sub_blocks_of_16<F, 1, R>(w, scales, a, h, S);
                two_sub_blocks_of_16<F, 2, R>(w, scales, a, h, S);
                two_sub_blocks_of_16<F, 3, R>(w, scales, a, h, S);
            }
        }
        if constexpr (F == WeightLayout::q3_k) FOR_ROWS(r, R) S[r] = shift_right_i32(S[r], 3);
        const F32 d = load_d<F>(w);
        FOR_ROWS(r, R) acc[r] = fma(to_f32(S[r]), mul(d, set1(dx[r])), acc[r]);
        if constexpr (KQuant<F>::has_mins)
            subtract_mins<F, R>(
                a,
                [&](int s) {
                    return F == WeightLayout::q2_k ? widen_u8(unpacked.min + 16 * s)
                                                   : min_pair(unpacked.min, s);
                },
                load_dmin(w), acc);
    }
    FOR_ROWS(r, R) store(y + r * ldy, acc[r]);
}

static void kquant_quantize(const float* x, size_t ldx, int R, int columns, uint8_t* out) {
    for (int r = 0; r < R; ++r)
        for (int b = 0; b < columns / 256; ++b) {
            const float* v = x + (size_t)r * ldx + b * 256;
            uint8_t* rec = out + (size_t)b * (size_t)R * kquant_record;
            F32 top16 = zero(), check16 = zero();
            for (int e = 0; e < 256; e += 16) {
                const F32 t = load(v + e);
                top16 = max(abs(t), top16), check16 = add(check16, sub(t, t));
            }
            const float top = reduce_max(top16);
            const F32 inverse = set1(top > 0 ? 127.f / top : 0.f);
            for (int s = 0; s < 16; ++s) {
                const I32 q = to_i32(mul(load(v + 16 * s), inverse));
                const int sum = reduce_add_i32(q);
                alignas(16) int8_t bytes[16];
                store_i8(bytes, q);
                for (int j = 0; j < 4; ++j) memcpy(rec + 4 * ((4 * s + j) * R + r), bytes + 4 * j, 4);
                ((int*)rec)[(68 + s) * R + r] = -32 * sum;
                int16_t* pair = (int16_t*)rec + 128 * R + ((s / 4) * R + r) * 2 + (s / 2) % 2;
                *pair = (int16_t)(s & 1 ? *pair + sum : sum);
            }
            ((float*)rec)[84 * R + r] = top / 127.f + reduce_add(check16);
        }
}

}  // namespace deepinfer::kernels::DEEPINFER_ISA
