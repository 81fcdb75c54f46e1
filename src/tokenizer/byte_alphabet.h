// The printable alphabet of byte-level BPE (GPT-2): every byte has a character of its own, so that
// vocabularies are text.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace deepinfer::tokenizer {

class ByteAlphabet {
  public:
    ByteAlphabet();
    // The character, in UTF-8, that stands for a byte.
    const std::string& character(unsigned char byte) const { return characters_[byte]; }
    // The bytes that a vocabulary entry stands for; nothing if a character is not of the alphabet.
    std::optional<std::string> bytes(std::string_view entry) const;

  private:
    std::array<std::string, 256> characters_;
    std::array<int, 0x144> byte_of_;  // code point -> byte or -1; U+0143 is the last of the alphabet
};

}  // namespace deepinfer::tokenizer
