#include "api/fields.h"

#include <cmath>
#include <cstdio>

#include "api/limits.h"

namespace deepinfer::api {

namespace json = boost::json;

namespace {

std::string in_words(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.15g", value);
    return text;
}

[[noreturn]] void fail_kind(const std::string& path, const char* wanted, const json::value& value) {
    fail(path, in_quotes(path) + " must be " + wanted + ", but is " + kind_name(value) + ".", "invalid_type");
}

template <class T>
[[noreturn]] void fail_range(const std::string& path, T min, T max, const std::string& got) {
    std::string low, high;
    if constexpr (std::is_integral_v<T>) {
        low = std::to_string(min);
        high = std::to_string(max);
    } else {
        low = in_words(min);
        high = in_words(max);
    }
    fail(path, in_quotes(path) + " must be between " + low + " and " + high + ", but is " + got + ".",
         "invalid_value");
}

}  // namespace

std::string in_quotes(std::string_view name) { return std::string(1, '\'').append(name) += '\''; }

void fail(std::string param, std::string message, std::string code) {
    throw FieldError{bad_request(std::move(param), std::move(message), std::move(code))};
}

const char* kind_name(const json::value& value) {
    switch (value.kind()) {
        case json::kind::null:
            return "null";
        case json::kind::bool_:
            return "a boolean";
        case json::kind::int64:
        case json::kind::uint64:
            return "an integer";
        case json::kind::double_:
            return "a number";
        case json::kind::string:
            return "a string";
        case json::kind::array:
            return "an array";
        case json::kind::object:
            return "an object";
    }
    return "something else";
}

std::string as_string(const json::value& value, const std::string& path) {
    if (const json::string* text = value.if_string()) return std::string(text->data(), text->size());
    fail_kind(path, "a string", value);
}

int64_t as_integer(const json::value& value, const std::string& path, int64_t min, int64_t max) {
    if (const int64_t* number = value.if_int64()) {
        if (*number < min || *number > max) fail_range(path, min, max, std::to_string(*number));
        return *number;
    }
    if (const uint64_t* number = value.if_uint64()) {  // only what does not fit int64
        if (*number > static_cast<uint64_t>(max)) fail_range(path, min, max, std::to_string(*number));
        return static_cast<int64_t>(*number);
    }
    if (const double* number = value.if_double()) {
        // Some clients write 16.0.
        if (std::nearbyint(*number) != *number) fail_kind(path, "an integer", value);
        if (!(*number >= static_cast<double>(min) && *number <= static_cast<double>(max)) ||
            std::abs(*number) > 0x1p53)
            fail_range(path, min, max, in_words(*number));
        return static_cast<int64_t>(*number);
    }
    fail_kind(path, "an integer", value);
}

const json::object& as_object(const json::value& value, const std::string& path) {
    if (const json::object* object = value.if_object()) return *object;
    fail_kind(path, "an object", value);
}

const json::value* Fields::find(std::string_view name) const {
    const json::value* value = object_.if_contains(json::string_view(name.data(), name.size()));
    return value && !value->is_null() ? value : nullptr;
}

std::optional<std::string> Fields::string(std::string_view name) const {
    const json::value* value = find(name);
    return value ? std::optional(as_string(*value, path(name))) : std::nullopt;
}

std::optional<bool> Fields::boolean(std::string_view name) const {
    const json::value* value = find(name);
    if (!value) return std::nullopt;
    if (const bool* flag = value->if_bool()) return *flag;
    fail_kind(path(name), "a boolean", *value);
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t min, int64_t max) const {
    const json::value* value = find(name);
    return value ? std::optional(as_integer(*value, path(name), min, max)) : std::nullopt;
}

std::optional<double> Fields::number(std::string_view name, double min, double max) const {
    const json::value* value = find(name);
    if (!value) return std::nullopt;
    if (!value->is_number()) fail_kind(path(name), "a number", *value);
    const double number = value->to_number<double>();
    if (!(number >= min && number <= max)) fail_range(path(name), min, max, in_words(number));
    return number;
}

const json::array* Fields::array(std::string_view name) const {
    const json::value* value = find(name);
    if (!value) return nullptr;
    if (const json::array* items = value->if_array()) return items;
    fail_kind(path(name), "an array", *value);
}

const json::object* Fields::object(std::string_view name) const {
    const json::value* value = find(name);
    return value ? &as_object(*value, path(name)) : nullptr;
}

json::object parse_body(std::string_view body) {
    if (body.empty()) fail("", "The request has no body; send a JSON object.", "invalid_json");
    Result<json::value> value = parse_json(
        body, "The request body", {.max_bytes = limits::body_bytes, .max_depth = limits::json_depth});
    if (!value) fail("", value.error().message, "invalid_json");
    if (!value->is_object())
        fail("", std::string("The request body must be a JSON object, but is ") + kind_name(*value) + ".",
             "invalid_type");
    return std::move(value->as_object());
}

}  // namespace deepinfer::api
