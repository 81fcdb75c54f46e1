// Tensor, MetadataArray and Metadata: the small value types of checkpoint.h.
#include <cmath>

#include "checkpoint/checkpoint.h"
#include "checkpoint/contents.h"

namespace deepinfer::checkpoint {
namespace {

const char* kind(const MetadataValue& value) {
    static constexpr const char* names[] = {"a boolean", "an integer", "an unsigned integer",
                                            "a number",  "a string",   "an array"};
    return names[value.index()];
}

Error wrong_kind(std::string_view key, const MetadataValue& value, const char* expected) {
    return {ErrorCode::corrupt_data,
            "metadata key " + quote(key) + " is " + kind(value) + ", but must be " + expected};
}

}  // namespace

int64_t Tensor::values() const {
    int64_t product = 1;
    for (const int64_t dimension : shape) product *= dimension;
    return product;
}

std::string Tensor::shape_string() const {
    std::string out = "[";
    for (const int64_t dimension : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(dimension);
    return out + "]";
}

size_t MetadataArray::size() const {
    return std::visit([](const auto& vector) { return vector.size(); }, values);
}

const MetadataValue* Metadata::find(std::string_view key) const {
    const auto found = values.find(key);
    return found == values.end() ? nullptr : &found->second;
}

Result<std::optional<int64_t>> Metadata::integer(std::string_view key) const {
    const MetadataValue* value = find(key);
    if (!value) return std::optional<int64_t>();
    if (const auto* number = std::get_if<int64_t>(value)) return std::optional(*number);
    const auto* number = std::get_if<uint64_t>(value);
    if (!number) return wrong_kind(key, *value, "an integer");
    if (*number > static_cast<uint64_t>(INT64_MAX))
        return Error{ErrorCode::corrupt_data, "metadata key " + quote(key) + " is " +
                                                  std::to_string(*number) + ", but must be at most 2^63 - 1"};
    return std::optional(static_cast<int64_t>(*number));
}

Result<std::optional<double>> Metadata::number(std::string_view key) const {
    const MetadataValue* value = find(key);
    if (!value) return std::optional<double>();
    if (const auto* real = std::get_if<double>(value)) return std::optional(*real);
    if (const auto* integer = std::get_if<int64_t>(value))
        return std::optional(static_cast<double>(*integer));
    if (const auto* integer = std::get_if<uint64_t>(value))
        return std::optional(static_cast<double>(*integer));
    return wrong_kind(key, *value, "a number");
}

Result<std::optional<bool>> Metadata::boolean(std::string_view key) const {
    const MetadataValue* value = find(key);
    if (!value) return std::optional<bool>();
    if (const bool* flag = std::get_if<bool>(value)) return std::optional(*flag);
    return wrong_kind(key, *value, "a boolean");
}

Result<std::optional<std::string>> Metadata::string(std::string_view key) const {
    const MetadataValue* value = find(key);
    if (!value) return std::optional<std::string>();
    if (const std::string* text = std::get_if<std::string>(value)) return std::optional(*text);
    return wrong_kind(key, *value, "a string");
}

const MetadataArray* Metadata::array(std::string_view key) const {
    const MetadataValue* value = find(key);
    const auto* pointer = value ? std::get_if<std::shared_ptr<const MetadataArray>>(value) : nullptr;
    return pointer ? pointer->get() : nullptr;
}

}  // namespace deepinfer::checkpoint
