// Repacks weight rows, as a checkpoint stores them, into the panels that the kernels read.
//
// A panel holds 16 outputs; k runs forward inside it, so a thread's share of a product is one sequential stream. A 64-byte
// line holds, at byte 4*i+t (output i, t = 0..3), four consecutive k of each output.
//   f32, f16, bf16   line k: the 16 outputs' weights
//   q4_0 .. q8_0     groups of 2 blocks of 32: [d (and m) fp16 x16 of block 0][of block 1][q5_0: fifth bits, 64 B a block]
//                    [quants of block 0][of block 1]; nibble line j byte 4i+t = file byte qs[4j+t] of output i; q8_0 stores
//                    q + 128; fifth-bit byte 4i+t: bit j = k 4j+t, bit 4+j = k 16+4j+t. A missing second block is zero.
//   q4_k (2304 B)    d fp16 x16, dmin fp16 x16 | 128 B: byte 16s+i = scale low 4 | min low 4 << 4 | 64 B: byte 16(s/2)+i,
//                    nibble s%2 = scale high 2 | min high 2 << 2 | 4 chunks of 8 lines, as in the file
//   q6_k (3392 B)    d float x16 | 256 B int8 scales 16s+i | 2 halves: 8 x (ql line j, qh line j), 8 x ql line 8+j
// Sizes equal the file's, except q6_k (6.625 bits per weight instead of 6.5625).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/tensor_type.h"
#include "kernels/kernel_table.h"

namespace deepinfer::kernels {

// The layout with a kernel that computes on this stored type directly; nothing if there is none.
std::optional<WeightLayout> packed_layout(TensorType type);

size_t panel_bytes(WeightLayout layout, int columns);

// Packs `rows` (1..16) consecutive rows of `columns` values into one zeroed panel.
void pack_panel(WeightLayout layout, const void* source, int rows, int columns, uint8_t* panel);

}  // namespace deepinfer::kernels
