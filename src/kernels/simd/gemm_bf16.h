// Matrix product of BF16 weights and BF16 activations. w[2i], w[2i+1] are neighbours in k:
//
//   acc = fma(w[2i+1], x[2i+1], acc), then acc = fma(w[2i], x[2i], acc);   i increasing
//   subnormal inputs and results of each fma are zero
// This is what VDPBF16PS computes (dot_bf16.h). Where there is no such instruction, two FMAs with flushed subnormals give
// the same bits.
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/simd/dot_bf16.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

template <int R>
[[gnu::noinline]] static void bf16_kernel(const uint8_t* w, const float* a, int columns, float* y,
                                          size_t ldy) {
    F32 acc[R];
    FOR_ROWS(r, R) acc[r] = zero();
    for (int k = 0; k < columns; k += 2, w += 64, a += 2 * R) {
        if constexpr (R >= 6) prefetch(w + 4096);
        const F32 high = high_bf16(load_i32(w));
        FOR_ROWS(r, R) acc[r] = fma_flushed(high, set1(a[R + r]), acc[r]);
        const F32 low = low_bf16(load_i32(w));
        FOR_ROWS(r, R) acc[r] = fma_flushed(low, set1(a[r]), acc[r]);
    }
    FOR_ROWS(r, R) store(y + r * ldy, acc[r]);
}

static void bf16_quantize_floats(const float* x, size_t ldx, int R, int columns, float* out) {
    for (int r = 0; r < R; ++r)
        for (int k = 0; k < columns; k += 16) {
            alignas(64) uint16_t rounded[16];
            alignas(64) float widened[16];
            store_bf16(rounded, load(x + (size_t)r * ldx + k));
            store(widened, load_bf16(rounded));
            for (int i = 0; i < 16; ++i) out[(size_t)(k + i) * R + r] = widened[i];
        }
}

#if defined(DEEPINFER_ISA_AVX512)
template <int R>
[[gnu::noinline, gnu::target("avx512bf16")]] static void bf16_dot_kernel(const uint8_t* w, const int* a,
                                                                         int columns, float* y, size_t ldy) {
    F32 acc[R];
    FOR_ROWS(r, R) acc[r] = zero();
    for (int k = 0; k < columns; k += 2, w += 64, a += R) {
        if constexpr (R >= 6) prefetch(w + 4096);
        const __m512i x = _mm512_load_si512(w);
        FOR_ROWS(r, R) acc[r] = dot_bf16_native(acc[r], x, a + r);
    }
    FOR_ROWS(r, R) store(y + r * ldy, acc[r]);
}

static void bf16_quantize_pairs(const float* x, size_t ldx, int R, int columns, uint32_t* out) {
    for (int r = 0; r < R; ++r)
        for (int k = 0; k < columns; k += 16) {
            alignas(32) uint16_t rounded[16];
            store_bf16(rounded, load(x + (size_t)r * ldx + k));
            for (int i = 0; i < 8; ++i) memcpy(out + (size_t)(k / 2 + i) * R + r, rounded + 2 * i, 4);
        }
}
#endif

}  // namespace deepinfer::kernels::DEEPINFER_ISA
