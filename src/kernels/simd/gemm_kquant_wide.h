// The path of gemm_kquant.h for Q2_K and Q3_K with many rows: a super-block is unpacked once, each value multiplied by
// its sub-block's scale, which fits a byte; then S is one dot product of 256 values.
#pragma once

#include "kernels/simd/gemm_kquant.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

// Wide form of a super-block: 4096 B values as bytes | 1024 B mins as int32 (Q2_K) | d, dmin float.
constexpr int wide_mins = 4096, wide_d = 5120, wide_dmin = 5184;
constexpr int q3k_wide_offset = 124;  // scale * value is in [-124, 128]

// scale * (q - 4) + offset; q < 8, even and odd bytes multiplied apart.
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
        const U8 x = quarter_line<F, T>(half, j);
        const I32 scale = widen_i8(scales + 32 * T + 16 * (j / 4));
        store_u8(out + 512 * T + 64 * j,
                 F == WeightLayout::q2_k ? q2k_scaled(x, scale) : q3k_scaled(shift_right_u8(x, 3), scale));
    }
}

template <WeightLayout F>
static void kquant_unpack(const uint8_t* w, int blocks, uint8_t* u) {
    for (int b = 0; b < blocks; ++b, w += KQuant<F>::block, u += kquant_wide_bytes) {
        KQuantScales unpacked;
        unpack_scales<F>(w, unpacked);
        for (int h = 0; h < 2; ++h) {
            const uint8_t *half = w + KQuant<F>::quants + KQuant<F>::chunk * h,
                          *scales = unpacked.scale + 128 * h;
            unpack_quarter<F, 0>(half, scales, u + 2048 * h),
                unpack_quarter<F, 1>(half, scales, u + 2048 * h);
            unpack_quarter<F, 2>(half, scales, u + 2048 * h),
                unpack_quarter<F, 3>(half, scales, u + 2048 * h);
        }
        store((float*)(u + wide_d), load_d<F>(w));
        if constexpr (KQuant<F>::has_mins) {
            for (int s = 0; s < 16; ++s) store_i32(u + wide_mins + 64 * s, widen_u8(unpacked.min + 16 * s));
            store((float*)(u + wide_dmin), load_dmin(w));
        }
    }
}

template <WeightLayout F, int R>
[[gnu::noinline]] static void kquant_wide_kernel(const uint8_t* u, const uint8_t* act, int blocks, float* y,
                                                 size_t ldy) {
    const I32 offset = set1_i32((int)((uint32_t)-q3k_wide_offset << 16 | (uint16_t)-q3k_wide_offset));
    F32 acc[R];
    FOR_ROWS(r, R) acc[r] = zero();
    for (int b = 0; b < blocks; ++b, u += kquant_wide_bytes, act += R * kquant_record) {
        const int* a = (const int*)act;
        const float* dx = (const float*)act + 84 * R;
        I32 S[R];
        FOR_ROWS(r, R) S[r] = zero_i32();
        if constexpr (F == WeightLayout::q3_k) {
            DEEPINFER_UNROLL(4)
            for (int s = 0; s < 4; ++s) FOR_ROWS(r, R) S[r] = dot_i16(S[r], offset, a[(64 + s) * R + r]);
        }
        DEEPINFER_UNROLL(1)
        for (int s = 0; s < 8; ++s) DEEPINFER_UNROLL(8)
        for (int j = 0; j < 8; ++j) {
            const U8 x = load_u8(u + 64 * (8 * s + j));
            FOR_ROWS(r, R) S[r] = dot_u8_i8(S[r], x, a[(8 * s + j) * R + r]);
        }
        const F32 d = load((const float*)(u + wide_d));
        FOR_ROWS(r, R) acc[r] = fma(to_f32(S[r]), mul(d, set1(dx[r])), acc[r]);
        if constexpr (KQuant<F>::has_mins)
            subtract_mins<F, R>(
                a, [&](int s) { return load_i32(u + wide_mins + 64 * s); },
                load((const float*)(u + wide_dmin)), acc);
    }
    FOR_ROWS(r, R) store(y + r * ldy, acc[r]);
}

}  // namespace deepinfer::kernels::DEEPINFER_ISA
