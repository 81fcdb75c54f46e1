#include "kv/block_key.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "kv/layout.h"

namespace deepinfer::kv {
namespace {

TEST(BlockKey, DependsOnEverything) {
    std::vector<TokenId> tokens(block_tokens, 5), other = tokens;
    other[63] = 6;
    const BlockKey root = CacheScope{}.root();
    const BlockKey key = block_key(root, 0, tokens);
    std::set<BlockKey> keys{root,
                            key,
                            block_key(key, 0, tokens),
                            block_key(root, 1, tokens),
                            block_key(root, 0, other),
                            block_key(root, 0, std::span(tokens).first(63))};
    PromptContent image{.first = 10, .tokens = 20};
    keys.insert(block_key(root, 0, tokens, {&image, 1}));
    image.digest[31] = 1;
    keys.insert(block_key(root, 0, tokens, {&image, 1}));
    image.first = 11;
    keys.insert(block_key(root, 0, tokens, {&image, 1}));
    EXPECT_EQ(keys.size(), 9u);
    image.first = block_tokens;
    EXPECT_EQ(block_key(root, 0, tokens, {&image, 1}), key) << "an image of the next block";
    EXPECT_EQ(block_key(root, 0, tokens), key);
}

// The key of an earlier build must be the key of a later one, or caches are lost: SHA-256 of the bytes that the header
// describes, computed with Python's hashlib.
TEST(BlockKey, StaysWhatItIs) {
    EXPECT_EQ(CacheScope{}.root().hex(), "c8aa9b5795e0be8a30767b99911bf92f");
    std::vector<TokenId> tokens(block_tokens);
    for (int i = 0; i < block_tokens; ++i) tokens[static_cast<size_t>(i)] = i * 1000;
    EXPECT_EQ(block_key(BlockKey{}, 3, tokens).hex(), "289c8bbf4c329d358ccf8c8905805472");
}

TEST(BlockKey, ExtendsAChain) {
    std::vector<TokenId> tokens(3 * block_tokens + 5);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i);
    const BlockKey root = CacheScope{}.root();
    std::vector<BlockKey> whole, grown;
    extend_keys(root, tokens, {}, whole);
    ASSERT_EQ(whole.size(), 3u);
    for (size_t n = 0; n <= tokens.size(); ++n) extend_keys(root, std::span(tokens).first(n), {}, grown);
    EXPECT_EQ(grown, whole);
}

// Values must not be able to move from one field into another.
// K20: an adapter is never taken for a salt, nor one field for the end of another.
TEST(BlockKey, FieldsOfTheScopeDoNotMix) {
    std::mt19937 random(1);
    const auto word = [&] {
        std::string text;
        for (unsigned i = 0, n = random() % 6; i < n; ++i) text += static_cast<char>(random() % 3);
        return text;
    };
    for (int i = 0; i < 250'000; ++i) {
        const CacheScope a{.fingerprint = {}, .adapter = word(), .tenant = word(), .salt = word()},
            b{.fingerprint = {}, .adapter = word(), .tenant = word(), .salt = word()};
        const bool same = a.adapter == b.adapter && a.tenant == b.tenant && a.salt == b.salt;
        ASSERT_EQ(a.root() == b.root(), same);
        const std::string x = word();
        if (x.empty()) continue;
        ASSERT_NE((CacheScope{.fingerprint = {}, .adapter = x, .tenant = {}, .salt = {}}.root()),
                  (CacheScope{.fingerprint = {}, .adapter = {}, .tenant = {}, .salt = x}.root()));
    }
    EXPECT_NE(Fingerprint().add("a", "bc").digest(), Fingerprint().add("ab", "c").digest());
    EXPECT_NE(Fingerprint().add("a", "b").add("c", "d").digest(),
              Fingerprint().add("a", "bc").add("", "d").digest());
}

}  // namespace
}  // namespace deepinfer::kv
