// Matrix product with float activations: F32, F16, BF16 panels, or a piece that was dequantised on the way.
//   acc = fma(w[k], x[k], acc), k increasing
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/simd/simd.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

template <WeightLayout F>
static inline F32 load_weights(const uint8_t* w) {
    if constexpr (F == WeightLayout::f32)
        return load((const float*)w);
    else if constexpr (F == WeightLayout::f16)
        return load_f16((const uint16_t*)w);
    else
        return load_bf16((const uint16_t*)w);
}

template <WeightLayout F, int R>
[[gnu::noinline]] static void float_kernel(const uint8_t* w, const float* a, int columns, float* y,
                                           size_t ldy, bool add_to_y) {
    constexpr int line = F == WeightLayout::f32 ? 64 : 32;
    F32 acc[R];
    FOR_ROWS(r, R) acc[r] = add_to_y ? load(y + r * ldy) : zero();
    for (int k = 0; k < columns; ++k, w += line, a += R) {
        if constexpr (R >= 6) prefetch(w + 4096);
        const F32 x = load_weights<F>(w);
        FOR_ROWS(r, R) acc[r] = fma(x, set1(a[r]), acc[r]);
    }
    FOR_ROWS(r, R) store(y + r * ldy, acc[r]);
}

static void float_quantize(const float* x, size_t ldx, int R, int columns, float* out) {
    for (int r = 0; r < R; ++r)
        for (int k = 0; k < columns; ++k) out[(size_t)k * (size_t)R + r] = x[(size_t)r * ldx + k];
}

}  // namespace deepinfer::kernels::DEEPINFER_ISA
