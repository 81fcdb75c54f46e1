// Element types of stored tensors: plain floats and the block-quantised formats of GGUF.
//
// The numeric values are those of the GGUF file format (ggml type ids), so that a header can be checked
// against tensor_type_from_gguf() without a table of its own. Types not listed here are refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace deepinfer {

enum class TensorType : uint32_t {
    f32 = 0,
    f16 = 1,
    q4_0 = 2,
    q4_1 = 3,
    q5_0 = 6,
    q5_1 = 7,
    q8_0 = 8,
    q2_k = 10,
    q3_k = 11,
    q4_k = 12,
    q5_k = 13,
    q6_k = 14,
    iq4_nl = 20,
    bf16 = 30,
    mxfp4 = 39,
};

struct TensorTypeTraits {
    const char* name;       // as people write it: "Q4_K"
    uint32_t block_values;  // values per block; a row must hold a whole number of blocks
    uint32_t block_bytes;   // bytes per block
};

const TensorTypeTraits& traits(TensorType type);
inline const char* to_string(TensorType type) { return traits(type).name; }

// The type with this GGUF id, or nothing if it is not supported.
std::optional<TensorType> tensor_type_from_gguf(uint32_t id);

// The name GGUF gives to a type id that exists in the format, supported here or not; nullptr if no such id is
// known.
const char* gguf_type_name(uint32_t id);

// Bytes of a row of `values` values. Requires values % block_values == 0.
inline size_t row_bytes(TensorType type, size_t values) {
    const TensorTypeTraits& t = traits(type);
    return values / t.block_values * t.block_bytes;
}

}  // namespace deepinfer
