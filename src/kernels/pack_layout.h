// Sizes inside packed weight panels and quantised activations, shared by the packer and the kernels. pack.h describes the bytes
// of the panels, kernel_table.h those of the activations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.h"

namespace deepinfer::kernels {

// Functions are always inlined: the kernels' objects must not have any that the linker could merge (simd/simd.h).
//
// Formats with blocks of 32. Groups of 2 blocks, and a header of scales before each `shared` groups, keep
// every 64-byte line aligned.
template <WeightLayout F>
struct Block32 {
    static constexpr bool has_min = F == WeightLayout::q4_1 || F == WeightLayout::q5_1;
    static constexpr bool has_high = F == WeightLayout::q5_0 || F == WeightLayout::q5_1;
    static constexpr int scales = has_min ? 64 : F == WeightLayout::mxfp4 ? 16 : 32;  // bytes per block
    static constexpr int high = has_high ? 64 : 0;
    static constexpr int quants = F == WeightLayout::q8_0 ? 512 : 256;
    static constexpr int group = 2 * (high + quants);
    static constexpr int shared = F == WeightLayout::mxfp4 ? 2 : 1;
    static constexpr int header = 2 * scales * shared;

    [[gnu::always_inline]] static constexpr size_t header_at(size_t g) {
        return g * group + g / shared * header;
    }  // g % shared == 0
    [[gnu::always_inline]] static constexpr size_t group_at(size_t g) {
        return g * group + (g / shared + 1) * header;
    }
    [[gnu::always_inline]] static constexpr size_t panel_bytes(size_t groups) {
        return groups * group + (groups + shared - 1) / shared * header;
    }
};

// Bytes of a super-block.
template <WeightLayout F>
struct KQuant {
    static constexpr bool has_mins =
        F == WeightLayout::q2_k || F == WeightLayout::q4_k || F == WeightLayout::q5_k;
    static constexpr bool sub_blocks_of_32 = F == WeightLayout::q4_k || F == WeightLayout::q5_k;
    static constexpr int quants = F == WeightLayout::q2_k || F == WeightLayout::q6_k ? 320 : 256;  // offset
    static constexpr int chunk = F == WeightLayout::q2_k   ? 512  // of 128 values
                                 : F == WeightLayout::q3_k ? 768
                                 : F == WeightLayout::q6_k ? 1536
                                 : F == WeightLayout::q4_k ? 512  // of 64 values
                                                           : 640;
    static constexpr int block = quants + (sub_blocks_of_32 ? 4 : 2) * chunk;
};
// Q2_K and Q3_K with many rows are unpacked once (simd/gemm_kquant_wide.h).
[[gnu::always_inline]] constexpr bool has_wide_form(WeightLayout f) {
    return f == WeightLayout::q2_k || f == WeightLayout::q3_k;
}
constexpr int kquant_wide_bytes = 4096 + 1024 + 128;  // per super-block
constexpr int kquant_wide_rows = 32;                  // from this many rows on
constexpr size_t kquant_wide_group = 384u << 10;      // bytes of wide panels that stay in L2
constexpr size_t packed_group = 256u << 10;           // bytes of packed panels that stay in L2

// Bytes of activations per row: 32 values, scale and helper; 256 values, 8 sums, 16 sums and scale.
constexpr int block32_record = 32 + 4 + 4;
constexpr int kquant_record = 256 + 8 * 2 + 16 * 4 + 4;

}  // namespace deepinfer::kernels
