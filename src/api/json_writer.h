// Writes JSON text front to back, without building a document first: what streams send for every token.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "recipe/json_text.h"

namespace deepinfer::api {

class JsonWriter {
  public:
    // Members in braces. `begin()` and `end()` nest; commas come by themselves.
    JsonWriter& begin() { return open('{'); }
    JsonWriter& end() { return close('}'); }
    JsonWriter& begin_array() { return open('['); }
    JsonWriter& end_array() { return close(']'); }
    // The name of the value that is written next.
    JsonWriter& key(std::string_view name) {
        comma();
        quote(name);
        text_ += ':';
        first_ = true;
        return *this;
    }
    JsonWriter& value(std::string_view text) {
        comma();
        quote(text);
        return *this;
    }
    JsonWriter& value(const char* text) { return value(std::string_view(text)); }
    JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
    JsonWriter& value(std::nullptr_t) { return raw("null"); }
    JsonWriter& value(bool flag) { return raw(flag ? "true" : "false"); }
    template <std::integral T>
    JsonWriter& value(T number) {
        char digits[24];
        return raw({digits,
                    static_cast<size_t>(std::to_chars(digits, digits + sizeof digits, number).ptr - digits)});
    }
    // Text that is JSON already.
    JsonWriter& raw(std::string_view json) {
        comma();
        text_ += json;
        return *this;
    }
    template <class T>
    JsonWriter& member(std::string_view name, const T& content) {
        return key(name).value(content);
    }
    JsonWriter& member_raw(std::string_view name, std::string_view json) { return key(name).raw(json); }

    std::string take() {
        first_ = true;
        return std::move(text_);
    }

  private:
    JsonWriter& open(char bracket) {
        comma();
        text_ += bracket;
        first_ = true;
        return *this;
    }
    JsonWriter& close(char bracket) {
        text_ += bracket;
        first_ = false;
        return *this;
    }
    void comma() {
        if (!first_) text_ += ',';
        first_ = false;
    }
    void quote(std::string_view text);

    std::string text_;
    bool first_ = true;
};

inline void JsonWriter::quote(std::string_view text) {
    text_ += '"';
    recipe::append_json_escaped(text_, text);
    text_ += '"';
}

}  // namespace deepinfer::api
