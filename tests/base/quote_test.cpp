#include "base/quote.h"

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

TEST(Quote, PrintableTextStays) {
    EXPECT_EQ(quote(""), "\"\"");
    EXPECT_EQ(quote("a b"), "\"a b\"");
    EXPECT_EQ(quote("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    EXPECT_EQ(quote("say \"hi\" \\"), "\"say \\\"hi\\\" \\\\\"");
}

TEST(Quote, ControlCharactersAreEscaped) {
    EXPECT_EQ(quote("\x1b[2J\n\x7f"), "\"\\x1b[2J\\x0a\\x7f\"");
    EXPECT_EQ(quote(std::string_view("\0", 1)), "\"\\x00\"");
    EXPECT_EQ(quote("\xc2\x9b"
                    "1m"),
              "\"\\xc2\\x9b1m\"")
        << "CSI as one character";
}

TEST(Quote, InvalidUtf8IsEscaped) {
    EXPECT_EQ(quote("\xff"), "\"\\xff\"");
    EXPECT_EQ(quote("\xc3"), "\"\\xc3\"");
    EXPECT_EQ(quote("\xc3x"), "\"\\xc3x\"");
    EXPECT_EQ(quote("\xc0\xaf"), "\"\\xc0\\xaf\"") << "overlong";
    EXPECT_EQ(quote("\xe0\x80\xaf"), "\"\\xe0\\x80\\xaf\"") << "overlong";
    EXPECT_EQ(quote("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\"") << "surrogate";
    EXPECT_EQ(quote("\xf4\x90\x80\x80"), "\"\\xf4\\x90\\x80\\x80\"") << "beyond U+10FFFF";
}

TEST(Quote, LongTextIsShortened) {
    EXPECT_EQ(quote(std::string(100, 'x')), "\"" + std::string(100, 'x') + "\"");
    EXPECT_EQ(quote(std::string(101, 'x')), "\"" + std::string(100, 'x') + "...\" (101 bytes)");
}

TEST(Quote, ToValidUtf8ReplacesOnlyWhatIsInvalid) {
    EXPECT_EQ(to_valid_utf8("a\n\xc3\xa9\xf0\x9f\x98\x80"), "a\n\xc3\xa9\xf0\x9f\x98\x80");
    EXPECT_EQ(to_valid_utf8("\xc3x\xff"), "\xef\xbf\xbdx\xef\xbf\xbd");
    EXPECT_EQ(to_valid_utf8(""), "");
}

}  // namespace
}  // namespace deepinfer
