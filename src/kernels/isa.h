// Which instruction set the kernels use, decided once at start.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace deepinfer::kernels {

enum class Isa : int {
    portable,     // plain C++
    avx2,         // AVX2, FMA, F16C
    avx512,       // AVX-512 F/BW/DQ/VL and VNNI
    avx512_bf16,  // these and BF16 dot products
};

constexpr Isa all_isas[] = {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16};  // slowest first

const char* to_string(Isa isa);
bool supported(Isa isa);            // by this processor and operating system, and compiled in
std::vector<Isa> supported_isas();  // slowest first
// The best supported one, or the one named by `forced` (as to_string writes it; empty: no wish). An
// unknown or unsupported name is an error.
Result<Isa> choose_isa(std::string_view forced);

}  // namespace deepinfer::kernels
