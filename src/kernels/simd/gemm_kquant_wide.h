// The wide path of gemm_kquant.h: unpacking a super-block once, and the product over it.
#pragma once

#include "kernels/simd/gemm_kquant.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

// Wide form of a super-block: 4096 B values as bytes | 1024 B int32 scales, or mins (Q2_K) | 256 B int16 min
// pairs (Q4_K, Q5_K) | d, dmin float.
constexpr int wide_scales = 4096, wide_min_pairs = 5120, wide_d = 5376, wide_dmin = 5440;

// Both bytes of each 16-bit lane of q (< 8) times scale, plus the offset that makes scale * (q - 4) a byte.
static inline U8 q3k_scaled(U8 q, I32 scale) {
    const U8 even = as_u8(set1_i32(0x00ff00ff)), odd = as_u8(set1_i32((int)0xff00ff00));
    const U8 factor = or_and_u8(as_u8(shift_left_i32(scale, 16)), as_u8(scale), as_u8(set1_i32(0xffff)));
    const I32 zero_value = add_i32(set1_i32(q3k_wide_offset), mul_i32(scale, set1_i32(-4)));  // 0..252
    const U8 products = or_and_u8(mul_u16(and_u8(q, odd), factor), mul_u16(and_u8(q, even), factor), even);
    return add_u8(products, as_u8(mul_i32(zero_value, set1_i32(0x01010101))));
}

template <WeightLayout F, int T>
static inline void unpack_quarter(const uint8_t* half, const uint8_t* scales, uint8_t* out) {
    for (int j = 0; j < 8; ++j) {
        U8 x = quarter_line<F, T>(half, j);
        [[maybe_unused]] const I32 scale = widen_i8(scales + 32 * T + 16 * (j / 4));
        if constexpr (F == WeightLayout::q2_k)  // a product is < 256, so two bytes can be multiplied at once
            x = mul_u16(x, as_u8(or_i32(scale, shift_left_i32(scale, 16))));
        if constexpr (F == WeightLayout::q3_k) x = q3k_scaled(shift_right_u8(x, 3), scale);
        store_u8(out + 512 * T + 64 * j, x);
    }
}

template <WeightLayout F>
static void kquant_unpack(const uint8_t* w, int blocks, uint8_t* u) {
    for (int b = 0; b < blocks; ++b, w += KQuant<F>::block, u += kquant_wide_bytes) {
        KQuantScales unpacked;
        const uint8_t* scales = w + 64;
        if constexpr (F != WeightLayout::q6_k) unpack_scales<F>(w, unpacked), scales = unpacked.scale;
        const uint8_t* chunk = w + KQuant<F>::quants;
        if constexpr (KQuant<F>::sub_blocks_of_32) {
            for (int s = 0; s < 8; ++s) store_i32(u + wide_scales + 64 * s, widen_u8(scales + 16 * s));
            for (int s = 0; s < 4; ++s) store_i32(u + wide_min_pairs + 64 * s, min_pair(unpacked.min, s));
            for (int c = 0; c < 4; ++c, chunk += KQuant<F>::chunk)
                for (int j = 0; j < 8; ++j) {
                    store_u8(u + 1024 * c + 64 * j, pair_line<F, 0>(chunk, j));
                    store_u8(u + 1024 * c + 512 + 64 * j, pair_line<F, 1>(chunk, j));
                }
        } else {
            if constexpr (F != WeightLayout::q3_k)
                for (int s = 0; s < 16; ++s)
                    store_i32(u + wide_scales + 64 * s, F == WeightLayout::q2_k
                                                            ? widen_u8(unpacked.min + 16 * s)
                                                            : widen_i8(scales + 16 * s));
            for (int h = 0; h < 2; ++h, chunk += KQuant<F>::chunk) {
                unpack_quarter<F, 0>(chunk, scales + 128 * h, u + 2048 * h);
                unpack_quarter<F, 1>(chunk, scales + 128 * h, u + 2048 * h);
                unpack_quarter<F, 2>(chunk, scales + 128 * h, u + 2048 * h);
                unpack_quarter<F, 3>(chunk, scales + 128 * h, u + 2048 * h);
            }
        }
        store((float*)(u + wide_d), load_d<F>(w));
        if constexpr (KQuant<F>::has_mins) store((float*)(u + wide_dmin), load_dmin(w));
    }
}

