// BF16 dot products as vdpbf16ps computes them: per lane two fused multiply-adds, the high halves first, with
// subnormal inputs and results taken as zero. So every instruction set gives the same bits.
#pragma once

#include "kernels/simd/simd.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

// acc[i] += the two BF16 of a's lane i times the two of b. Requires FlushSubnormals to be alive.
static inline F32 dot_bf16(F32 acc, I32 a, int b) {
    const I32 pair = set1_i32(b);
    acc = fma_flushed(high_bf16(a), high_bf16(pair), acc);
    return fma_flushed(low_bf16(a), low_bf16(pair), acc);
}

}  // namespace deepinfer::kernels::DEEPINFER_ISA
