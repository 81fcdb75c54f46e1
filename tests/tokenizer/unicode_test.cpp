#include "tokenizer/unicode.h"

#include <gtest/gtest.h>

namespace deepinfer::tokenizer {
namespace {

uint8_t class_of(uint32_t code_point) { return CharacterTable::instance()[code_point]; }

TEST(CharacterTable, KnowsTheClassesOfKnownCharacters) {
    EXPECT_EQ(class_of('a'), kLetter);
    EXPECT_EQ(class_of('7'), kNumber);
    EXPECT_EQ(class_of('!'), kPunctuation);
    EXPECT_EQ(class_of('+'), kSymbol);
    EXPECT_EQ(class_of(' '), kSpace);
    EXPECT_EQ(class_of('\n'), kSpace | kNewline);
    EXPECT_EQ(class_of('\r'), kSpace | kNewline);
    EXPECT_EQ(class_of(0x85), kSpace);      // next line
    EXPECT_EQ(class_of(0x180E), 0);         // Mongolian vowel separator: no white space since Unicode 6.3
    EXPECT_EQ(class_of(0x0301), kMark);     // combining acute
    EXPECT_EQ(class_of(0x2163), kNumber);   // Roman numeral four
    EXPECT_EQ(class_of(0x1F600), kSymbol);  // emoji
    EXPECT_EQ(class_of(0x200D), 0);         // zero-width joiner: Cf
    EXPECT_EQ(class_of(0xD800), 0);         // surrogate
    EXPECT_EQ(class_of(0x1C89), kLetter);   // new in Unicode 16.0
    EXPECT_EQ(class_of(0x10FFFF), 0);
}

TEST(CharacterTable, HasTheNumbersOfCodePointsOfUnicode16) {
    size_t letters = 0, marks = 0, numbers = 0, punctuation = 0, symbols = 0, spaces = 0;
    for (uint32_t c = 0; c < 0x110000; ++c) {
        const uint8_t bits = class_of(c);
        letters += (bits & kLetter) != 0, marks += (bits & kMark) != 0, numbers += (bits & kNumber) != 0;
        punctuation += (bits & kPunctuation) != 0, symbols += (bits & kSymbol) != 0,
            spaces += (bits & kSpace) != 0;
    }
    EXPECT_EQ(letters, 141028u);
    EXPECT_EQ(marks, 2501u);
    EXPECT_EQ(numbers, 1911u);
    EXPECT_EQ(punctuation, 855u);
    EXPECT_EQ(symbols, 8514u);
    EXPECT_EQ(spaces, 25u);
}

TEST(Utf8, EveryCodePointRoundTrips) {
    for (uint32_t c = 0; c < 0x110000; ++c) {
        if (c >= 0xD800 && c < 0xE000) continue;
        std::string text;
        append_code_point(text, c);
        const Utf8Sequence sequence = classify_utf8(text);
        ASSERT_EQ(sequence.kind, Utf8Sequence::valid) << c;
        ASSERT_EQ(sequence.length, text.size());
        ASSERT_EQ(decode_char(text.data()).code_point, c);
        for (size_t cut = 1; cut < text.size(); ++cut) {
            ASSERT_EQ(classify_utf8(text.substr(0, cut)).kind, Utf8Sequence::incomplete) << c;
        }
    }
}

std::string lossy(std::string bytes) {
    std::string out;
    drain_utf8(bytes, out, true);
    EXPECT_TRUE(bytes.empty());
    return out;
}

// The table of Unicode 16.0, section 3.9 (U+FFFD substitution of maximal subparts), and the usual traps.
TEST(Utf8, ReplacesMaximalSubparts) {
    const std::string r(kReplacementCharacter);
    EXPECT_EQ(lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
    EXPECT_EQ(lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
    EXPECT_EQ(lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
    EXPECT_EQ(lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
    EXPECT_EQ(lossy("abc\xE4\xBD"), "abc" + r);
    EXPECT_EQ(lossy("\xF0\x9F\x98"), r);
    EXPECT_EQ(lossy(""), "");
}

TEST(Utf8, DrainKeepsOnlyAnIncompleteTail) {
    std::string pending = "x\xF0\x9F\x98";
    std::string out;
    drain_utf8(pending, out, false);
    EXPECT_EQ(out, "x");
    EXPECT_EQ(pending, "\xF0\x9F\x98");
    pending += "\x80!";
    drain_utf8(pending, out, false);
    EXPECT_EQ(out, "x\xF0\x9F\x98\x80!");
    EXPECT_TRUE(pending.empty());
}

TEST(Utf8, ValidPrefixStopsAtTheFirstBadByteAnywhere) {
    for (size_t length = 0; length < 40; ++length) {
        std::string text(length, 'a');
        EXPECT_EQ(valid_utf8_prefix(text), length);
        for (size_t bad = 0; bad < length; ++bad) {
            std::string broken = text;
            broken[bad] = '\xFF';
            EXPECT_EQ(valid_utf8_prefix(broken), bad);
        }
    }
}

}  // namespace
}  // namespace deepinfer::tokenizer
