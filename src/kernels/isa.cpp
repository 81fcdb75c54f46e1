#include "kernels/isa.h"

#include "kernels/kernel_table.h"

namespace deepinfer::kernels {

extern const KernelTable table_portable;
#if defined(__x86_64__)
extern const KernelTable table_avx2;
extern const KernelTable table_avx512;
extern const KernelTable table_avx512_bf16;
#endif

const char* to_string(Isa isa) {
    switch (isa) {
        case Isa::portable:
            return "portable";
        case Isa::avx2:
            return "avx2";
        case Isa::avx512:
            return "avx512";
        case Isa::avx512_bf16:
            return "avx512_bf16";
    }
    return "unknown";
}

bool supported(Isa isa) {
    if (isa == Isa::portable) return true;
#if defined(__x86_64__)
    const bool avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    if (isa == Isa::avx2) return avx2;
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512vnni");
    if (isa == Isa::avx512) return avx512;
    return avx512 && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

std::vector<Isa> supported_isas() {
    std::vector<Isa> all;
    for (Isa isa : all_isas)
        if (supported(isa)) all.push_back(isa);
    return all;
}

Result<Isa> choose_isa(std::string_view forced) {
    if (forced.empty()) return supported_isas().back();
    std::string all, here;
    bool known = false;
    for (Isa isa : all_isas) {
        const std::string name = to_string(isa);
        if (forced == name && supported(isa)) return isa;
        known |= forced == name;
        all += (all.empty() ? "" : ", ") + name;
        if (supported(isa)) here += (here.empty() ? "" : ", ") + name;
    }
    if (known)
        return Error{ErrorCode::unsupported, "this processor lacks what instruction set '" +
                                                 std::string(forced) + "' needs; it has " + here};
    return Error{ErrorCode::invalid_argument, "unknown instruction set '" + std::string(forced) +
                                                  "'; there are " + all + ", and this processor has " + here};
}

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
            return k / 256 * 340;
        default:
            return (k + 63) / 64 * 2 * 40;
    }
}

}  // namespace deepinfer::kernels
