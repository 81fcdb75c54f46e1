// Sixteen-lane vectors for the kernels, with three implementations of the same arithmetic: AVX-512, AVX2 +
// FMA, and plain C++. A kernel is written once against this header and compiled once per instruction set (see
// ../CMakeLists.txt); every operation below is exact or correctly rounded, so all three give the same bits.
//
// Everything here is static or a type inside the instruction set's own namespace: a function compiled for
// AVX-512 must never be merged by the linker into code that runs elsewhere. For the same reason the sources
// in this folder use no standard templates.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if (defined(DEEPINFER_ISA_AVX512) || defined(DEEPINFER_ISA_AVX2)) && !defined(DEEPINFER_SMALL_TILES)
#define DEEPINFER_UNROLL(n) DEEPINFER_PRAGMA(GCC unroll n)
#else  // in plain C++ lanes are loops; unrolling around them only makes the compiler take minutes
#define DEEPINFER_UNROLL(n) DEEPINFER_PRAGMA(GCC unroll 1)
#endif
#define DEEPINFER_PRAGMA(x) _Pragma(#x)
// A loop over the rows of a register tile. Unrolling is forced: otherwise GCC leaves the accumulators in
// memory and throughput falls to a third.
#define FOR_ROWS(r, R) DEEPINFER_UNROLL(16) for (int r = 0; r < (R); ++r)

#if defined(DEEPINFER_ISA_AVX512)
#include "kernels/simd/simd_avx512.h"
#elif defined(DEEPINFER_ISA_AVX2)
#include "kernels/simd/simd_avx2.h"
#else
#include "kernels/simd/simd_portable.h"
#endif

namespace deepinfer::kernels::DEEPINFER_ISA {

// A line that is read several times is read from the first-level cache each time: kept in registers, as GCC
// would have it, it drives the accumulators out.
static inline void read_memory_again() { asm volatile("" ::: "memory"); }

// Rows of a register tile: as many as there are registers for accumulators.
#if defined(DEEPINFER_SMALL_TILES)
constexpr int block32_rows = 2, kquant_rows = 2, float_rows = 2, attention_rows = 2;
#else
constexpr int block32_rows = isa_block32_rows, kquant_rows = isa_kquant_rows, float_rows = isa_float_rows,
              attention_rows = isa_attention_rows;
#endif

// Calls f.template operator()<R>() with R = rows.
template <int Max, class F>
static inline void with_rows(int rows, F&& f) {
    if constexpr (Max > 1) {
        if (rows < Max) return with_rows<Max - 1>(rows, f);
    }
    f.template operator()<Max>();
}

// e^x for x <= 0 (softmax); 0 below -87. Cody-Waite reduction and a degree-6 Taylor polynomial: relative
// error < 3e-7.
static inline F32 exp_negative(F32 x) {
    const F32 n = round_even(mul(x, set1(1.44269504f)));
    F32 r = fnma(n, set1(0.693145752f), x);
    r = fnma(n, set1(1.42860677e-6f), r);
    F32 p = set1(1.f / 720);
    p = fma(p, r, set1(1.f / 120));
    p = fma(p, r, set1(1.f / 24));
    p = fma(p, r, set1(1.f / 6));
    p = fma(p, r, set1(.5f));
    p = fma(p, r, set1(1.f));
    p = fma(p, r, set1(1.f));
    return zero_where_less(x, -87.f, scale_by_power_of_two(p, n));
}

// 2^x for x <= 0 (attention); 0 below -126. The same polynomial without the reduction by ln 2: relative error < 3e-7.
static inline F32 exp2_negative(F32 x) {
    const F32 n = round_even(x), r = sub(x, n);
    F32 p = set1(1.540353039e-4f);  // ln(2)^6 / 6!, ..., ln(2)
    p = fma(p, r, set1(1.333355815e-3f));
    p = fma(p, r, set1(9.618129107e-3f));
    p = fma(p, r, set1(5.550410866e-2f));
    p = fma(p, r, set1(2.402265070e-1f));
    p = fma(p, r, set1(6.931471806e-1f));
    p = fma(p, r, set1(1.f));
    return zero_where_less(x, -126.f, scale_by_power_of_two(p, n));
}

// 1 / (1 + e^-x), from the exponential of -|x|.
static inline F32 sigmoid(F32 x) {
    const F32 e = exp_negative(sub(zero(), abs(x)));
    const F32 low = div(e, add(e, set1(1.f)));  // sigmoid(-|x|)
    return select_negative(x, low, sub(set1(1.f), low));
}

}  // namespace deepinfer::kernels::DEEPINFER_ISA
