// Writes small GGUF files, correct or broken in a chosen field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace deepinfer::checkpoint {

template <class T>
std::string encoded(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

inline std::string encoded_string(std::string_view text) {
    return encoded(uint64_t{text.size()}) + std::string(text);
}

// A metadata value: its type id and bytes.
inline std::string typed(uint32_t type, const std::string& payload) { return encoded(type) + payload; }
inline std::string string_value(std::string_view text) { return typed(8, encoded_string(text)); }
inline std::string array_value(uint32_t element_type, uint64_t count, const std::string& payload) {
    return typed(9, encoded(element_type) + encoded(count) + payload);
}

struct GgufTensorInfo {
    std::string name;
    std::vector<uint64_t> dimensions;  // innermost first, as stored
    uint32_t type = 0;
    uint64_t offset = 0;
    std::optional<uint32_t> dimension_count;  // when it shall differ from the truth
};

struct GgufSpec {
    std::string magic = "GGUF";
    uint32_t version = 3;
    std::optional<uint64_t> tensor_count, metadata_count;
    std::vector<std::pair<std::string, std::string>> metadata;
    std::vector<GgufTensorInfo> tensors;
    size_t alignment = 32;
    size_t data_bytes = 0;

    std::string header() const {
        std::string out = magic + encoded(version) + encoded(tensor_count.value_or(tensors.size())) +
                          encoded(metadata_count.value_or(metadata.size()));
        for (const auto& [key, value] : metadata) out += encoded_string(key) + value;
        for (const GgufTensorInfo& tensor : tensors) {
            out += encoded_string(tensor.name);
            out += encoded(tensor.dimension_count.value_or(static_cast<uint32_t>(tensor.dimensions.size())));
            for (const uint64_t dimension : tensor.dimensions) out += encoded(dimension);
            out += encoded(tensor.type) + encoded(tensor.offset);
        }
        return out;
    }

    std::string build() const {
        std::string out = header();
        out.resize((out.size() + alignment - 1) / alignment * alignment);
        for (size_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i * 7 + 1);
        return out;
    }
};

// A valid file: one value of every metadata type, arrays, and the tensors "a" F32 [2, 4] and "b" Q4_0 [1,
// 32].
inline GgufSpec valid_gguf() {
    GgufSpec spec;
    spec.metadata = {
        {"general.architecture", string_value("llama")},
        {"t.u8", typed(0, encoded(uint8_t{200}))},
        {"t.i8", typed(1, encoded(int8_t{-3}))},
        {"t.u16", typed(2, encoded(uint16_t{60000}))},
        {"t.i16", typed(3, encoded(int16_t{-30000}))},
        {"t.u32", typed(4, encoded(uint32_t{4000000000u}))},
        {"t.i32", typed(5, encoded(int32_t{-2000000000}))},
        {"t.f32", typed(6, encoded(0.5f))},
        {"t.bool", typed(7, encoded(uint8_t{1}))},
        {"t.u64", typed(10, encoded(UINT64_MAX))},
        {"t.i64", typed(11, encoded(INT64_MIN))},
        {"t.f64", typed(12, encoded(0.1))},
        {"a.strings", array_value(8, 2, encoded_string("x") + encoded_string(""))},
        {"a.i32", array_value(5, 3, encoded(1) + encoded(-2) + encoded(3))},
        {"a.f32", array_value(6, 2, encoded(1.5f) + encoded(-1.0f))},
        {"a.bool", array_value(7, 2, std::string("\1\0", 2))},
        {"a.empty", array_value(4, 0, "")},
    };
    spec.tensors = {{.name = "a", .dimensions = {4, 2}, .type = 0, .offset = 0, .dimension_count = {}},
                    {.name = "b", .dimensions = {32, 1}, .type = 2, .offset = 32, .dimension_count = {}}};
    spec.data_bytes = 32 + 18;
    return spec;
}

inline std::span<const std::byte> as_span(const std::string& bytes) {
    return std::as_bytes(std::span(bytes.data(), bytes.size()));
}

}  // namespace deepinfer::checkpoint
