#include "tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace deepinfer::tokenizer {
namespace {

// The definition, as slow as it is: look for the best pair in the whole word, merge it, start again.
std::vector<TokenId> reference(const BpeModel& model, std::string_view word) {
    std::vector<TokenId> ids;
    for (const char c : word) ids.push_back(model.byte_token[uint8_t(c)]);
    for (;;) {
        const Merge* best = nullptr;
        size_t at = 0;
        for (size_t i = 0; i + 1 < ids.size(); ++i) {
            const Merge* merge = model.merges.find(BpeModel::pair_key(ids[i], ids[i + 1]));
            if (merge && (!best || merge->rank < best->rank)) best = merge, at = i;
        }
        if (!best) return ids;
        ids[at] = best->result;
        ids.erase(ids.begin() + ptrdiff_t(at) + 1);
    }
}

// Symbols a, b, c, ... and random merges of what there is so far. `tied`: several pairs share a rank.
BpeModel random_model(std::mt19937& random, int letters, int merges, bool tied) {
    BpeModel model;
    model.byte_token.fill(-1);
    for (int i = 0; i < letters; ++i) model.byte_token[size_t('a' + i)] = i;
    std::vector<std::string> strings;
    std::map<std::string, TokenId> ids;
    for (int i = 0; i < letters; ++i) strings.emplace_back(1, char('a' + i)), ids[strings.back()] = i;
    for (int rank = 0; rank < merges; ++rank) {
        const auto left = TokenId(random() % strings.size()), right = TokenId(random() % strings.size());
        const std::string joined = strings[size_t(left)] + strings[size_t(right)];
        if (joined.size() > 40 || model.merges.find(BpeModel::pair_key(left, right))) continue;
        const auto [entry, is_new] = ids.emplace(joined, TokenId(strings.size()));
        if (is_new) strings.push_back(joined);
        model.merges.set(BpeModel::pair_key(left, right), {uint32_t(tied ? rank / 3 : rank), entry->second});
    }
    model.vocabulary_size = int32_t(strings.size());
    return model;
}

TEST(Bpe, EqualsItsDefinitionForWordsOfAllLengths) {
    std::mt19937 random(1);
    for (int round = 0; round < 300; ++round) {
        const BpeModel model = random_model(random, 1 + round % 4, 40, round % 2 == 1);
        BpeEncoder encoder(model);
        for (int i = 0; i < 60; ++i) {
            std::string word;
            for (size_t n = random() % (i % 3 == 0 ? 300 : 30); n > 0; --n)
                word += char('a' + random() % size_t(1 + round % 4));
            const std::vector<TokenId> expected = reference(model, word);
            for (int again = 0; again < 2; ++again) {  // the second time from the cache, if it is short
                std::vector<TokenId> ids{-7};
                encoder.encode(word, ids);
                ids.erase(ids.begin());
                ASSERT_EQ(ids, expected) << word;
            }
        }
    }
}

TEST(Bpe, TakesAMegabyteOfOneLetterInOneWord) {
    BpeModel model;
    model.byte_token.fill(-1);
    model.byte_token['a'] = 0;
    for (int i = 0; i < 5; ++i)
        model.merges.set(BpeModel::pair_key(i, i), {uint32_t(i), i + 1});  // a, aa, ... 32 a
    model.vocabulary_size = 6;
    BpeEncoder encoder(model);
    std::vector<TokenId> ids;
    encoder.encode(std::string((1 << 20) + 5, 'a'), ids);
    ASSERT_EQ(ids.size(), (1u << 20) / 32 + 2);
    EXPECT_EQ(ids.front(), 5);
    EXPECT_EQ(ids[ids.size() - 2], 2);  // 5 = 4 + 1
    EXPECT_EQ(ids.back(), 0);
}

TEST(Bpe, FallsBackToBytesThenToUnknown) {
    BpeModel model;
    model.symbols_are_bytes = false;
    model.byte_token.fill(-1);
    model.character_symbol.set('x', 1);
    model.vocabulary_size = 300;
    model.unknown = 0;
    const auto encode = [&](std::string_view text) {
        BpeEncoder encoder(model);
        std::vector<TokenId> ids;
        encoder.encode(text, ids);
        return ids;
    };
    using Ids = std::vector<TokenId>;
    EXPECT_EQ(encode("éèxé"), (Ids{0, 0, 1, 0}));
    model.fuse_unknown = true;
    EXPECT_EQ(encode("éèxé"), (Ids{0, 1, 0}));
    model.byte_fallback = true;
    EXPECT_EQ(encode("éèxé"), (Ids{0, 1, 0}));  // there are no byte tokens
    for (int byte = 0; byte < 256; ++byte) model.byte_token[size_t(byte)] = 40 + byte;
    EXPECT_EQ(encode("éx"), (Ids{40 + 0xC3, 40 + 0xA9, 1}));
    model.byte_fallback = false;
    model.unknown.reset();
    EXPECT_EQ(encode("éxé"), (Ids{1}));
}

TEST(FlatMap, HoldsWhatWasPutIntoIt) {
    FlatMap64<int> map;
    StringMap strings;
    std::vector<std::string> keys;
    for (int i = 0; i < 5000; ++i) keys.push_back(std::to_string(i * 7919));
    for (int i = 0; i < 5000; ++i) {
        map.set(uint64_t(i) << 32 | uint64_t(i % 3), i);
        EXPECT_TRUE(strings.insert(keys[size_t(i)], i));
    }
    map.set(0, -1);
    EXPECT_FALSE(strings.insert(keys[9], 1));
    EXPECT_EQ(map.size(), 5000u);
    EXPECT_EQ(*map.find(0), -1);
    for (int i = 1; i < 5000; ++i) {
        EXPECT_EQ(*map.find(uint64_t(i) << 32 | uint64_t(i % 3)), i);
        EXPECT_EQ(map.find(uint64_t(i) << 32 | 7), nullptr);
        EXPECT_EQ(strings.find(keys[size_t(i)]), i);
    }
    EXPECT_EQ(strings.find("none"), -1);
}

}  // namespace
}  // namespace deepinfer::tokenizer
