#include "store/redis_store.h"

#include <hiredis/hiredis.h>

#include "conformance.h"
#include "redis_server.h"
#include "store/redis_connection.h"

namespace deepinfer::store {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<BlockStore> open(const std::string& url, const BlockShape& shape = test_shape()) {
    RedisStoreOptions options;
    options.address = parse_redis_url(url).value();
    options.shape = shape;
    return std::move(open_redis_store(options).value());
}

template <bool Socket>
class RedisFixture {
  public:
    RedisFixture() { reopen(); }
    BlockStore& store() { return *store_; }
    std::unique_ptr<BlockStore> another() { return open(url()); }
    void reopen() { store_ = open(url()); }
    static bool move_clock(std::chrono::seconds) { return false; }

  private:
    std::string url() const { return Socket ? server_.socket_url() : server_.url(); }
    RedisServer server_;
    std::unique_ptr<BlockStore> store_;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Redis, BlockStoreConformance, RedisFixture<false>);
INSTANTIATE_TYPED_TEST_SUITE_P(RedisSocket, BlockStoreConformance, RedisFixture<true>);

TEST(RedisStore, Addresses) {
    const auto parsed = [](const std::string& url) { return parse_redis_url(url).value(); };
    EXPECT_EQ(parsed("redis://host").port, 6379);
    EXPECT_EQ(parsed("redis://host:7000/3").port, 7000);
    EXPECT_EQ(parsed("redis://host:7000/3").database, 3);
    EXPECT_EQ(parsed("redis://[::1]:7000").host, "::1");
    EXPECT_EQ(parsed("redis://:secret@host").password, "secret");
    EXPECT_EQ(parsed("redis://me:se:c@ret@host").password, "se:c@ret");
    EXPECT_EQ(parsed("redis://me:x@host").user, "me");
    EXPECT_EQ(parsed("valkey://a%40b:s3%3Ac%2f%25@host:1").password, "s3:c/%");
    EXPECT_EQ(parsed("valkey://a%40b:s3%3Ac%2f%25@host:1").user, "a@b");
    EXPECT_EQ(parsed("unix:///run/redis.sock").path, "/run/redis.sock");
    for (const char* wrong :
         {"", "host", "http://host", "redis://", "redis://:6379", "redis://host:", "redis://host:0",
          "redis://host:65536", "redis://host:1x", "redis://host/x", "redis://host/-1", "redis://[::1",
          "redis://me@host", "redis://:a%@host", "redis://:a%2@host", "redis://:a%zz@host",
          "redis://:a%00@host", "unix://relative", "redis://[]:1"})
        EXPECT_FALSE(parse_redis_url(wrong).ok()) << wrong;
    EXPECT_EQ(parse_redis_url("rediss://host").error().code, ErrorCode::unsupported);
    EXPECT_EQ(parse_redis_url("redis://me:secret@host:x").error().message.find("secret"), std::string::npos);
    EXPECT_FALSE(parse_redis_url("redis://" + std::string(2000, 'h')).ok());
}

TEST(RedisStore, AServerThatIsDownIsAMissAndItsReturnIsNoticed) {
    RedisServer server;
    const auto store = open(server.url());
    const TestBlocks blocks(test_shape(), 1, 6);
    EXPECT_EQ(stored(*store, blocks.puts(0, 3)), 3u);
    server.kill();
    EXPECT_EQ(store->find(blocks.keys, soon()), 0u);
    EXPECT_EQ(readable(*store, blocks, 0, 3), 0u);
    EXPECT_EQ(stored(*store, blocks.puts(3, 3)), 0u);
    store->touch(blocks.keys, soon());
    EXPECT_GT(store->stats().failed_total, 0u);
    EXPECT_GT(store->stats().not_stored_total, 0u);
    server.start();
    std::this_thread::sleep_for(1100ms);
    EXPECT_EQ(stored(*store, blocks.puts(0, 6)), 6u);
    EXPECT_EQ(readable(*store, blocks, 0, 6), 6u);
}

TEST(RedisStore, AServerThatIsNotThereAtTheStart) {
    const auto store = open("redis://127.0.0.1:1");
    const TestBlocks blocks(test_shape(), 1, 2);
    const auto begin = Clock::now();
    for (int i = 0; i < 50; ++i) EXPECT_EQ(store->find(blocks.keys, soon()), 0u);
    EXPECT_LT(Clock::now() - begin, 5s);
}

TEST(RedisStore, AServerThatStallsHoldsNobodyUpForLong) {
    RedisServer server;
    const auto store = open(server.url());
    const TestBlocks blocks(test_shape(), 1, 3);
    EXPECT_EQ(stored(*store, blocks.puts(0, 3)), 3u);
    server.stop();
    const auto begin = Clock::now();
    EXPECT_EQ(store->find(blocks.keys, Clock::now() + 100ms), 0u);
    std::vector<uint8_t> memory(test_shape().block_bytes);
    Get item{blocks.keys[0], blocks.tokens_of(0), memory};
    store->get({&item, 1}, Clock::now() + 100ms);
    EXPECT_NE(item.outcome, Get::Outcome::ok);
    auto puts = blocks.puts(0, 3);
    store->put(puts, Clock::now() + 100ms);
    EXPECT_LT(Clock::now() - begin, 3s);
    server.go_on();
    std::this_thread::sleep_for(1100ms);
    EXPECT_EQ(readable(*store, blocks, 0, 3), 3u);
}

TEST(RedisStore, AFullServerStoresNoMore) {
    RedisServer server({"--maxmemory", "3mb", "--maxmemory-policy", "noeviction"});
    const auto store = open(server.url());
    const TestBlocks blocks(test_shape(), 1, 200);
    const auto outcomes = put(*store, blocks.puts(0, 200));
    EXPECT_GT(std::ranges::count(outcomes, Put::Outcome::no_room), 0);
    EXPECT_GT(std::ranges::count(outcomes, Put::Outcome::stored), 0);
    const size_t found = store->find(blocks.keys, soon());
    EXPECT_EQ(readable(*store, blocks, 0, 200), found);
}

TEST(RedisStore, WhatTheServerEvictsIsAMiss) {
    RedisServer server({"--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru"});
    const auto store = open(server.url());
    const TestBlocks blocks(test_shape(), 1, 200);
    EXPECT_EQ(stored(*store, blocks.puts(0, 200)), 200u);
    EXPECT_LT(store->find(blocks.keys, soon()), 200u);
    for (size_t i = 0; i < 200; ++i) {
        const size_t found = store->find({&blocks.keys[i], 1}, soon());
        EXPECT_EQ(readable(*store, blocks, i, 1), found);
    }
}

TEST(RedisStore, PasswordsAndDatabases) {
    RedisServer server({"--requirepass", "secret"});
    const TestBlocks blocks(test_shape(), 1, 2);
    EXPECT_EQ(stored(*open(server.url()), blocks.puts(0, 2)), 0u);
    const auto refused = open(server.url(":wrong@"));
    EXPECT_EQ(stored(*refused, blocks.puts(0, 2)), 0u);
    EXPECT_NE(refused->stats().problem.find("WRONGPASS"), std::string::npos) << refused->stats().problem;
    EXPECT_EQ(refused->find(blocks.keys, soon()), 0u);
    EXPECT_EQ(refused->stats().failed_total, 1u);
    EXPECT_EQ(stored(*open(server.url(":secret@")), blocks.puts(0, 2)), 2u);
    EXPECT_EQ(stored(*open(server.url("default:secret@")), blocks.puts(0, 2)), 0u);  // are there
    EXPECT_EQ(open(server.url(":secret@") + "/5")->find(blocks.keys, soon()), 0u);
}

TEST(RedisStore, OtherModelsAndDamagedValues) {
    RedisServer server;
    const TestBlocks blocks(test_shape(), 1, 3);
    const auto store = open(server.url());
    EXPECT_EQ(stored(*store, blocks.puts(0, 3)), 3u);
    // The same key in a model of another shape: not believed.
    EXPECT_EQ(readable(*open(server.url(), test_shape(2)), blocks, 0, 1), 0u);
    EXPECT_EQ(stored(*store, blocks.puts(0, 1)), 1u);  // so it was deleted
    RedisConnection direct(parse_redis_url(server.url()).value(), 1);
    const std::string name = "deepinfer:1:" + blocks.keys[1].hex();
    for (const char* at : {"0", "100", "200", "360", "5000", "15000"}) {
        const std::vector<std::vector<std::string_view>> change{{"SETRANGE", name, at, "\x55\xaa"}};
        ASSERT_TRUE(direct.run(change, soon())[0]);
        const auto outcomes = get(*store, blocks, 0, 3);
        EXPECT_EQ(outcomes[1], Get::Outcome::damaged) << at;
        EXPECT_EQ(store->find(blocks.keys, soon()), 1u);
        EXPECT_EQ(stored(*store, blocks.puts(1, 1)), 1u);
    }
    const std::vector<std::vector<std::string_view>> life{{"TTL", name}, {"SET", name, "short"}};
    const auto replies = direct.run(life, soon());
    EXPECT_NEAR(static_cast<double>(replies[0]->integer), 7 * 24 * 3600, 60);
    EXPECT_EQ(get(*store, blocks, 1, 1)[0], Get::Outcome::damaged);
}

// A block that is read, or computed again, lives on: also if another process wrote it, days ago.
TEST(RedisStore, UseRenews) {
    const RedisServer server;
    const TestBlocks blocks(test_shape(), 9, 3);
    stored(*open(server.url()), blocks.puts(0, 3));
    RedisConnection direct(parse_redis_url(server.url()).value(), 1);
    const auto name = [&](size_t i) { return "deepinfer:1:" + blocks.keys[i].hex(); };
    const auto life = [&](size_t i) {
        const std::string key = name(i);
        const std::vector<std::vector<std::string_view>> ask{{"TTL", key}};
        return direct.run(ask, soon())[0]->integer;
    };
    const auto age = [&] {
        for (size_t i = 0; i < 3; ++i) {
            const std::string key = name(i);
            const std::vector<std::vector<std::string_view>> change{{"EXPIRE", key, "100"}};
            direct.run(change, soon());
        }
    };
    constexpr int64_t day = 24 * 3600;
    age();
    const auto store = open(server.url());
    EXPECT_EQ(readable(*store, blocks, 0, 1), 1u);
    store->touch(blocks.keys, soon());
    EXPECT_GT(life(0), 6 * day);
    EXPECT_LE(life(1), 100);  // not read
    EXPECT_EQ(put(*store, blocks.puts(1, 1))[0], Put::Outcome::present);
    EXPECT_GT(life(1), 6 * day);
    // Of another class: the longer life stays.
    EXPECT_EQ(put(*store, blocks.puts(1, 1, kv::Retention::agent))[0], Put::Outcome::present);
    EXPECT_GT(life(1), 6 * day);
    age();
    EXPECT_EQ(put(*store, blocks.puts(2, 1, kv::Retention::agent))[0], Put::Outcome::present);
    EXPECT_GT(life(2), 2 * day);
    EXPECT_LT(life(2), 4 * day);
}

}  // namespace
}  // namespace deepinfer::store
