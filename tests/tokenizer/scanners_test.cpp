// The hand-written scanners cut texts exactly where their patterns do under PCRE2.
#include "tokenizer/scanners.h"

#include <gtest/gtest.h>

#include <random>

#include "tokenizer/pre_tokenizer.h"

namespace deepinfer::tokenizer {
namespace {

// What "isolated" means, straight from the matches of the regular expression.
std::vector<std::string> split_by_pattern(const Pattern& pattern, const std::string& text) {
    MatchScratch scratch;
    std::vector<Piece> matches;
    pattern.find_all(text, scratch, matches);
    std::vector<std::string> pieces;
    size_t at = 0;
    for (const Piece& match : matches) {
        if (match.begin > at) pieces.push_back(text.substr(at, match.begin - at));
        if (match.size() > 0) pieces.push_back(text.substr(match.begin, match.size()));
        at = match.end;
    }
    if (at < text.size()) pieces.push_back(text.substr(at));
    return pieces;
}

std::vector<std::string> split_by_scanner(const Splitter& scanner, const std::string& text, Piece range) {
    MatchScratch scratch;
    std::vector<Piece> found;
    scanner.split(text, range, scratch, found);
    std::vector<std::string> pieces;
    for (const Piece& piece : found) pieces.push_back(text.substr(piece.begin, piece.size()));
    return pieces;
}

// Characters at the edges of all the classes that the patterns use; old enough for any PCRE2 to know them.
const std::vector<std::string> kAlphabet = {
    "a",          "z",          "A",          "Z",          "s",          "S",
    "t",          "T",          "r",          "e",          "v",          "m",
    "l",          "L",          "d",          "D",          "'",          "'",
    "'",          "\u017F",     "\u2019",     "0",          "5",          "9",
    "\u00B2",     "\u0663",     "\u2163",     "!",          "\"",         "-",
    "/",          "@",          "[",          "]",          "`",          "{",
    "~",          "$",          "+",          "<",          "=",          "|",
    "^",          "_",          ".",          ",",          "\u20AC",     "\u00BF",
    "\u3002",     " ",          " ",          " ",          " ",          "\t",
    "\n",         "\n",         "\r",         "\r\n",       "\x0b",       "\x0c",
    "\u0085",     "\u00A0",     "\u3000",     "\u2028",     "\u200B",     "\u200D",
    "\u180E",     "\uFEFF",     "\u00E9",     "\u00DF",     "\u0130",     "\u0301",
    "\u093C",     "\u0903",     "\u20DD",     "\uFE0F",     "\u0391",     "\u044F",
    "\u05D0",     "\u0627",     "\u0939",     "\u0E01",     "\u0E31",     "\u3042",
    "\u30A2",     "\u30FC",     "\u309A",     "\u30FF",     "\u3100",     "\u4E00",
    "\u9FA5",     "\u9FA6",     "\uAC00",     "\uD7A3",     "\uD7FF",     "\uE000",
    "\U0001F600", "\U0001F3FD", "\U00010400", "\U0001D7D8", "\U000E0041", std::string(1, '\0'),
    "\x1b",       "\x7f",       "\U0010FFFF"};

TEST(Scanners, CutWhereTheirPatternsMatch) {
    std::mt19937 random(20261130);
    for (const std::string& expression : scanner_patterns()) {
        const std::unique_ptr<Splitter> scanner = find_scanner(expression);
        ASSERT_NE(scanner, nullptr) << expression;
        const Result<Pattern> pattern = Pattern::compile(expression, "test");
        ASSERT_TRUE(pattern) << pattern.error().message;
        for (int round = 0; round < 5000; ++round) {
            // Small alphabets make runs and near misses likely.
            const size_t letters = 1 + random() % 6;
            std::vector<std::string> some;
            for (size_t i = 0; i < letters; ++i) some.push_back(kAlphabet[random() % kAlphabet.size()]);
            std::string text;
            for (size_t i = random() % 14; i > 0; --i) text += some[random() % letters];
            ASSERT_EQ(split_by_scanner(*scanner, text, {0, text.size()}), split_by_pattern(*pattern, text))
                << "pattern " << expression << "\ntext \"" << text << "\", round " << round;
        }
    }
}

// Every code point alone, between letters, and after a space.
TEST(Scanners, CutWhereTheirPatternsMatchAroundEveryOldCodePoint) {
    for (const std::string& expression : scanner_patterns()) {
        const std::unique_ptr<Splitter> scanner = find_scanner(expression);
        const Result<Pattern> pattern = Pattern::compile(expression, "test");
        ASSERT_TRUE(pattern);
        for (uint32_t c = 1; c < 0x2E00; ++c) {
            std::string character;
            append_code_point(character, c);
            const std::string text = "b" + character + "c " + character + "\n" + character + "7'" + character;
            if (split_by_scanner(*scanner, text, {0, text.size()}) == split_by_pattern(*pattern, text))
                continue;
            // Allowed only for a code point that is newer than the installed PCRE2.
            const Result<Pattern> unassigned = Pattern::compile("\\p{Cn}", "test");
            MatchScratch scratch;
            std::vector<Piece> matches;
            unassigned->find_all(character, scratch, matches);
            ASSERT_FALSE(matches.empty()) << "pattern " << expression << ", code point " << c;
        }
    }
}

TEST(Scanners, SeeNothingOutsideTheirRange) {
    const std::string text = "xx  12  'sab";
    for (const std::string& expression : scanner_patterns()) {
        const std::unique_ptr<Splitter> scanner = find_scanner(expression);
        for (size_t begin = 0; begin <= text.size(); ++begin) {
            for (size_t end = begin; end <= text.size(); ++end) {
                const std::string part = text.substr(begin, end - begin);
                EXPECT_EQ(split_by_scanner(*scanner, text, {begin, end}),
                          split_by_scanner(*scanner, part, {0, part.size()}))
                    << expression << " " << begin << " " << end;
            }
        }
    }
}

TEST(Scanners, TakeLinearTimeForLongRuns) {
    const std::string spaces(4'000'000, ' ');
    for (const std::string& expression : scanner_patterns()) {
        const std::unique_ptr<Splitter> scanner = find_scanner(expression);
        for (const std::string& text : {spaces, spaces + "x", spaces + "\nx", std::string(4'000'000, 'a')}) {
            size_t bytes = 0;
            for (const std::string& piece : split_by_scanner(*scanner, text, {0, text.size()}))
                bytes += piece.size();
            EXPECT_EQ(bytes, text.size());  // quadratic time would not end within the test's time limit
        }
    }
}

std::vector<std::string> run(const PreTokenizer& pre_tokenizer, std::string_view text, bool at_start = true) {
    PieceList list;
    list.reset(text, at_start);
    pre_tokenizer.run(list);
    std::vector<std::string> pieces;
    for (size_t i = 0; i < list.pieces.size(); ++i) pieces.emplace_back(list[i]);
    return pieces;
}

using Strings = std::vector<std::string>;

// The examples of the documentation of Hugging Face `tokenizers`: "the-final--countdown" split at "-".
TEST(PreTokenizer, BehavesAsDocumented) {
    const auto split = [](SplitBehavior behavior) {
        PreTokenizer pre_tokenizer;
        EXPECT_TRUE(pre_tokenizer.add_split_pattern("-", behavior, false, "test"));
        PreTokenizer literal;
        literal.add_split_string("-", behavior, false);
        EXPECT_EQ(run(pre_tokenizer, "the-final--countdown"), run(literal, "the-final--countdown"));
        return run(pre_tokenizer, "the-final--countdown");
    };
    EXPECT_EQ(split(SplitBehavior::removed), (Strings{"the", "final", "countdown"}));
    EXPECT_EQ(split(SplitBehavior::isolated), (Strings{"the", "-", "final", "-", "-", "countdown"}));
    EXPECT_EQ(split(SplitBehavior::merged_with_previous), (Strings{"the-", "final-", "-", "countdown"}));
    EXPECT_EQ(split(SplitBehavior::merged_with_next), (Strings{"the", "-final", "-", "-countdown"}));
    EXPECT_EQ(split(SplitBehavior::contiguous), (Strings{"the", "-", "final", "--", "countdown"}));
}

TEST(PreTokenizer, InvertSwapsMatchesAndGaps) {
    PreTokenizer pre_tokenizer;
    ASSERT_TRUE(pre_tokenizer.add_split_pattern("\\w+|[^\\w\\s]+", SplitBehavior::removed, true, "test"));
    EXPECT_EQ(run(pre_tokenizer, "Hey there, friend!  ok"),
              (Strings{"Hey", "there", ",", "friend", "!", "ok"}));
}

TEST(PreTokenizer, MetaspacePrependsAccordingToItsScheme) {
    const auto metaspace = [](PreTokenizer::Prepend prepend, bool split, std::string_view text,
                              bool at_start) {
        PreTokenizer pre_tokenizer;
        pre_tokenizer.add_metaspace("▁", prepend, split);
        return run(pre_tokenizer, text, at_start);
    };
    EXPECT_EQ(metaspace(PreTokenizer::Prepend::always, true, "a b", false), (Strings{"▁a", "▁b"}));
    EXPECT_EQ(metaspace(PreTokenizer::Prepend::first, true, "a b", true), (Strings{"▁a", "▁b"}));
    EXPECT_EQ(metaspace(PreTokenizer::Prepend::first, true, "a b", false), (Strings{"a", "▁b"}));
    EXPECT_EQ(metaspace(PreTokenizer::Prepend::never, false, "a  b", true), (Strings{"a▁▁b"}));
    EXPECT_EQ(metaspace(PreTokenizer::Prepend::always, true, " a", true), (Strings{"▁a"}));
}

TEST(Pattern, TranslatesWhatDiffersAndRefusesWhatItCannot) {
    const auto matches = [](std::string_view expression, std::string_view text) {
        const Result<Pattern> pattern = Pattern::compile(expression, "test");
        EXPECT_TRUE(pattern) << pattern.error().message;
        MatchScratch scratch;
        std::vector<Piece> found;
        pattern->find_all(text, scratch, found);
        return found.size();
    };
    EXPECT_EQ(matches("\\s", "\u180E \u3000"), 2u);  // U+180E is no white space
    EXPECT_EQ(matches("[^\\s]", "\u180E \u3000"), 1u);
    EXPECT_EQ(matches("\\S", "\u180E \u3000"), 1u);
    EXPECT_EQ(matches("\\w", "a_\u0301\u00B2-"), 4u);
    EXPECT_EQ(matches("(?i:'S)", "'s'S'\u017F"), 3u);
    EXPECT_EQ(matches("\\p{Han}", "\u3002\u4E00"), 1u);  // U+3002 is only among the extensions of Han
    EXPECT_EQ(matches("x*", "axb"),
              3u);  // empty at 0 and 3, and "x", right behind which an empty match does not count
    for (const char* refused :
         {"[a&&b]", "[a[b]]", "\\h", "(?<name>a)\\k<name>", "\\G", "(?m:.)", "\\X", "\\R", "(a)\\1"}) {
        const Result<Pattern> pattern = Pattern::compile(refused, "here");
        ASSERT_FALSE(pattern) << refused;
        EXPECT_EQ(pattern.error().code, ErrorCode::unsupported) << refused;
        EXPECT_TRUE(pattern.error().message.starts_with("here: ")) << pattern.error().message;
    }
    for (const char* wrong : {"(", "[a", "a{2,1}", "\\", "\xFF"}) {
        const Result<Pattern> pattern = Pattern::compile(wrong, "here");
        ASSERT_FALSE(pattern) << wrong;
        EXPECT_EQ(pattern.error().code, ErrorCode::corrupt_data) << wrong;
    }
}

TEST(Pattern, SurvivesCatastrophicBacktracking) {
    const Result<Pattern> pattern = Pattern::compile("(a+)+$x", "test");
    ASSERT_TRUE(pattern);
    MatchScratch scratch;
    std::vector<Piece> found;
    pattern->find_all(std::string(64, 'a') + "b", scratch, found);  // 2^64 steps without a limit
    EXPECT_TRUE(found.empty());
}

}  // namespace
}  // namespace deepinfer::tokenizer