// S of one super-block: values with int32 scales beside them, 4 * lines k per sub-block.
template <WeightLayout F, int R>
static inline void wide_sums(const uint8_t* u, const int* a, I32* S) {
    constexpr int lines = KQuant<F>::sub_blocks_of_32 ? 8 : 4;
    FOR_ROWS(r, R) S[r] = zero_i32();
    DEEPINFER_UNROLL(1)
    for (int s = 0; s < 64 / lines; ++s) {
        I32 dot[R];
        FOR_ROWS(r, R) dot[r] = KQuant<F>::has_mins ? zero_i32() : set1_i32(a[(68 + s) * R + r]);
        DEEPINFER_UNROLL(8)
        for (int j = 0; j < lines; ++j) {
            const U8 x = load_u8(u + 64 * (lines * s + j));
            FOR_ROWS(r, R) dot[r] = dot_u8_i8(dot[r], x, a[(lines * s + j) * R + r]);
        }
        const I32 scale = load_i32(u + wide_scales + 64 * s);
        FOR_ROWS(r, R) S[r] = add_i32(S[r], mul_i32(dot[r], scale));
    }
}
// S of one super-block: values times scales.
template <WeightLayout F, int R>
static inline void wide_scaled_sums(const uint8_t* u, const int* a, I32* S) {
    FOR_ROWS(r, R) S[r] = zero_i32();
    if constexpr (F == WeightLayout::q3_k) {
        const I32 offset = set1_i32((int)((uint32_t)-q3k_wide_offset << 16 | (uint16_t)-q3k_wide_offset));
        DEEPINFER_UNROLL(4)
        for (int s = 0; s < 4; ++s) FOR_ROWS(r, R) S[r] = dot_i16(S[r], offset, a[(64 + s) * R + r]);
    }
    DEEPINFER_UNROLL(1)
    for (int s = 0; s < 8; ++s) DEEPINFER_UNROLL(8)
    for (int j = 0; j < 8; ++j) {
        const U8 x = load_u8(u + 64 * (8 * s + j));
        FOR_ROWS(r, R) S[r] = dot_u8_i8(S[r], x, a[(8 * s + j) * R + r]);
    }
}

template <WeightLayout F, int R>
[[gnu::noinline]] static void kquant_wide_kernel(const uint8_t* u, const uint8_t* act, int blocks, float* y,
                                                 size_t ldy) {
    F32 acc[R];
    FOR_ROWS(r, R) acc[r] = zero();
    for (int b = 0; b < blocks; ++b, u += kquant_wide_bytes, act += R * kquant_record) {
        const int* a = (const int*)act;
        const float* dx = (const float*)act + 84 * R;
        I32 S[R];
        if constexpr (F == WeightLayout::q2_k || F == WeightLayout::q3_k)
            wide_scaled_sums<F, R>(u, a, S);
        else
            wide_sums<F, R>(u, a, S);
        const F32 d = load((const float*)(u + wide_d));
        FOR_ROWS(r, R) acc[r] = fma(to_f32(S[r]), mul(d, set1(dx[r])), acc[r]);
        if constexpr (KQuant<F>::has_mins) {
            const uint8_t* mins = u + (F == WeightLayout::q2_k ? wide_scales : wide_min_pairs);
            subtract_mins<F, R>(
                a, [&](int s) { return load_i32(mins + 64 * s); }, load((const float*)(u + wide_dmin)), acc);
        }
    }
    FOR_ROWS(r, R) store(y + r * ldy, acc[r]);
}

}  // namespace deepinfer::kernels::DEEPINFER_ISA
