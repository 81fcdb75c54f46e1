// Matrix product for weights in blocks of 32 (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4) and int8 activations.
//
//   per block b, in increasing order:   acc = fma(float(dot_b), dw_b * dx_b, acc)
//   Q4_1, Q5_1, directly after it:      acc = fma(m_b, dx_b * sum_b, acc)
// dot_b is an exact int32 (its inner order is free); the offset of the signed formats is its start value.
#pragma once

#include "kernels/codebooks.h"
#include "kernels/kernel_table.h"
#include "kernels/pack_layout.h"
#include "kernels/simd/dots.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

// What the codes of the non-linear formats mean, plus 128.
template <WeightLayout F>
static inline U8 codebook() {
    alignas(16) uint8_t table[16];
    for (int i = 0; i < 16; ++i)
        table[i] = (uint8_t)(128 + (F == WeightLayout::iq4_nl ? iq4_nl_values[i] : mxfp4_doubled_values[i]));
    return table_u8(table);
}

// The largest weight as it is multiplied.
template <WeightLayout F>
constexpr int block32_max = F == WeightLayout::q4_0 || F == WeightLayout::q4_1   ? 15
                            : F == WeightLayout::q5_0 || F == WeightLayout::q5_1 ? 31
                                                                                 : 255;

template <WeightLayout F, int R>
[[gnu::noinline]] static void block32_kernel(const uint8_t* w, const uint8_t* act, int groups, float* y,
                                             size_t ldy) {
    using L = Block32<F>;
    constexpr bool non_linear = F == WeightLayout::iq4_nl || F == WeightLayout::mxfp4;
    const U8 low4 = set1_u8(15), bit4 = set1_u8(16);
    const U8 table = non_linear ? codebook<F>() : low4;
    F32 acc[R];
    FOR_ROWS(r, R) acc[r] = zero();
    const uint8_t* header = w;
    for (int g = 0; g < groups; ++g, w += L::group) {
        if (L::shared == 1 || g % L::shared == 0) header = w, w += L::header;
        // With many rows one block outlasts the reorder window, so ask for the stream 4 KiB ahead; with few,
        // the hardware streamer is enough and hints cost bandwidth.
        if constexpr (R >= 6)
            for (int i = -L::header; i < L::group; i += 64) prefetch(w + 4096 + i);
        const uint8_t* scales = header + g % L::shared * 2 * L::scales;
        const uint8_t* q = w + 2 * L::high;
        DEEPINFER_UNROLL(1)
        for (int s = 0; s < 2; ++s, q += L::quants, act += R * block32_record) {
            const int* a = (const int*)act;
            const float* dx = (const float*)act + 8 * R;
            Dots<block32_max<F>, R> dot(
                [&](int r) { return L::has_min ? zero_i32() : set1_i32(a[9 * R + r]); });
            if constexpr (F == WeightLayout::q8_0) {
                DEEPINFER_UNROLL(8)
                for (int j = 0; j < 8; ++j) dot.line(j, load_u8(q + 64 * j), a + j * R);
            } else {
                const U8 h = L::has_high ? load_u8(w + 64 * s) : low4;
                DEEPINFER_UNROLL(4)
                for (int j = 0; j < 4; ++j) {
                    const U8 x = load_u8(q + 64 * j);
                    U8 lo = and_u8(x, low4), hi = and_u8(shift_right_u8(x, 4), low4);
                    if constexpr (L::has_high) {
                        lo = or_and_u8(lo, shift_left_u8(h, 4 - j), bit4);
                        hi = or_and_u8(hi, shift_right_u8(h, j), bit4);
                    }
                    if constexpr (non_linear) lo = lookup_u8(table, lo), hi = lookup_u8(table, hi);
                    dot.line(2 * j, lo, a + j * R);
                    dot.line(2 * j + 1, hi, a + (j + 4) * R);
                }
            }
            const uint8_t* d = scales + L::scales * s;
            const F32 dw = F == WeightLayout::mxfp4 ? load_half_e8m0(d) : load_f16((const uint16_t*)d);
            FOR_ROWS(r, R) acc[r] = fma(to_f32(dot.end(r)), mul(dw, set1(dx[r])), acc[r]);
            if constexpr (L::has_min) {
                const F32 m = load_f16((const uint16_t*)(d + 32));
                FOR_ROWS(r, R) acc[r] = fma(m, set1(dx[R + r]), acc[r]);
            }
        }
    }
    FOR_ROWS(r, R) store(y + r * ldy, acc[r]);
}

