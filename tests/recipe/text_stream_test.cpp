#include "recipe/text_stream.h"

#include <gtest/gtest.h>

#include <random>

#include "support/byte_tokenizer.h"

namespace deepinfer::recipe {
namespace {

using testing::ByteTokenizer;

// The definition, the slow way: the shortest beginning of `text` that ends with a stop string ends the
// answer.
std::string expected_text(const std::string& text, const std::vector<std::string>& stops) {
    for (size_t end = 1; end <= text.size(); ++end) {
        const std::string beginning = text.substr(0, end);
        size_t longest = 0;
        for (const std::string& stop : stops)
            if (beginning.ends_with(stop)) longest = std::max(longest, stop.size());
        if (longest > 0) return beginning.substr(0, end - longest);
    }
    return text;
}

// What may be given out after `text`: all but what could still be the beginning of a stop string.
size_t certain_bytes(const std::string& text, const std::vector<std::string>& stops) {
    size_t held = 0;
    for (const std::string& stop : stops)
        for (size_t size = 1; size < stop.size() && size <= text.size(); ++size)
            if (text.ends_with(stop.substr(0, size))) held = std::max(held, size);
    return text.size() - held;
}

TEST(StopMatcher, EveryChunkingGivesTheSame) {
    const std::vector<std::vector<std::string>> sets = {
        {},    {"ab"},       {"aab", "ab"}, {"abab"}, {"b", "abc"}, {"aaaa"}, {"abcabd", "cab"},
        {"a"}, {"ba", "ab"}, {"abcd", "c"}};
    std::mt19937 random(1);
    for (const auto& stops : sets) {
        for (int round = 0; round < 60; ++round) {
            std::string text;
            for (int i = 0; i < 10; ++i) text += static_cast<char>('a' + random() % 4);
            const std::string expected = expected_text(text, stops);
            for (unsigned cuts = 0; cuts < 1u << 9; ++cuts) {  // a bit for each place to cut
                StopMatcher matcher(stops);
                std::string out, fed;
                for (size_t i = 0, begin = 0; i < text.size(); ++i) {
                    if (i + 1 < text.size() && !(cuts >> i & 1)) continue;
                    fed += text.substr(begin, i + 1 - begin);
                    out += matcher.push(std::string_view(text).substr(begin, i + 1 - begin));
                    begin = i + 1;
                    // Nothing is held back longer than it has to be.
                    if (!matcher.stopped()) {
                        ASSERT_EQ(out.size(), certain_bytes(fed, stops));
                    }
                }
                ASSERT_EQ(matcher.stopped(), expected.size() < text.size());
                out += matcher.finish();
                ASSERT_EQ(out, expected) << text << " cut as " << cuts;
            }
        }
    }
}

TEST(StopMatcher, RandomStringsAgainstTheDefinition) {
    std::mt19937 random(2);
    for (int round = 0; round < 20'000; ++round) {
        std::vector<std::string> stops(random() % 4);
        for (std::string& stop : stops)
            for (unsigned i = random() % 5 + 1; i > 0; --i) stop += static_cast<char>('a' + random() % 2);
        StopMatcher matcher(stops);
        std::string text, out;
        for (int i = 0; i < 8; ++i) {
            std::string piece;
            for (unsigned k = random() % 5; k > 0; --k) piece += static_cast<char>('a' + random() % 2);
            text += piece;
            out += matcher.push(piece);
        }
        out += matcher.finish();
        ASSERT_EQ(out, expected_text(text, stops));
        if (matcher.stopped()) {
            ASSERT_TRUE(std::find(stops.begin(), stops.end(), matcher.stop()) != stops.end());
        }
    }
}

TEST(TextStream, CutsOnlyBetweenCharacters) {
    const ByteTokenizer tokenizer;
    const std::string text = "x漢字y🌶️漢漢字z";
    for (const std::string& stop : std::vector<std::string>{"字y", "漢字z", "🌶", "never"}) {
        TextStream stream(tokenizer, {stop});
        std::string out;
        for (const char c : text) {
            const std::string piece = stream.push(static_cast<unsigned char>(c));
            // Every piece is whole characters: it does not begin with a continuation byte.
            EXPECT_TRUE(piece.empty() || (piece[0] & 0xC0) != 0x80);
            out += piece;
            EXPECT_EQ(out.size(), stream.emitted_bytes());
        }
        out += stream.finish();
        EXPECT_EQ(out, expected_text(text, {stop}));
        EXPECT_EQ(stream.stop(), stop == "never" ? "" : stop);
    }
}

TEST(TextStream, KeepsTheSpaceOfTheFirstToken) {
    ByteTokenizer tokenizer;
    tokenizer.strips_leading_space_ = true;
    ASSERT_EQ(tokenizer.decode({' ', 'P'}), "P");
    TextStream stream(tokenizer, {});
    std::string out;
    for (const char c : std::string(" Paris")) out += stream.push(c);
    EXPECT_EQ(out + stream.finish(), " Paris");
}

TEST(TextStream, FinishGivesTheRest) {
    const ByteTokenizer tokenizer;
    TextStream stream(tokenizer, {"STOP"});
    std::string out;
    for (const char c : std::string("aSTO\xE6\xBC")) out += stream.push(static_cast<unsigned char>(c));
    EXPECT_EQ(out, "a");
    EXPECT_EQ(stream.finish(), "STO\uFFFD");
    EXPECT_EQ(stream.decoded_characters(), 5u);
}

TEST(TextStream, AStopStringMayEndInTheVeryLastBytes) {
    const ByteTokenizer tokenizer;
    TextStream stream(tokenizer, {"\uFFFD"});
    EXPECT_EQ(stream.push('a'), "a");
    EXPECT_EQ(stream.push(0xE6), "");
    EXPECT_EQ(stream.finish(), "");
    EXPECT_TRUE(stream.stopped());
}

}  // namespace
}  // namespace deepinfer::recipe
