// acc[i] plus the two BF16 of a's lane i times the two of b, as VDPBF16PS computes it (Intel's manual, volume 2; measured on Zen 4):
//
//   acc = fma(high half of a, high half of b, acc), then acc = fma(low half, low half, acc)
//   subnormal inputs and results of each fma are zero
//
// Emulated and native give the same bits; they differ in what must hold where they are called.
#pragma once

#include "kernels/simd/simd.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

// Requires FlushSubnormals to be alive. On any processor of the instruction set.
static inline F32 dot_bf16_emulated(F32 acc, I32 a, int b) {
    const I32 pair = set1_i32(b);
    acc = fma_flushed(high_bf16(a), high_bf16(pair), acc);
    return fma_flushed(low_bf16(a), low_bf16(pair), acc);
}

#if defined(DEEPINFER_ISA_AVX512)
// Requires a processor with avx512_bf16, and a caller compiled for it. FlushSubnormals or not: it is the same.
[[gnu::target("avx512bf16")]] static inline F32 dot_bf16_native(F32 acc, I32 a, int b) {
    return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)_mm512_set1_epi32(b));
}
// The instruction itself reads b from memory: for a b that is used once.
[[gnu::target("avx512bf16")]] static inline F32 dot_bf16_native(F32 acc, I32 a, const int* b) {
#if defined(DEEPINFER_SMALL_TILES)
    return dot_bf16_native(acc, a, *b);
#else
    asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(a), "m"(*b));  // see dot_u8_i8
    return acc;
#endif
}
#endif

}  // namespace deepinfer::kernels::DEEPINFER_ISA
