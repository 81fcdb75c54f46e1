// Typed look-ups in JSON objects, with errors that name the field. Internal to the tokenizer layer.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace deepinfer::tokenizer {

inline std::string_view view(const boost::json::string& text) { return {text.data(), text.size()}; }

inline Error bad_field(std::string_view where, std::string_view key, std::string_view expected) {
    std::string field(where);
    if (!field.empty() && !key.empty()) field += '.';
    field += key;
    return Error{ErrorCode::corrupt_data, field + ": expected " + std::string(expected)};
}

// The member, or nullptr if it is absent or null.
inline const boost::json::value* member(const boost::json::object& object, std::string_view key) {
    const boost::json::value* value = object.if_contains({key.data(), key.size()});
    return value && !value->is_null() ? value : nullptr;
}

inline Result<bool> bool_field(const boost::json::object& object, std::string_view key, bool otherwise,
                               std::string_view where) {
    const boost::json::value* value = member(object, key);
    if (!value) return otherwise;
    if (!value->is_bool()) return bad_field(where, key, "true or false");
    return value->get_bool();
}

// Absent or null gives an empty view.
inline Result<std::string_view> string_field(const boost::json::object& object, std::string_view key,
                                             std::string_view where) {
    const boost::json::value* value = member(object, key);
    if (!value) return std::string_view();
    if (!value->is_string()) return bad_field(where, key, "a string");
    return view(value->get_string());
}

}  // namespace deepinfer::tokenizer
