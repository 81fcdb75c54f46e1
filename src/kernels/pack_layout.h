// Sizes inside packed weight panels, shared by the packer and the kernels. pack.h describes the bytes.
#pragma once

#include <cstddef>

#include "kernels/kernel_table.h"

namespace deepinfer::kernels {

// Formats with blocks of 32: a group is 2 blocks, so that every 64-byte line is aligned.
template <WeightLayout F>
struct Block32 {
    static constexpr int scales = F == WeightLayout::q4_1 ? 64 : 32;  // per block: d[16] fp16 (and m[16])
    static constexpr int high = F == WeightLayout::q5_0 ? 64 : 0;     // per block: fifth bits
    static constexpr int quants = F == WeightLayout::q8_0 ? 512 : 256;
    static constexpr int group = 2 * (scales + high + quants);
};

template <WeightLayout F>
struct KQuant {
    static constexpr int block = F == WeightLayout::q4_k ? 2304 : 3392;
};
constexpr int kquant_wide_bytes = 4096 + 1024 + 256 + 128;
constexpr int kquant_unpack_rows = 24;            // from this many rows on, unpacking once pays
constexpr size_t kquant_wide_group = 384u << 10;  // bytes of wide panels that stay in L2
constexpr size_t packed_group = 256u << 10;       // bytes of packed panels that stay in L2

}  // namespace deepinfer::kernels
