#include "recipe/marker_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace deepinfer::recipe {
namespace {

// Of every byte: the marker found there and its size, and how much may still become one.
struct Seen {
    int found = -1;
    size_t found_size = 0, open_size = 0;
    bool operator==(const Seen&) const = default;
};

std::vector<Seen> feed(MarkerMatcher& matcher, std::string_view text, ByteSource source) {
    std::vector<Seen> seen;
    for (const char byte : text) {
        const int found = matcher.feed(byte, source);
        seen.push_back({found, found < 0 ? 0 : matcher.found_size(), matcher.open_size()});
    }
    return seen;
}

TEST(MarkerMatcher, SaysHowMuchMayStillBecomeAMarker) {
    MarkerMatcher matcher({{"abac", "", ""}, {"b", "", "c"}});
    const auto seen = feed(matcher, "xababac", ByteSource::text);
    const std::vector<Seen> expected = {{-1, 0, 0}, {-1, 0, 1}, {-1, 0, 2}, {-1, 0, 3},
                                        {-1, 0, 2}, {-1, 0, 3}, {0, 4, 0}};
    EXPECT_EQ(seen, expected);
}

TEST(MarkerMatcher, TheFirstOfThoseThatAreCompleteCounts) {
    MarkerMatcher matcher({{"true>", "", ""}, {">", "", ""}});
    EXPECT_EQ(feed(matcher, "true>", ByteSource::text).back().found, 0);
    EXPECT_EQ(feed(matcher, "tru>", ByteSource::text).back().found, 1);
}

TEST(MarkerMatcher, LineBreaksBeforeItBelongToIt) {
    MarkerMatcher matcher({{"<", "M", "", true}});
    auto seen = feed(matcher, "a\n\n<M", ByteSource::text);
    EXPECT_EQ(seen[2], (Seen{-1, 0, 2}));
    EXPECT_EQ(seen[4], (Seen{0, 4, 0}));
    seen = feed(matcher, "\n<\n<M", ByteSource::text);
    EXPECT_EQ(seen[2], (Seen{-1, 0, 1})) << "the first line break stands before a < that is text";
    EXPECT_EQ(seen[4], (Seen{0, 3, 0}));
}

TEST(MarkerMatcher, OnlyControlTokensMeanWhatTheySpell) {
    MarkerMatcher matcher({{"<", "M", ">"}});
    EXPECT_EQ(feed(matcher, "<M>", ByteSource::plain_token).back().found, -1);
    EXPECT_EQ(feed(matcher, "<M>", ByteSource::control_token).back().found, -1);
    feed(matcher, "<", ByteSource::plain_token);
    feed(matcher, "M", ByteSource::control_token);
    EXPECT_EQ(feed(matcher, ">", ByteSource::plain_token).back().found, 0);
}

// Against searching the text anew at every byte.
TEST(MarkerMatcher, FindsWhatSearchingFinds) {
    std::mt19937 random(11);
    const auto word = [&](size_t most) {
        std::string text;
        for (size_t n = 1 + random() % most; n > 0; --n) text += "ab\n"[random() % 3];
        return text;
    };
    for (int round = 0; round < 2000; ++round) {
        const std::vector<std::string> words = {word(4), word(3)};
        MarkerMatcher matcher({{words[0], "", ""}, {words[1], "", ""}});
        std::string since;  // the last marker
        for (const char byte : word(40)) {
            since += byte;
            int expected = -1;
            size_t open = 0;
            for (size_t i = 0; i < words.size(); ++i) {
                if (expected < 0 && since.ends_with(words[i])) expected = static_cast<int>(i);
                for (size_t n = 1; n < words[i].size(); ++n)
                    if (since.ends_with(words[i].substr(0, n))) open = std::max(open, n);
            }
            EXPECT_EQ(matcher.feed(byte, ByteSource::text), expected);
            EXPECT_EQ(matcher.open_size(), expected < 0 ? open : 0);
            if (expected >= 0) since.clear();
        }
    }
}

}  // namespace
}  // namespace deepinfer::recipe
