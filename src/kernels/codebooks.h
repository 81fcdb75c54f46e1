// The fixed tables that 4-bit codes of the non-linear formats index.
#pragma once

#include <cstdint>

namespace deepinfer::kernels {

constexpr int8_t iq4_nl_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
// Twice the E2M1 values (sign, two exponent bits, one mantissa bit), so that all are integers.
constexpr int8_t mxfp4_doubled_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace deepinfer::kernels
