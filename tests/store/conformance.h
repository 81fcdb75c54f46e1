// What every store of blocks must do. A test names a fixture class with
//
//   BlockStore& store();                  // opened once
//   std::unique_ptr<BlockStore> another();  // on the same storage, at the same time
//   void reopen();                        // ends and opens it again
//   bool move_clock(std::chrono::seconds);  // false: its clock is not ours
//
// and instantiates the suite with it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "store/block_store.h"

namespace deepinfer::store {

inline BlockShape test_shape(uint8_t fingerprint = 1, uint32_t sections = 3, uint32_t section = 5000) {
    BlockShape shape;
    shape.fingerprint.bytes.fill(fingerprint);
    shape.sections.assign(sections, section);
    shape.block_bytes = sections * section;
    return shape;
}

// The blocks of a made-up sequence: everything of them follows from (sequence, index).
struct TestBlocks {
    std::vector<kv::BlockKey> keys;
    std::vector<TokenId> tokens;
    std::vector<std::vector<uint8_t>> bytes;
    kv::BlockKey root;

    TestBlocks(const BlockShape& shape, uint32_t sequence, size_t count) {
        std::mt19937 random(sequence);
        root = kv::CacheScope{shape.fingerprint, {}, {}, std::to_string(sequence)}.root();
        for (size_t i = 0; i < count * kv::block_tokens; ++i)
            tokens.push_back(static_cast<TokenId>(random() % 50'000));
        kv::extend_keys(root, tokens, {}, keys);
        for (size_t i = 0; i < count; ++i) {
            bytes.emplace_back(shape.block_bytes);
            std::mt19937 fill(sequence * 1000 + static_cast<uint32_t>(i));
            for (size_t at = 0; at + 4 <= bytes.back().size(); at += 4) {
                const uint32_t word = fill();
                std::memcpy(bytes.back().data() + at, &word, 4);
            }
        }
    }
    std::span<const TokenId> tokens_of(size_t i) const {
        return std::span(tokens).subspan(i * kv::block_tokens, kv::block_tokens);
    }
    std::vector<Put> puts(size_t first, size_t count, kv::Retention retention = kv::Retention::chat,
                          uint64_t tenant = 0, float seconds = 1) const {
        std::vector<Put> result;
        for (size_t i = first; i < first + count; ++i) {
            Put put;
            put.key = keys[i];
            put.parent = i > 0 ? keys[i - 1] : root;
            put.index = static_cast<int32_t>(i);
            std::ranges::copy(tokens_of(i), put.tokens.begin());
            put.seconds = seconds;
            put.retention = retention;
            put.tenant = tenant;
            put.bytes = bytes[i];
            result.push_back(put);
        }
        return result;
    }
};

inline Clock::time_point soon() { return Clock::now() + std::chrono::seconds(20); }

inline std::vector<Put::Outcome> put(BlockStore& store, std::vector<Put> puts) {
    store.put(puts, soon());
    std::vector<Put::Outcome> outcomes;
    for (const Put& p : puts) outcomes.push_back(p.outcome);
    return outcomes;
}
inline size_t stored(BlockStore& store, std::vector<Put> puts) {
    const auto outcomes = put(store, std::move(puts));
    return static_cast<size_t>(std::ranges::count(outcomes, Put::Outcome::stored));
}

// Reads blocks first ... first + count - 1. Bytes of those that are ok must be right.
inline std::vector<Get::Outcome> get(BlockStore& store, const TestBlocks& blocks, size_t first,
                                     size_t count) {
    std::vector<std::vector<uint8_t>> memory(count, std::vector<uint8_t>(blocks.bytes[0].size(), 0xEE));
    std::vector<Get> items;
    for (size_t i = 0; i < count; ++i)
        items.push_back({blocks.keys[first + i], blocks.tokens_of(first + i), memory[i]});
    store.get(items, soon());
    std::vector<Get::Outcome> outcomes;
    for (size_t i = 0; i < count; ++i) {
        outcomes.push_back(items[i].outcome);
        if (items[i].outcome == Get::Outcome::ok) {
            EXPECT_TRUE(memory[i] == blocks.bytes[first + i]) << "wrong bytes of block " << first + i;
        }
    }
    return outcomes;
}
inline size_t readable(BlockStore& store, const TestBlocks& blocks, size_t first, size_t count) {
    const auto outcomes = get(store, blocks, first, count);
    return static_cast<size_t>(std::ranges::count(outcomes, Get::Outcome::ok));
}

template <class Fixture>
class BlockStoreConformance : public ::testing::Test {
  protected:
    Fixture fixture;
};
TYPED_TEST_SUITE_P(BlockStoreConformance);

TYPED_TEST_P(BlockStoreConformance, WhatWasPutIsFoundAndRead) {
    BlockStore& store = this->fixture.store();
    const TestBlocks blocks(test_shape(), 1, 40);
    EXPECT_EQ(store.find(blocks.keys, soon()), 0u);
    EXPECT_EQ(stored(store, blocks.puts(0, 40)), 40u);
    EXPECT_EQ(store.find(blocks.keys, soon()), 40u);
    EXPECT_EQ(readable(store, blocks, 0, 40), 40u);
    EXPECT_EQ(readable(store, blocks, 7, 3), 3u);
    EXPECT_FALSE(store.name().empty());
    const StoreStats stats = store.stats();
    EXPECT_EQ(stats.stored_total, 40u);
    EXPECT_EQ(stats.read_total, 43u);
    EXPECT_EQ(stats.read_bytes_total, 43u * test_shape().block_bytes);
}

TYPED_TEST_P(BlockStoreConformance, ThePrefixEndsWhereABlockIsMissing) {
    BlockStore& store = this->fixture.store();
    const TestBlocks blocks(test_shape(), 2, 10);
    stored(store, blocks.puts(0, 4));
    stored(store, blocks.puts(5, 5));
    EXPECT_EQ(store.find(blocks.keys, soon()), 4u);
    const auto outcomes = get(store, blocks, 0, 10);
    EXPECT_EQ(std::ranges::count(outcomes, Get::Outcome::ok), 4);
    EXPECT_EQ(outcomes[4], Get::Outcome::missing);
    EXPECT_EQ(outcomes[5], Get::Outcome::late);
    EXPECT_EQ(store.find(std::span(blocks.keys).subspan(5), soon()), 5u);
    EXPECT_EQ(store.stats().missing_total, 1u);
}

TYPED_TEST_P(BlockStoreConformance, ABlockIsStoredOnce) {
    BlockStore& store = this->fixture.store();
    const TestBlocks blocks(test_shape(), 3, 3);
    EXPECT_EQ(stored(store, blocks.puts(0, 3)), 3u);
    for (const Put::Outcome outcome : put(store, blocks.puts(0, 3)))
        EXPECT_EQ(outcome, Put::Outcome::present);
    EXPECT_EQ(store.stats().stored_total, 3u);
    EXPECT_EQ(store.stats().not_stored_total, 0u);
    EXPECT_EQ(readable(store, blocks, 0, 3), 3u);
}

// Equal keys of other tokens, as after a collision of hashes.
TYPED_TEST_P(BlockStoreConformance, AKeyWithOtherTokensIsDamagedAndForgotten) {
    BlockStore& store = this->fixture.store();
    TestBlocks blocks(test_shape(), 4, 2);
    stored(store, blocks.puts(0, 2));
    blocks.tokens[kv::block_tokens + 5] ^= 1;
    const auto outcomes = get(store, blocks, 0, 2);
    EXPECT_EQ(outcomes[0], Get::Outcome::ok);
    EXPECT_EQ(outcomes[1], Get::Outcome::damaged);
    EXPECT_EQ(store.find(blocks.keys, soon()), 1u);
    EXPECT_EQ(store.stats().damaged_total, 1u);
}

TYPED_TEST_P(BlockStoreConformance, AfterTheDeadlineNothingIsDone) {
    BlockStore& store = this->fixture.store();
    const TestBlocks blocks(test_shape(), 5, 2);
    auto puts = blocks.puts(0, 2);
    store.put(puts, Clock::now() - std::chrono::seconds(1));
    for (const Put& p : puts) EXPECT_EQ(p.outcome, Put::Outcome::late);
    stored(store, blocks.puts(0, 2));
    std::vector<uint8_t> memory(test_shape().block_bytes);
    Get item{blocks.keys[0], blocks.tokens_of(0), memory};
    store.get({&item, 1}, Clock::now() - std::chrono::seconds(1));
    EXPECT_EQ(item.outcome, Get::Outcome::late);
}

TYPED_TEST_P(BlockStoreConformance, AnotherOneOnTheSameStorageSeesWhatIsStored) {
    BlockStore& store = this->fixture.store();
    const TestBlocks blocks(test_shape(), 6, 6);
    const auto other = this->fixture.another();
    EXPECT_EQ(other->find(blocks.keys, soon()), 0u);
    EXPECT_EQ(stored(store, blocks.puts(0, 3)), 3u);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // it looks once a second
    EXPECT_EQ(other->find(blocks.keys, soon()), 3u);
    EXPECT_EQ(readable(*other, blocks, 0, 3), 3u);
    EXPECT_EQ(stored(*other, blocks.puts(3, 3)), 3u);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    EXPECT_EQ(store.find(blocks.keys, soon()), 6u);
    EXPECT_EQ(readable(store, blocks, 0, 6), 6u);
}

TYPED_TEST_P(BlockStoreConformance, ItIsThereAfterARestart) {
    const TestBlocks blocks(test_shape(), 7, 50);
    EXPECT_EQ(stored(this->fixture.store(), blocks.puts(0, 30)), 30u);
    this->fixture.reopen();
    EXPECT_EQ(this->fixture.store().find(blocks.keys, soon()), 30u);
    EXPECT_EQ(readable(this->fixture.store(), blocks, 0, 30), 30u);
    EXPECT_EQ(stored(this->fixture.store(), blocks.puts(30, 20)), 20u);
    this->fixture.reopen();
    EXPECT_EQ(readable(this->fixture.store(), blocks, 0, 50), 50u);
}

TYPED_TEST_P(BlockStoreConformance, ClassesExpireAndUseRenewsThem) {
    const TestBlocks agent(test_shape(), 8, 2), chat(test_shape(), 9, 2), used(test_shape(), 10, 2);
    using std::chrono::hours;
    if (!this->fixture.move_clock(hours(0))) GTEST_SKIP() << "its clock is not ours";
    stored(this->fixture.store(), agent.puts(0, 2, kv::Retention::agent));
    stored(this->fixture.store(), chat.puts(0, 2, kv::Retention::chat));
    this->fixture.reopen();  // what is used lies in another segment
    stored(this->fixture.store(), used.puts(0, 2, kv::Retention::agent));
    this->fixture.reopen();
    this->fixture.move_clock(hours(2 * 24));
    this->fixture.store().touch(used.keys, soon());
    this->fixture.move_clock(hours(2 * 24));  // day 4
    this->fixture.reopen();
    EXPECT_EQ(this->fixture.store().find(agent.keys, soon()), 0u);
    EXPECT_EQ(this->fixture.store().find(chat.keys, soon()), 2u);
    EXPECT_EQ(this->fixture.store().find(used.keys, soon()), 2u);
    this->fixture.move_clock(hours(4 * 24));
    this->fixture.reopen();
    EXPECT_EQ(this->fixture.store().find(chat.keys, soon()), 0u);
    EXPECT_EQ(this->fixture.store().find(used.keys, soon()), 0u);
}

// One thread reads while another writes, as the engine's two do.
TYPED_TEST_P(BlockStoreConformance, AReaderAndAWriterAtTheSameTime) {
    BlockStore& store = this->fixture.store();
    std::vector<TestBlocks> sequences;
    for (uint32_t s = 0; s < 20; ++s) sequences.emplace_back(test_shape(), 100 + s, 8);
    std::thread writer([&] {
        for (const TestBlocks& blocks : sequences)
            for (size_t i = 0; i < 8; i += 2) EXPECT_EQ(stored(store, blocks.puts(i, 2)), 2u);
    });
    for (const TestBlocks& blocks : sequences) {
        size_t found = 0;
        for (int tries = 0; found < 8 && tries < 20'000; ++tries) {
            found = store.find(blocks.keys, soon());
            EXPECT_GE(readable(store, blocks, 0, std::max<size_t>(found, 1)), found);
            store.touch(std::span(blocks.keys).first(found), soon());
            (void)store.stats();
            if (found < 8) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        EXPECT_EQ(found, 8u);
    }
    writer.join();
}

REGISTER_TYPED_TEST_SUITE_P(BlockStoreConformance, WhatWasPutIsFoundAndRead,
                            ThePrefixEndsWhereABlockIsMissing, ABlockIsStoredOnce,
                            AKeyWithOtherTokensIsDamagedAndForgotten, AfterTheDeadlineNothingIsDone,
                            AnotherOneOnTheSameStorageSeesWhatIsStored, ItIsThereAfterARestart,
                            ClassesExpireAndUseRenewsThem, AReaderAndAWriterAtTheSameTime);

}  // namespace deepinfer::store
