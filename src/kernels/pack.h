// Repacks weight rows, as a checkpoint stores them, into the panels that the kernels read.
//
// A panel holds 16 outputs; k runs forward inside it, so a thread's share of a product is one sequential stream. A 64-byte
// line holds, at byte 4*i+t (output i, t = 0..3), four consecutive k of each output. "fp16 x16" is 16 outputs' values.
//   f32, f16, bf16   line k: the 16 outputs' weights
//   bf16_pairs       line k/2: k, k+1 of each output
//   Blocks of 32, in groups of 2 blocks: [scales of block 0][of block 1][fifth bits of block 0][of block 1][quants of block 0]
//   [of block 1]. A missing second block is zero. Scales: d fp16 x16, then m fp16 x16 (q4_1, q5_1); mxfp4: the exponent bytes
//   of 2 groups stand before the first of them.
//     nibble line j  byte 4i+t = file byte qs[4j+t] of output i
//     q8_0           stores q + 128
//     fifth bits     64 B, byte 4i+t: bit j = k 4j+t, bit 4+j = k 16+4j+t
//   Super-blocks of 256:
//     q2_k (1344 B)  d, dmin fp16 x16 | 256 B: byte 16s+i = scale | min << 4 | 2 halves of 8 lines, as in the file
//     q3_k (1792 B)  d float x16 | 12 x 16 B: byte i of row b = scale byte b of output i | 2 halves: 4 lines of high bits (line j:
//                    low nibble = file lines 2j, high nibble = 2j+1; bit = quarter), 8 lines as in the file
//     q4_k (2304 B)  d, dmin fp16 x16 | 12 x 16 B scale bytes as above | 4 chunks of 8 lines, as in the file
//     q5_k (2816 B)  d, dmin, scale bytes as q4_k | 4 chunks: 2 lines of fifth bits (line u: bit j = low sub-block's line 4u+j,
//                    bit 4+j = high sub-block's), 8 lines
//     q6_k (3392 B)  d float x16 | 256 B int8 scales 16s+i | 2 halves: 8 x (ql line j, qh line j), 8 x ql line 8+j
// Sizes equal the file's, except q3_k (3.5 bits per weight instead of 3.4375) and q6_k (6.625 instead of 6.5625).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/tensor_type.h"
#include "kernels/kernel_table.h"

namespace deepinfer::kernels {

enum class Compute { serve, f32 };  // linear.h says what they mean

// Raised whenever a layout's bytes change, so that packed weights kept in files are built anew. The test of the packed
// bytes (tests/kernels/pack_test.cpp) fails until that is done.
constexpr uint32_t pack_version = 1;

// The layout with a kernel that computes on this stored type directly; nothing if there is none.
std::optional<WeightLayout> packed_layout(TensorType type, Compute compute);

size_t panel_bytes(WeightLayout layout, int columns);

// Packs `rows` (1..16) consecutive rows of `columns` values into one zeroed panel.
void pack_panel(WeightLayout layout, const void* source, int rows, int columns, uint8_t* panel);

}  // namespace deepinfer::kernels
