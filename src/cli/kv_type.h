// The names of KV cache types on the command line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kernels/linear.h"
#include "kv/layout.h"

namespace deepinfer::cli {

struct KvTypeName {
    kv::KvType type;
    const char* name;
};
constexpr KvTypeName kv_type_names[] = {{kv::KvType::f16, "f16"}, {kv::KvType::f32, "f32"}};

constexpr const char* kv_type_name(kv::KvType type) {
    for (const KvTypeName& entry : kv_type_names)
        if (entry.type == type) return entry.name;
    return "?";
}
constexpr std::optional<kv::KvType> find_kv_type(std::string_view name) {
    for (const KvTypeName& entry : kv_type_names)
        if (entry.name == name) return entry.type;
    return std::nullopt;
}
inline std::string all_kv_type_names() {
    std::string names;
    for (const KvTypeName& entry : kv_type_names)
        names += (names.empty() ? "" : ", ") + std::string(entry.name);
    return names;
}
// What a mode of computing stores unless told otherwise.
constexpr kv::KvType default_kv_type(kernels::Compute compute) {
    return compute == kernels::Compute::f32 ? kv::KvType::f32 : kv::KvType::f16;
}

}  // namespace deepinfer::cli
