#include "checkpoint/contents.h"

#include <algorithm>

namespace deepinfer::checkpoint {
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
