// Expansion of stored tensor rows to float32: the reference that defines what every tensor type means.
//
// Block layouts are those of the GGUF file format (ggml), MXFP4 that of the OCP Microscaling specification
// v1.0 with ggml's nibble order. Each value is computed in float32 in the order the formats prescribe (scale
// product first, then value, then minimum), so results are the same bits on every machine.
#pragma once

#include <cstddef>

#include "base/tensor_type.h"

namespace deepinfer::kernels {

// Writes `values` floats to `dst` from the row at `src`, which may be at any address. Requires `values` to be
// a whole number of the type's blocks; row_bytes(type, values) bytes are read. Any input bytes are valid.
// Thread-safe.
void dequantize_row(TensorType type, const void* src, float* dst, size_t values);

}  // namespace deepinfer::kernels
