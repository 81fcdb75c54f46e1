#include "kernels/kernel_table.h"

#include "kernels/isa.h"
#include "kernels/pack_layout.h"

namespace deepinfer::kernels {

extern const KernelTable table_portable;
#if defined(__x86_64__)
extern const KernelTable table_avx2;
extern const KernelTable table_avx512;
extern const KernelTable table_avx512_bf16;
#endif

const KernelTable& kernel_table(Isa isa) {
#if defined(__x86_64__)
    if (isa == Isa::avx512_bf16) return table_avx512_bf16;
    if (isa == Isa::avx512) return table_avx512;
    if (isa == Isa::avx2) return table_avx2;
#endif
    (void)isa;
    return table_portable;
}

ActivationLayout activation_layout_for(WeightLayout layout) {
    switch (layout) {
        case WeightLayout::q4_0:
            return ActivationLayout::int8_off8;
        case WeightLayout::q4_1:
        case WeightLayout::q5_1:
            return ActivationLayout::int8_sum;
        case WeightLayout::q5_0:
            return ActivationLayout::int8_off16;
        case WeightLayout::q8_0:
        case WeightLayout::iq4_nl:
        case WeightLayout::mxfp4:
            return ActivationLayout::int8_off128;
        case WeightLayout::q2_k:
        case WeightLayout::q3_k:
        case WeightLayout::q4_k:
        case WeightLayout::q5_k:
        case WeightLayout::q6_k:
            return ActivationLayout::int8_256;
        case WeightLayout::bf16_pairs:
            return ActivationLayout::bf16;
        case WeightLayout::f32:
        case WeightLayout::f16:
        case WeightLayout::bf16:
            break;
    }
    return ActivationLayout::f32;
}

size_t activation_row_bytes(const KernelTable& table, ActivationLayout layout, int columns) {
    const size_t k = static_cast<size_t>(columns);
    switch (layout) {
        case ActivationLayout::f32:
            return k * 4;
        case ActivationLayout::bf16:
            return k * static_cast<size_t>(table.bf16_bytes);
        case ActivationLayout::int8_256:
            return k / 256 * kquant_record;
        default:
            return (k + 63) / 64 * 2 * block32_record;
    }
}

size_t gemm_scratch_bytes(WeightLayout layout, int columns) {
    if (!has_wide_form(layout)) return 0;
    const size_t panel = static_cast<size_t>(columns) / 256 * kquant_wide_bytes;
    return panel > kquant_wide_group ? panel : kquant_wide_group;
}

}  // namespace deepinfer::kernels