constexpr int block32_words = block32_record / 4;

// int8 per block of 32: amax / 127, round to nearest even. Non-finite blocks get scale NaN, so the row's
// outputs are NaN and the request fails visibly instead of silently.
static inline void block32_quantize4(const float* v, int n, int offset, int R, uint32_t* rec) {
    // Bit patterns of magnitudes are ordered as the magnitudes are; infinity and NaN come last.
    I32 top[4] = {zero_i32(), zero_i32(), zero_i32(), zero_i32()}, sum[4] = {top[0], top[0], top[0], top[0]};
    for (int i = 0; i < n; ++i)
        top[i] = max_i32(magnitude_bits(load(v + 32 * i)), magnitude_bits(load(v + 32 * i + 16)));
    alignas(16) int tops[4], sums[4];
    reduce_max4_i32(top, tops);
    float scale[4];
    alignas(64) int8_t q[4][32];
    for (int i = 0; i < n; ++i) {
        float most;
        memcpy(&most, &tops[i], 4);
        const bool finite = tops[i] < 0x7f800000;
        scale[i] = finite ? most / 127.f : __builtin_nanf("");
        const F32 inverse = set1(finite && tops[i] > 0 ? 127.f / most : 0.f);
        const I32 q0 = to_i32(mul(load(v + 32 * i), inverse)),
                  q1 = to_i32(mul(load(v + 32 * i + 16), inverse));
        sum[i] = add_i32(q0, q1);
        store_i8(q[i], q0), store_i8(q[i] + 16, q1);
    }
    reduce_add4_i32(sum, sums);
    for (int i = 0; i < n; ++i, rec += R * block32_words) {
        for (int j = 0; j < 8; ++j) memcpy(rec + j * R, q[i] + 4 * j, 4);
        memcpy(rec + 8 * R, &scale[i], 4);
        const float product = scale[i] * (float)sums[i];
        if (offset == 0)
            memcpy(rec + 9 * R, &product, 4);
        else
            rec[9 * R] = (uint32_t)(sums[i] * offset);
    }
}

static void block32_quantize(ActivationLayout layout, const float* x, size_t ldx, int R, int columns,
                             uint8_t* out) {
    const int blocks = columns / 32, records = (columns + 63) / 64 * 2;
    const int offset = layout == ActivationLayout::int8_off8     ? -8
                       : layout == ActivationLayout::int8_off16  ? -16
                       : layout == ActivationLayout::int8_off128 ? -128
                                                                 : 0;
    for (int r = 0; r < R; ++r) {
        uint32_t* rec = (uint32_t*)out + r;
        const float* v = x + (size_t)r * ldx;
        int b = 0;
        for (; b + 4 <= blocks; b += 4)
            block32_quantize4(v + b * 32, 4, offset, R, rec + (size_t)b * (size_t)R * block32_words);
        if (b < blocks)
            block32_quantize4(v + b * 32, blocks - b, offset, R, rec + (size_t)b * (size_t)R * block32_words);
        if (blocks < records)  // padding to an even number of blocks
            for (int j = 0; j < block32_words; ++j)
                rec[((size_t)blocks * block32_words + (size_t)j) * (size_t)R] = 0;
    }
}

}  // namespace deepinfer::kernels::DEEPINFER_ISA
