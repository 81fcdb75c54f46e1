// Matrix product for the K-quants Q4_K and Q6_K (super-blocks of 256) and int8 activations with one scale per
// 256.
//
//   per super-block, in increasing order:
//     S   = sum over sub-blocks of scale_s * dot_s      exact int32 (|S| < 2^26), so its inner order is free
//     acc = fma(float(S), d * dx, acc)
//     Q4_K only:  Z = sum of min_s * sum_s (exact);     acc = fnma(float(Z), dmin * dx, acc)
// Two paths with equal results: packed (few rows; weights are unpacked in registers) and wide (many rows; a
// group of panels is unpacked to bytes and int32 scales once, then all row tiles run over it in L2).
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/pack_layout.h"
#include "kernels/simd/simd.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

constexpr int kquant_record = 340;        // activation bytes per row and super-block
constexpr size_t kquant_prefetch = 2304;  // distance in bytes

// The 6-bit scales and mins of a Q4_K super-block as bytes: 16 outputs per sub-block.
static inline void q4k_scales(const uint8_t* w, uint8_t* sc, uint8_t* mn) {
    const U8 low4 = set1_u8(15), two = set1_u8(0x30);
    for (int h = 0; h < 2; ++h) {
        const U8 lo = load_u8(w + 64 + 64 * h), hi = split_nibbles(w + 192 + 32 * h);
        store_u8(sc + 64 * h, or_and_u8(and_u8(lo, low4), shift_left_u8(hi, 4), two));
        store_u8(mn + 64 * h, or_and_u8(and_u8(shift_right_u8(lo, 4), low4), shift_left_u8(hi, 2), two));
    }
}
static inline I32 min_pair(const uint8_t* mn, int s) {
    return or_i32(widen_u8(mn + 32 * s), shift_left_i32(widen_u8(mn + 32 * s + 16), 16));
}
template <int T>
static inline U8 q6k_line(const uint8_t* half, int j) {  // quarter T (32 k) of a 128-k half, line j
    const U8 low4 = set1_u8(15), two = set1_u8(0x30);
    U8 l = load_u8(half + (T & 1 ? 1024 + 64 * j : 128 * j)), g = load_u8(half + 128 * j + 64);
    l = and_u8(T & 2 ? shift_right_u8(l, 4) : l, low4);
    g = T == 0 ? shift_left_u8(g, 4) : T == 1 ? shift_left_u8(g, 2) : T == 2 ? g : shift_right_u8(g, 2);
    return or_and_u8(l, g, two);
}

template <int High, int R>
static inline void q4k_sub_block(const uint8_t* w, const uint8_t* sc, const int* a, int s, I32* S) {
    const uint8_t* q = w + 256 + 512 * (s / 2);
    const U8 low4 = set1_u8(15);
    if constexpr (R >= 6)  // an eighth of the super-block per step: a burst of all lines would overflow the
                           // miss queue
        for (int i = s * 2304 / 8 / 64; i < (s + 1) * 2304 / 8 / 64; ++i)
            prefetch(w + kquant_prefetch + 64 * i);
    I32 dot[R];
    FOR_ROWS(r, R) dot[r] = zero_i32();
    DEEPINFER_UNROLL(8)
    for (int j = 0; j < 8; ++j) {
        U8 x = load_u8(q + 64 * j);
        x = and_u8(High ? shift_right_u8(x, 4) : x, low4);
        FOR_ROWS(r, R) dot[r] = dot_u8_i8(dot[r], x, a[(8 * s + j) * R + r]);
    }
    const I32 scale = widen_u8(sc + 16 * s);
    FOR_ROWS(r, R) S[r] = add_i32(S[r], mul_i32(dot[r], scale));
}
template <int T, int R>
static inline void q6k_quarter(const uint8_t* w, const int* a, int half, I32* S) {
    const int t = 4 * half + T;
    if constexpr (R >= 4)
        for (int i = t * 3392 / 8 / 64; i < (t + 1) * 3392 / 8 / 64; ++i)
            prefetch(w + kquant_prefetch + 64 * i);
    DEEPINFER_UNROLL(2)
    for (int s = 0; s < 2; ++s) {
        I32 dot[R];
        FOR_ROWS(r, R) dot[r] = set1_i32(a[(68 + 2 * t + s) * R + r]);
        DEEPINFER_UNROLL(4)
        for (int j = 0; j < 4; ++j) {
            const U8 x = q6k_line<T>(w + 320 + 1536 * half, 4 * s + j);
            FOR_ROWS(r, R) dot[r] = dot_u8_i8(dot[r], x, a[(8 * t + 4 * s + j) * R + r]);
        }
        const I32 scale = widen_i8(w + 64 + 16 * (2 * t + s));
        FOR_ROWS(r, R) S[r] = add_i32(S[r], mul_i32(dot[r], scale));
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
        I32 S[R];
        FOR_ROWS(r, R) S[r] = zero_i32();
        if constexpr (F == WeightLayout::q4_k) {
            alignas(64) uint8_t sc[128], mn[128];
            q4k_scales(w, sc, mn);
            DEEPINFER_UNROLL(1)
            for (int s = 0; s < 8; s += 2)
                q4k_sub_block<0, R>(w, sc, a, s, S), q4k_sub_block<1, R>(w, sc, a, s + 1, S);
            I32 Z[R];
            FOR_ROWS(r, R) Z[r] = zero_i32();
            DEEPINFER_UNROLL(1)
            for (int s = 0; s < 4; ++s) {
                const I32 m = min_pair(mn, s);
                FOR_ROWS(r, R) Z[r] = dot_i16(Z[r], m, a[(64 + s) * R + r]);
            }
            const F32 d = load_f16((const uint16_t*)w), dmin = load_f16((const uint16_t*)(w + 32));
            FOR_ROWS(r, R) acc[r] = fma(to_f32(S[r]), mul(d, set1(dx[r])), acc[r]);
            FOR_ROWS(r, R) acc[r] = fnma(to_f32(Z[r]), mul(dmin, set1(dx[r])), acc[r]);
        } else {
            DEEPINFER_UNROLL(1)
            for (int h = 0; h < 2; ++h) {
                q6k_quarter<0, R>(w, a, h, S), q6k_quarter<1, R>(w, a, h, S);
                q6k_quarter<2, R>(w, a, h, S), q6k_quarter<3, R>(w, a, h, S);
            }
            const F32 d = load((const float*)w);
            FOR_ROWS(r, R) acc[r] = fma(to_f32(S[r]), mul(d, set1(dx[r])), acc[r]);
        }
    }
    FOR_ROWS(r, R) store(y + r * ldy, acc[r]);
}

