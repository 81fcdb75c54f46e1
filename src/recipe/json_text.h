// JSON as prompts word it. The models were trained on one exact wording, so every byte counts: ", " and ": ", keys in the
// order given, non-ASCII characters as they are, and doubles in one of two styles.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace deepinfer::recipe {

enum class NumberStyle {
    rust,    // 0.00001, 1e-6, 1e+16: shortest digits, exponents below 1e-5 and from 1e16, without padding
    python,  // 1e-05, 1e+16: exponents below 1e-4 and from 1e16, of at least two digits
};

struct JsonStyle {
    NumberStyle numbers = NumberStyle::rust;
    bool spaced = true;  // false: "," and ":"
};

// Appends `text` as the inside of a JSON string: only what must be is escaped.
void append_json_escaped(std::string& out, std::string_view text);

std::string to_text(const boost::json::value& value, const JsonStyle& style);

}  // namespace deepinfer::recipe
