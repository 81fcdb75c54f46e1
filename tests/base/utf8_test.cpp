// Every code point there and back, and what is none.
#include "base/utf8.h"

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

TEST(Utf8, EveryCodePointIsValidAndIsTheOneThatWasWritten) {
    for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
        std::string text;
        append_code_point(text, c);
        ASSERT_EQ(text.size(), c < 0x80 ? 1u : c < 0x800 ? 2u : c < 0x10000 ? 3u : 4u) << c;
        const bool surrogate = c >= 0xD800 && c < 0xE000;
        ASSERT_EQ(valid_utf8_sequence(text), surrogate ? 0 : text.size()) << c;
        ASSERT_EQ(valid_utf8_sequence(text + "\x80"), surrogate ? 0 : text.size()) << c;
        uint32_t read = static_cast<uint8_t>(text[0]);
        if (text.size() > 1) read &= 0xFFu >> (text.size() + 1);
        for (size_t i = 1; i < text.size(); ++i) read = read << 6 | (static_cast<uint8_t>(text[i]) & 0x3F);
        ASSERT_EQ(read, c);
    }
}

TEST(Utf8, WhatIsNoCodePoint) {
    for (const char* text :
         {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80",
          "\xED\xBF\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
          "\xFF", "\xC3(", "\xE2\x82(", "\xF0\x9F\x98(", "\xC3", "\xE2\x82"})
        EXPECT_EQ(valid_utf8_sequence(text), 0u) << text;
}

TEST(Utf8, TheMaximalSubpartOrAnIncompleteTail) {
    const auto is = [](std::string_view text, Utf8Sequence::Kind kind, size_t length) {
        const Utf8Sequence found = classify_utf8(text);
        return found.kind == kind && found.length == length;
    };
    EXPECT_TRUE(is("\xE2\x82\xAC", Utf8Sequence::valid, 3));
    EXPECT_TRUE(is("\xE2\x82", Utf8Sequence::incomplete, 2));
    EXPECT_TRUE(is("\xE2\x82(", Utf8Sequence::invalid, 2));
    EXPECT_TRUE(is("\xF0\x9F\x98x", Utf8Sequence::invalid, 3));
    EXPECT_TRUE(is("\xF0\x80\x80\x80", Utf8Sequence::invalid, 1));
}

}  // namespace
}  // namespace deepinfer
