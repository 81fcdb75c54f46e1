// UTF-8, byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer {

// What stands at the beginning of some bytes.
struct Utf8Sequence {
    enum Kind { valid, invalid, incomplete } kind;
    size_t length;  // valid: bytes of the code point; invalid: bytes of the maximal subpart, which become one
                    // U+FFFD (Unicode 16.0, section 3.9); incomplete: all the remaining bytes, a proper
                    // prefix of a sequence
};

inline Utf8Sequence classify_utf8(std::string_view bytes) {  // bytes must not be empty
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
    const uint8_t lead = byte(0);
    if (lead < 0x80) return {Utf8Sequence::valid, 1};
    if (lead < 0xC2 || lead > 0xF4) return {Utf8Sequence::invalid, 1};
    const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    // The second byte is restricted where overlong forms, surrogates and values above U+10FFFF begin.
    uint8_t low = 0x80, high = 0xBF;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    for (size_t i = 1; i < length; ++i) {
        if (i == bytes.size()) return {Utf8Sequence::incomplete, i};
        if (byte(i) < low || byte(i) > high) return {Utf8Sequence::invalid, i};
        low = 0x80, high = 0xBF;
    }
    return {Utf8Sequence::valid, length};
}

// Bytes of the code point at the start of `text`, which is not empty; 0 if there is none.
inline size_t valid_utf8_sequence(std::string_view text) {
    const Utf8Sequence first = classify_utf8(text);
    return first.kind == Utf8Sequence::valid ? first.length : 0;
}

// `code_point` is at most U+10FFFF.
inline void append_code_point(std::string& out, uint32_t code_point) {
    const auto add = [&out](uint32_t byte) { out += static_cast<char>(byte); };
    const auto add_six_bits = [&](int shift) { add(0x80 | (code_point >> shift & 0x3F)); };
    if (code_point < 0x80) {
        add(code_point);
    } else if (code_point < 0x800) {
        add(0xC0 | code_point >> 6), add_six_bits(0);
    } else if (code_point < 0x10000) {
        add(0xE0 | code_point >> 12), add_six_bits(6), add_six_bits(0);
    } else {
        add(0xF0 | code_point >> 18), add_six_bits(12), add_six_bits(6), add_six_bits(0);
    }
}

}  // namespace deepinfer
