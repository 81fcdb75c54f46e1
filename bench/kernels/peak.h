// What the processor can do at most: loops of one instruction over registers.
#pragma once

#include "base/thread_pool.h"
#include "kernels/isa.h"

namespace deepinfer::bench {

enum class Arithmetic { int8, bf16, f32 };

// The instruction that the kernels of `isa` use for this arithmetic on this processor: "vpdpbusd".
const char* peak_instruction(kernels::Isa isa, Arithmetic arithmetic);

// 10^9 multiplications and additions per second, each counted as one, with all threads of the pool; 0 for the portable
// kernels, which have no instruction to speak of. Takes some milliseconds.
double measure_peak(ThreadPool& pool, kernels::Isa isa, Arithmetic arithmetic);

}  // namespace deepinfer::bench
