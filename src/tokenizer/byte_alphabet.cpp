#include "tokenizer/byte_alphabet.h"

#include "tokenizer/unicode.h"

namespace deepinfer::tokenizer {

ByteAlphabet::ByteAlphabet() {
    byte_of_.fill(-1);
    // Printable Latin-1 characters stand for themselves; the other bytes take the code points from U+0100 on,
    // in order.
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                               (byte >= 0xAE && byte <= 0xFF);
        const uint32_t code_point = printable ? byte : next++;
        append_code_point(characters_[byte], code_point);
        byte_of_[code_point] = int(byte);
    }
}

std::optional<std::string> ByteAlphabet::bytes(std::string_view entry) const {
    std::string out;
    for (size_t i = 0; i < entry.size();) {
        if (classify_utf8(entry.substr(i)).kind != Utf8Sequence::valid) return std::nullopt;
        const DecodedChar c = decode_char(entry.data() + i);
        if (c.code_point >= byte_of_.size() || byte_of_[c.code_point] < 0) return std::nullopt;
        out += char(byte_of_[c.code_point]);
        i += c.length;
    }
    return out;
}

}  // namespace deepinfer::tokenizer
