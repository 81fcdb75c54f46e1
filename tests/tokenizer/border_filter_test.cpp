#include "tokenizer/border_filter.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tokenizer/bpe.h"

namespace deepinfer::tokenizer {
namespace {

// A vocabulary of the bytes and of random merges of what there is; `with_borders`: long words are cut.
BpeModel random_model(uint32_t seed, bool with_borders) {
    std::mt19937 random(seed);
    BpeModel model;
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) {
        model.byte_token[static_cast<size_t>(byte)] = byte;
        tokens.emplace_back(1, static_cast<char>(byte));
    }
    model.merges = FlatMap64<Merge>(300);
    std::vector<TokenId> used;  // bytes of the test's texts, and what was merged of them
    for (const char byte : {'a', 'b', 'c', 'd', 'e'}) used.push_back(static_cast<unsigned char>(byte));
    for (uint32_t rank = 0; rank < 40 + seed % 60; ++rank) {
        const TokenId left = used[random() % used.size()], right = used[random() % used.size()];
        if (model.merges.find(BpeModel::pair_key(left, right))) continue;
        const std::string& before = tokens[static_cast<size_t>(left)];
        const std::string& after = tokens[static_cast<size_t>(right)];
        const std::string joined = before + after;
        const auto known = std::find(tokens.begin(), tokens.end(), joined);
        const auto result = static_cast<TokenId>(known - tokens.begin());
        if (with_borders) model.borders.add_merge(before, after);
        model.merges.set(BpeModel::pair_key(left, right), {rank, result});
        if (known != tokens.end()) continue;
        tokens.push_back(joined);
        used.push_back(result);
    }
    model.vocabulary_size = static_cast<int32_t>(tokens.size());
    return model;
}

TEST(BorderFilter, CutWordsHaveTheSameIds) {
    size_t cuts = 0;
    for (uint32_t seed = 0; seed < 200; ++seed) {
        const BpeModel whole_model = random_model(seed, false), cut_model = random_model(seed, true);
        BpeEncoder whole(whole_model), cut(cut_model);
        std::mt19937 random(seed);
        for (int round = 0; round < 20; ++round) {
            std::string word;
            for (size_t n = 1 + random() % 400; n > 0; --n) word += static_cast<char>('a' + random() % 6);
            std::vector<TokenId> expected, ids;
            whole.encode(word, expected);
            cut.encode(word, ids);
            ASSERT_EQ(ids, expected) << seed << " " << word;
            for (size_t at = 1; at < word.size(); ++at) cuts += !cut_model.borders.may_merge(word, at);
        }
    }
    EXPECT_GT(cuts, 1000u);
}

TEST(BorderFilter, NeverDeniesAMerge) {
    BorderFilter filter;
    filter.add_merge("b", "c");
    filter.add_merge("xb", "e");
    filter.add_merge("b", "fg");
    filter.add_merge("xxb", "hij");
    for (const char* text : {"bc", "abcd", "xbe", "xbf", "bfg", "abfg", "xbhi", "xxbhij"}) {
        const std::string word = text;
        const size_t at = word.find('b') + 1;
        const bool crossed = word != "xbf";
        EXPECT_EQ(filter.may_merge(word, at), crossed) << word;
    }
}

}  // namespace
}  // namespace deepinfer::tokenizer
