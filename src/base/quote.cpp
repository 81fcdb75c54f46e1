#include "base/quote.h"

#include <algorithm>
#include <cstdio>

#include "base/utf8.h"

namespace deepinfer {
namespace {

// Control characters of ASCII and of Latin-1 (U+0080 to U+009F), which terminals obey.
bool is_control(std::string_view sequence) {
    const auto first = static_cast<unsigned char>(sequence[0]);
    if (sequence.size() == 1) return first < 0x20 || first == 0x7f;
    return first == 0xc2 && static_cast<unsigned char>(sequence[1]) < 0xa0;
}

}  // namespace

std::string quote(std::string_view text, size_t max_bytes) {
    std::string out = "\"";
    for (size_t i = 0; i < text.size();) {
        if (i >= max_bytes) {
            out += "...\" (" + std::to_string(text.size()) + " bytes)";
            return out;
        }
        const std::string_view sequence = text.substr(i, valid_utf8_sequence(text.substr(i)));
        if (sequence.empty() || is_control(sequence)) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(text[i]));
            out += escape;
            ++i;
            continue;
        }
        if (text[i] == '"' || text[i] == '\\') out += '\\';
        out += sequence;
        i += sequence.size();
    }
    return out + "\"";
}

std::string to_valid_utf8(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size();) {
        const std::string_view sequence = text.substr(i, valid_utf8_sequence(text.substr(i)));
        out += sequence.empty() ? std::string_view("\xef\xbf\xbd") : sequence;
        i += std::max<size_t>(sequence.size(), 1);
    }
    return out;
}

}  // namespace deepinfer
