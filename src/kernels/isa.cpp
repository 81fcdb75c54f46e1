#include "kernels/isa.h"

namespace deepinfer::kernels {

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

}  // namespace deepinfer::kernels
