#include "base/tensor_type.h"

namespace deepinfer {

const TensorTypeTraits& traits(TensorType type) {
    static constexpr TensorTypeTraits f32{"F32", 1, 4}, f16{"F16", 1, 2}, bf16{"BF16", 1, 2},
        q4_0{"Q4_0", 32, 18}, q4_1{"Q4_1", 32, 20}, q5_0{"Q5_0", 32, 22}, q5_1{"Q5_1", 32, 24},
        q8_0{"Q8_0", 32, 34}, q2_k{"Q2_K", 256, 84}, q3_k{"Q3_K", 256, 110}, q4_k{"Q4_K", 256, 144},
        q5_k{"Q5_K", 256, 176}, q6_k{"Q6_K", 256, 210}, iq4_nl{"IQ4_NL", 32, 18}, mxfp4{"MXFP4", 32, 17};
    switch (type) {
        case TensorType::f32:
            return f32;
        case TensorType::f16:
            return f16;
        case TensorType::bf16:
            return bf16;
        case TensorType::q4_0:
            return q4_0;
        case TensorType::q4_1:
            return q4_1;
        case TensorType::q5_0:
            return q5_0;
        case TensorType::q5_1:
            return q5_1;
        case TensorType::q8_0:
            return q8_0;
        case TensorType::q2_k:
            return q2_k;
        case TensorType::q3_k:
            return q3_k;
        case TensorType::q4_k:
            return q4_k;
        case TensorType::q5_k:
            return q5_k;
        case TensorType::q6_k:
            return q6_k;
        case TensorType::iq4_nl:
            return iq4_nl;
        case TensorType::mxfp4:
            return mxfp4;
    }
    return f32;
}

std::optional<TensorType> tensor_type_from_gguf(uint32_t id) {
    switch (id) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 6:
        case 7:
        case 8:
        case 10:
        case 11:
        case 12:
        case 13:
        case 14:
        case 20:
        case 30:
        case 39:
            return static_cast<TensorType>(id);
        default:
            return std::nullopt;
    }
}

const char* gguf_type_name(uint32_t id) {
    static constexpr const char* names[] = {"F32",
                                            "F16",
                                            "Q4_0",
                                            "Q4_1",
                                            "Q4_2 (removed from GGUF)",
                                            "Q4_3 (removed from GGUF)",
                                            "Q5_0",
                                            "Q5_1",
                                            "Q8_0",
                                            "Q8_1",
                                            "Q2_K",
                                            "Q3_K",
                                            "Q4_K",
                                            "Q5_K",
                                            "Q6_K",
                                            "Q8_K",
                                            "IQ2_XXS",
                                            "IQ2_XS",
                                            "IQ3_XXS",
                                            "IQ1_S",
                                            "IQ4_NL",
                                            "IQ3_S",
                                            "IQ2_S",
                                            "IQ4_XS",
                                            "I8",
                                            "I16",
                                            "I32",
                                            "I64",
                                            "F64",
                                            "IQ1_M",
                                            "BF16",
                                            "Q4_0_4_4 (removed from GGUF)",
                                            "Q4_0_4_8 (removed from GGUF)",
                                            "Q4_0_8_8 (removed from GGUF)",
                                            "TQ1_0",
                                            "TQ2_0",
                                            "IQ4_NL_4_4 (removed from GGUF)",
                                            "IQ4_NL_4_8 (removed from GGUF)",
                                            "IQ4_NL_8_8 (removed from GGUF)",
                                            "MXFP4",
                                            "NVFP4",
                                            "Q1_0"};
    return id < sizeof names / sizeof *names ? names[id] : nullptr;
}

}  // namespace deepinfer