// Wide form of a super-block: 4096 B values as bytes | 16 int32 scale lines | 4 lines of int16 min pairs | d,
// dmin float.
template <WeightLayout F>
static void kquant_unpack(const uint8_t* w, int blocks, uint8_t* u) {
    for (int b = 0; b < blocks; ++b, w += KQuant<F>::block, u += kquant_wide_bytes) {
        if constexpr (F == WeightLayout::q4_k) {
            alignas(64) uint8_t sc[128], mn[128];
            q4k_scales(w, sc, mn);
            for (int s = 0; s < 8; ++s) store_i32(u + 4096 + 64 * s, widen_u8(sc + 16 * s));
            for (int s = 0; s < 4; ++s) store_i32(u + 5120 + 64 * s, min_pair(mn, s));
            const U8 low4 = set1_u8(15);
            for (int c = 0; c < 4; ++c)
                for (int j = 0; j < 8; ++j) {
                    const U8 x = load_u8(w + 256 + 512 * c + 64 * j);
                    store_u8(u + 1024 * c + 64 * j, and_u8(x, low4));
                    store_u8(u + 1024 * c + 512 + 64 * j, and_u8(shift_right_u8(x, 4), low4));
                }
            store((float*)(u + 5376), load_f16((const uint16_t*)w));
            store((float*)(u + 5440), load_f16((const uint16_t*)(w + 32)));
        } else {
            for (int s = 0; s < 16; ++s) store_i32(u + 4096 + 64 * s, widen_i8(w + 64 + 16 * s));
            for (int h = 0; h < 2; ++h)
                for (int j = 0; j < 8; ++j) {
                    uint8_t* o = u + 2048 * h + 64 * j;
                    const uint8_t* half = w + 320 + 1536 * h;
                    store_u8(o, q6k_line<0>(half, j)), store_u8(o + 512, q6k_line<1>(half, j));
                    store_u8(o + 1024, q6k_line<2>(half, j)), store_u8(o + 1536, q6k_line<3>(half, j));
                }
            store((float*)(u + 5376), load((const float*)w));
        }
    }
}
template <WeightLayout F, int R>
[[gnu::noinline]] static void kquant_wide_kernel(const uint8_t* u, const uint8_t* act, int blocks, float* y,
                                                 size_t ldy) {
    constexpr int lines = F == WeightLayout::q4_k ? 8 : 4;  // of 4 k, per sub-block
    F32 acc[R];
    FOR_ROWS(r, R) acc[r] = zero();
    for (int b = 0; b < blocks; ++b, u += kquant_wide_bytes, act += R * kquant_record) {
        const int* a = (const int*)act;
        const float* dx = (const float*)act + 84 * R;
        I32 S[R];
        FOR_ROWS(r, R) S[r] = zero_i32();
        DEEPINFER_UNROLL(1)
        for (int s = 0; s < 64 / lines; ++s) {
            I32 dot[R];
            FOR_ROWS(r, R) dot[r] = F == WeightLayout::q4_k ? zero_i32() : set1_i32(a[(68 + s) * R + r]);
            DEEPINFER_UNROLL(8)
            for (int j = 0; j < lines; ++j) {
                const U8 x = load_u8(u + 64 * (lines * s + j));
                FOR_ROWS(r, R) dot[r] = dot_u8_i8(dot[r], x, a[(lines * s + j) * R + r]);
            }
            const I32 scale = load_i32(u + 4096 + 64 * s);
            FOR_ROWS(r, R) S[r] = add_i32(S[r], mul_i32(dot[r], scale));
        }
        const F32 d = load((const float*)(u + 5376));
        FOR_ROWS(r, R) acc[r] = fma(to_f32(S[r]), mul(d, set1(dx[r])), acc[r]);
        if constexpr (F == WeightLayout::q4_k) {
            FOR_ROWS(r, R) S[r] = zero_i32();
            for (int s = 0; s < 4; ++s) {
                const I32 m = load_i32(u + 5120 + 64 * s);
                FOR_ROWS(r, R) S[r] = dot_i16(S[r], m, a[(64 + s) * R + r]);
            }
            const F32 dmin = load((const float*)(u + 5440));
            FOR_ROWS(r, R) acc[r] = fnma(to_f32(S[r]), mul(dmin, set1(dx[r])), acc[r]);
        }
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
