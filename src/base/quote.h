// Text from outside the program inside messages to people.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace deepinfer {

// `text` in double quotes, safe to print on a terminal: control characters and invalid UTF-8 are shown as
// \xNN, quotes and backslashes escaped. Past `max_bytes` it is shortened and its length given.
std::string quote(std::string_view text, size_t max_bytes = 100);

// `text` with every byte that is not part of valid UTF-8 replaced by U+FFFD: fit for JSON.
std::string to_valid_utf8(std::string_view text);

}  // namespace deepinfer
