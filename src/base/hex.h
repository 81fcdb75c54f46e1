#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace deepinfer {

// Two lower-case digits for each byte.
inline std::string hex(std::span<const uint8_t> bytes) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (const uint8_t byte : bytes) text += {digits[byte >> 4], digits[byte & 15]};
    return text;
}

}  // namespace deepinfer
