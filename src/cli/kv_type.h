// KV cache types on the command line.
#pragma once

#include <optional>
#include <string>

#include "base/kv_type.h"
#include "kernels/linear.h"

namespace CLI {
class App;
}

namespace deepinfer::cli {

inline std::string all_kv_type_names() {
    std::string names;
    for (KvType type : all_kv_types) names += (names.empty() ? "" : ", ") + std::string(to_string(type));
    return names;
}
// What a mode of computing stores unless told otherwise.
constexpr KvType default_kv_type(kernels::Compute compute) {
    return compute == kernels::Compute::f32 ? KvType::f32 : KvType::f16;
}

// --kv-type, and llama.cpp's names for it. `type` must outlive the parsing; nothing: not given.
void add_kv_type_options(CLI::App& command, std::optional<KvType>& type);

}  // namespace deepinfer::cli
