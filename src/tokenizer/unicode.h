// Character classes of code points (Unicode 16.0, as in the reference's regular expressions) and UTF-8.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace deepinfer::tokenizer {

// Bits of a character class; a code point has at most one of the first five.
enum CharacterClass : uint8_t {
    kLetter = 1 << 0,       // \p{L}
    kMark = 1 << 1,         // \p{M}
    kNumber = 1 << 2,       // \p{N}
    kPunctuation = 1 << 3,  // \p{P}
    kSymbol = 1 << 4,       // \p{S}
    kSpace = 1 << 5,        // \s: White_Space
    kNewline = 1 << 6,      // [\r\n]
};

// Class of every code point: two-stage table, about 50 KB. Threads: immutable.
class CharacterTable {
  public:
    // The one table; built on first use.
    static const CharacterTable& instance();

    uint8_t operator[](uint32_t code_point) const {
        return blocks_[size_t{block_of_[code_point >> kBlockBits]} << kBlockBits | (code_point & kBlockMask)];
    }

  private:
    static constexpr uint32_t kCodePoints = 0x110000;
    static constexpr uint32_t kBlockBits = 7;
    static constexpr uint32_t kBlockMask = (1u << kBlockBits) - 1;

    CharacterTable();

    std::array<uint16_t, (kCodePoints >> kBlockBits)> block_of_{};
    std::vector<uint8_t> blocks_;
};

struct DecodedChar {
    uint32_t code_point;
    uint32_t length;  // bytes
};

// The code point at `p`. The text must be valid UTF-8 and not at its end.
inline DecodedChar decode_char(const char* p) {
    const auto* b = reinterpret_cast<const uint8_t*>(p);
    if (b[0] < 0x80) return {b[0], 1};
    if (b[0] < 0xE0) return {uint32_t(b[0] & 0x1F) << 6 | (b[1] & 0x3F), 2};
    if (b[0] < 0xF0) return {uint32_t(b[0] & 0x0F) << 12 | uint32_t(b[1] & 0x3F) << 6 | (b[2] & 0x3F), 3};
    return {uint32_t(b[0] & 0x07) << 18 | uint32_t(b[1] & 0x3F) << 12 | uint32_t(b[2] & 0x3F) << 6 |
                (b[3] & 0x3F),
            4};
}

// Start of the code point that ends just before text[end]; end > 0, valid UTF-8.
inline size_t previous_char(std::string_view text, size_t end) {
    do --end;
    while (end > 0 && (uint8_t(text[end]) & 0xC0) == 0x80);
    return end;
}

// Length of the longest prefix that is valid UTF-8.
size_t valid_utf8_prefix(std::string_view text);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// Moves all text that is certain from the front of `pending` to `out`, with U+FFFD for what is invalid. An
// incomplete tail stays in `pending`, or becomes one U+FFFD if this is the `end` of the stream.
void drain_utf8(std::string& pending, std::string& out, bool end);

}  // namespace deepinfer::tokenizer
