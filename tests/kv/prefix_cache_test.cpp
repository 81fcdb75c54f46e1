#include "kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

namespace deepinfer::kv {
namespace {

BlockPool pool_of(int32_t blocks) {
    Layout layout;
    layout.add_layer(1, 16);
    return std::move(*BlockPool::create(layout, blocks));
}

// A token sequence and the keys of its full blocks.
struct Text {
    explicit Text(std::vector<TokenId> all, const BlockKey& root = {}) : tokens(std::move(all)) {
        extend_keys(root, tokens, {}, keys);
    }
    Prefix prefix() const { return {keys, tokens}; }
    std::vector<TokenId> tokens;
    std::vector<BlockKey> keys;
};

// Block b of the text is 64 times parts[b].
Text text_of(std::initializer_list<TokenId> parts) {
    std::vector<TokenId> tokens;
    for (const TokenId part : parts) tokens.insert(tokens.end(), block_tokens, part);
    return Text(tokens);
}

// Computes and publishes what is not there yet, as a sequence does; the blocks are referenced for the caller.
std::vector<BlockId> compute(PrefixCache& cache, BlockPool& pool, const Text& text, double seconds = 1) {
    std::vector<BlockId> table = cache.acquire(text.prefix(), cache.match(text.prefix()));
    for (size_t i = table.size(); i < text.keys.size(); ++i) {
        table.push_back(cache.allocate());
        const BlockId own = table.back();
        table.back() = cache.publish(text.prefix(), static_cast<int32_t>(i), table, seconds);
        if (table.back() != own) pool.release(own);
    }
    return table;
}
void release(BlockPool& pool, const std::vector<BlockId>& table) {
    for (const BlockId block : table) pool.release(block);
}

TEST(PrefixCache, FindsTheLongestPrefixInFullBlocks) {
    BlockPool pool = pool_of(16);
    PrefixCache cache(pool);
    const Text first = text_of({1, 2, 3});
    const std::vector<BlockId> table = compute(cache, pool, first);
    release(pool, table);
    EXPECT_EQ(pool.kept(), 3);
    EXPECT_EQ(cache.match(first.prefix()), 3);
    EXPECT_EQ(cache.match(text_of({1, 2, 4}).prefix()), 2);
    EXPECT_EQ(cache.match(text_of({2, 2, 3}).prefix()), 0)
        << "the same blocks after another beginning are others";
    Text longer = text_of({1, 2, 3});
    longer.tokens.push_back(7);
    EXPECT_EQ(cache.match(Text(longer.tokens).prefix()), 3);
    EXPECT_EQ(cache.unreferenced(first.prefix(), 3), 3);
    EXPECT_EQ(cache.acquire(first.prefix(), 2), (std::vector<BlockId>{table[0], table[1]}));
    EXPECT_EQ(pool.kept(), 1);
    EXPECT_EQ(cache.unreferenced(first.prefix(), 3), 1);
    EXPECT_EQ(cache.check(), "");
}

TEST(PrefixCache, WhatIsKnownIsLookedAtAgain) {
    BlockPool pool = pool_of(4);
    PrefixCache cache(pool);
    const Text text = text_of({1, 2, 3, 4});
    const std::vector<BlockId> table = compute(cache, pool, text);
    EXPECT_EQ(cache.match(text.prefix(), 1), 4);
    release(pool, table);
    pool.release(cache.allocate());  // takes the last one
    pool.release(cache.allocate());
    EXPECT_EQ(cache.match(text.prefix(), 4), 3) << "what left stays free until it is needed";
    cache.clear();
    EXPECT_EQ(cache.match(text.prefix(), 4), 0);
    EXPECT_EQ(pool.free(), 4);
}

TEST(PrefixCache, TheSameBlockComputedTwiceIsSharedAfterwards) {
    BlockPool pool = pool_of(8);
    PrefixCache cache(pool);
    const Text text = text_of({1, 2});
    std::vector<BlockId> one{cache.allocate(), cache.allocate()}, two{cache.allocate(), cache.allocate()};
    for (int32_t i = 0; i < 2; ++i)
        EXPECT_EQ(cache.publish(text.prefix(), i, one, 1), one[static_cast<size_t>(i)]);
    const BlockId shared = cache.publish(text.prefix(), 0, two, 1);
    EXPECT_EQ(shared, one[0]);
    EXPECT_EQ(pool.references(shared), 2);
    EXPECT_EQ(cache.publish(text.prefix(), 1, two, 1), two[1]) << "after a block that is not the shared one";
    EXPECT_FALSE(cache.holds(two[1]));
    pool.release(std::exchange(two[0], shared));
    EXPECT_EQ(cache.publish(text.prefix(), 1, two, 1), one[1]);
    EXPECT_EQ(cache.check(), "");
}

TEST(PrefixCache, TheCheapestEndsLeaveFirstAndUseKeepsBlocks) {
    BlockPool pool = pool_of(4);
    PrefixCache cache(pool);
    const Text cheap = text_of({1}), dear = text_of({2, 3}), used = text_of({4});
    release(pool, compute(cache, pool, cheap, 1));
    release(pool, compute(cache, pool, dear, 5));
    release(pool, compute(cache, pool, used, 1.5));
    const BlockId first = cache.allocate();
    EXPECT_EQ(cache.match(cheap.prefix()), 0) << "takes a second to compute again, the others more";
    release(pool, cache.acquire(used.prefix(), 1));  // worth 1.5 seconds from now on: more than 1 + ...
    const BlockId second = cache.allocate();
    EXPECT_EQ(cache.match(used.prefix()), 0);
    const BlockId third = cache.allocate();
    EXPECT_EQ(cache.match(dear.prefix()), 1) << "from its end";
    for (const BlockId block : {first, second, third}) pool.release(block);
    EXPECT_EQ(cache.check(), "");
    EXPECT_EQ(cache.available(), 4);
}

TEST(PrefixCache, BlocksInUseDoNotLeave) {
    BlockPool pool = pool_of(3);
    PrefixCache cache(pool);
    const Text text = text_of({1, 2, 3});
    const std::vector<BlockId> table = compute(cache, pool, text);
    EXPECT_EQ(cache.available(), 0);
    EXPECT_EQ(cache.allocate(), -1);
    pool.release(table[2]);
    EXPECT_EQ(cache.available(), 1);
    EXPECT_EQ(cache.allocate(), table[2]);
    EXPECT_EQ(cache.match(text.prefix()), 2);
}

// K22: a hash that is known to collide must not give anybody's block to anybody.
TEST(PrefixCache, EqualKeysOfOtherTokensAreNotTrusted) {
    BlockPool pool = pool_of(64);
    PrefixCache cache(pool);
    std::mt19937 random(1);
    const auto weak = [](Text& text) {  // 4 bits of the hash are left
        for (BlockKey& key : text.keys) {
            key.bytes[0] &= 15;
            std::fill(key.bytes.begin() + 1, key.bytes.end(), 0);
        }
    };
    int hits = 0, collisions = 0;
    std::map<BlockId, std::vector<TokenId>> content;
    for (int i = 0; i < 3000; ++i) {
        Text text = text_of({static_cast<TokenId>(random() % 4), static_cast<TokenId>(random() % 4),
                             static_cast<TokenId>(random() % 4)});
        weak(text);
        const int32_t hit = cache.match(text.prefix());
        std::vector<BlockId> table = cache.acquire(text.prefix(), hit);
        for (size_t b = 0; b < table.size(); ++b, ++hits)
            ASSERT_TRUE(
                std::ranges::equal(content[table[b]], std::span(text.tokens).first((b + 1) * block_tokens)));
        for (size_t b = table.size(); b < 3; ++b) {
            table.push_back(cache.allocate());
            const BlockId own = table.back();
            const BlockId held = cache.publish(text.prefix(), static_cast<int32_t>(b), table, 1);
            if (held == own && !cache.holds(own)) ++collisions;
            if (held != own) pool.release(own), table.back() = held;
            if (cache.holds(held) && held == own) {
                const auto tokens = std::span(text.tokens).first((b + 1) * block_tokens);
                content[held].assign(tokens.begin(), tokens.end());
            }
        }
        release(pool, table);
        ASSERT_EQ(pool.free() + pool.kept(), 64);
    }
    EXPECT_GT(hits, 100);
    EXPECT_GT(collisions, 100) << "else this tests nothing";
}

// Random sequences that share beginnings, in a pool that is too small for all: what is found is what was computed, and
// nothing is lost. With DEEPINFER_FULL_TESTS=1 ten million operations.
TEST(PrefixCache, RandomOperationsKeepEveryInvariant) {
    const int64_t operations = std::getenv("DEEPINFER_FULL_TESTS") ? 10'000'000 : 300'000;
    constexpr int32_t blocks = 40;
    BlockPool pool = pool_of(blocks);
    PrefixCache cache(pool);
    std::mt19937 random(7);
    std::vector<BlockKey> content(blocks);  // what each block was computed for
    struct Running {
        Text text;
        std::vector<BlockId> table;
    };
    std::vector<Running> running;
    int64_t found = 0;
    for (int64_t i = 0; i < operations; ++i) {
        const unsigned action = random() % 8;
        if (action < 3 && running.size() < 6) {
            std::vector<TokenId> tokens;
            for (unsigned b = 0, n = 1 + random() % 5; b < n; ++b)
                tokens.insert(tokens.end(), block_tokens, static_cast<TokenId>(random() % 3));
            Running r{Text(tokens), {}};
            const int32_t hit = cache.match(r.text.prefix());
            const int32_t revived = cache.unreferenced(r.text.prefix(), hit), before = cache.available();
            r.table = cache.acquire(r.text.prefix(), hit);
            ASSERT_EQ(cache.available(), before - revived);
            for (size_t b = 0; b < r.table.size(); ++b, ++found)
                ASSERT_EQ(content[static_cast<size_t>(r.table[b])], r.text.keys[b]);
            running.push_back(std::move(r));
        } else if (action < 6 && !running.empty()) {  // the next block
            Running& r = running[random() % running.size()];
            const size_t b = r.table.size();
            if (b == r.text.keys.size()) continue;
            const bool some = cache.available() > 0;
            const BlockId own = cache.allocate();
            ASSERT_EQ(own >= 0, some);
            if (own < 0) continue;
            content[static_cast<size_t>(own)] = r.text.keys[b];
            r.table.push_back(own);
            const BlockId held =
                cache.publish(r.text.prefix(), static_cast<int32_t>(b), r.table, 0.1 * double(b + 1));
            ASSERT_EQ(content[static_cast<size_t>(held)], r.text.keys[b]);
            if (held != own) pool.release(own), r.table.back() = held;
        } else if (!running.empty()) {
            const size_t which = random() % running.size();
            release(pool, running[which].table);
            running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
        }
        if (random() % 50'000 == 0) cache.clear();
        if (i % 997 == 0) {
            ASSERT_EQ(cache.check(), "") << "operation " << i;
        }
    }
    for (const Running& r : running) release(pool, r.table);
    EXPECT_EQ(cache.check(), "");
    EXPECT_EQ(cache.available(), blocks);
    EXPECT_GT(found, operations / 20);
}

}  // namespace
}  // namespace deepinfer::kv
