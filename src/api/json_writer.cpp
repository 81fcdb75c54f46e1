#include "api/json_writer.h"

namespace deepinfer::api {

void append_escaped(std::string& out, std::string_view text) {
    static constexpr std::string_view escaped = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt";
    static constexpr char digits[] = "0123456789abcdef";
    size_t plain = 0;  // where what needs no escape begins
    for (size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        out.append(text, plain, i - plain);
        plain = i + 1;
        if (const size_t at = escaped.find(text[i]); at != escaped.npos) {
            out += '\\';
            out += letters[at];
        } else {
            out += "\\u00";
            out += digits[c >> 4];
            out += digits[c & 15];
        }
    }
    out.append(text, plain);
}

}  // namespace deepinfer::api
