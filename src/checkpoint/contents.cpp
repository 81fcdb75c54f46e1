#include "checkpoint/contents.h"

#include <algorithm>
#include <cstdio>

namespace deepinfer::checkpoint {
namespace {

// Length of the valid UTF-8 sequence of printable text at the start of `text`, or 0.
size_t printable_sequence(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
    const size_t length = first >= 0xc2 && first < 0xe0   ? 2
                          : first >= 0xe0 && first < 0xf0 ? 3
                          : first >= 0xf0 && first < 0xf5 ? 4
                                                          : 0;
    if (length == 0 || text.size() < length) return 0;
    for (size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
    }
    // Overlong forms, surrogates, beyond U+10FFFF, and the C1 control characters, which terminals obey.
    if ((first == 0xc2 && byte(1) < 0xa0) || (first == 0xe0 && byte(1) < 0xa0) ||
        (first == 0xed && byte(1) > 0x9f) || (first == 0xf0 && byte(1) < 0x90) ||
        (first == 0xf4 && byte(1) > 0x8f))
        return 0;
    return length;
}

}  // namespace

std::string quote(std::string_view text) {
    constexpr size_t kMaxBytes = 100;
    std::string out = "\"";
    for (size_t i = 0; i < text.size();) {
        if (i >= kMaxBytes) {
            out += "...\" (" + std::to_string(text.size()) + " bytes)";
            return out;
        }
        if (const size_t length = printable_sequence(text.substr(i)); length > 0) {
            if (text[i] == '"' || text[i] == '\\') out += '\\';
            out += text.substr(i, length);
            i += length;
        } else {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(text[i]));
            out += escape;
            ++i;
        }
    }
    return out + "\"";
}

Error corrupt(std::string_view file, std::string_view message) {
    return {ErrorCode::corrupt_data, std::string(file) + ": " + std::string(message)};
}

Result<size_t> tensor_bytes(std::string_view name, TensorType type, std::span<const int64_t> shape) {
    const auto wrong = [&](const std::string& what) {
        return Error{ErrorCode::corrupt_data, "tensor " + quote(name) + ": " + what};
    };
    int64_t values = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] <= 0)
            return wrong("dimension " + std::to_string(i) + " is " + std::to_string(shape[i]) +
                         "; dimensions must be at least 1");
        if (__builtin_mul_overflow(values, shape[i], &values))
            return wrong("the product of its dimensions exceeds 2^63 - 1 values");
    }
    const TensorTypeTraits& type_traits = traits(type);
    const int64_t columns = shape.empty() ? 1 : shape.back();
    if (columns % type_traits.block_values != 0)
        return wrong("rows of " + std::to_string(columns) + " values do not fit " + type_traits.name +
                     ", which stores blocks of " + std::to_string(type_traits.block_values));
    size_t bytes = 0;
    if (__builtin_mul_overflow(static_cast<size_t>(values) / type_traits.block_values,
                               size_t{type_traits.block_bytes}, &bytes))
        return wrong("its size exceeds 2^64 - 1 bytes");
    return bytes;
}

Status check_no_overlap(std::span<const Tensor> tensors, std::string_view file) {
    std::vector<const Tensor*> order;
    order.reserve(tensors.size());
    for (const Tensor& tensor : tensors) order.push_back(&tensor);
    std::sort(order.begin(), order.end(),
              [](const Tensor* a, const Tensor* b) { return a->data.data() < b->data.data(); });
    for (size_t i = 1; i < order.size(); ++i) {
        const Tensor &first = *order[i - 1], &second = *order[i];
        if (first.data.data() + first.data.size() > second.data.data())
            return corrupt(file, "tensors " + quote(first.name) + " and " + quote(second.name) +
                                     " overlap; every tensor must have its own bytes");
    }
    return {};
}

}  // namespace deepinfer::checkpoint
