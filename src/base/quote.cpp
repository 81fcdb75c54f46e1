#include "base/quote.h"

#include <cstdio>

namespace deepinfer {
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

}  // namespace deepinfer
