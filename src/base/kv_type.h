// How keys and values are stored in a KV block of 64 tokens.
//   f16, f32  as they are
//   bf16      both in BF16, and the products of attention are BF16 dot products: where the processor has them,
//             attention over long contexts is 1.6x as fast
//   q8        int8 with a scale (f16) for each 32 values of a token's head vector: half the memory of f16
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace deepinfer {

enum class KvType : uint8_t { f32, f16, bf16, q8 };
constexpr KvType all_kv_types[] = {KvType::f32, KvType::f16, KvType::bf16, KvType::q8};
constexpr int kv_block_tokens = 64;

constexpr const char* to_string(KvType type) {
    switch (type) {
        case KvType::f32:
            return "f32";
        case KvType::f16:
            return "f16";
        case KvType::bf16:
            return "bf16";
        case KvType::q8:
            return "q8";
    }
    return "";
}
constexpr std::optional<KvType> kv_type_from(std::string_view name) {
    for (KvType type : all_kv_types)
        if (name == to_string(type)) return type;
    if (name == "q8_0") return KvType::q8;  // llama.cpp's name of the same layout
    return std::nullopt;
}

// Head vectors that can be stored: whole vectors of 16 lanes, whole groups of a scale.
constexpr bool kv_type_fits(KvType type, int head_dim) {
    return head_dim % (type == KvType::q8 ? 32 : 16) == 0;
}

// Bytes of the keys, or of the values, of one KV head in a block.
constexpr size_t kv_head_bytes(KvType type, int head_dim) {
    const auto values = static_cast<size_t>(kv_block_tokens) * static_cast<size_t>(head_dim);
    switch (type) {
        case KvType::f32:
            return 4 * values;
        case KvType::f16:
        case KvType::bf16:
            return 2 * values;
        case KvType::q8:
            return values + values / 32 * 2;
    }
    return 0;
}

}  // namespace deepinfer
