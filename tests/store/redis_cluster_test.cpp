#include "store/redis_cluster.h"

#include "conformance.h"
#include "redis_nodes.h"
#include "store/redis_store.h"

namespace deepinfer::store {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<BlockStore> open(const std::string& url) {
    RedisStoreOptions options;
    options.address = parse_redis_url(url).value();
    options.shape = test_shape();
    return std::move(open_redis_store(options).value());
}
std::string name_of(const kv::BlockKey& key) { return "deepinfer:1:" + key.hex(); }

// Forming one takes 2 s.
RedisNodes& shared_nodes() {
    static RedisNodes nodes;
    return nodes;
}

class ClusterFixture {
  public:
    ClusterFixture() { shared_nodes().forget_blocks(), reopen(); }
    BlockStore& store() { return *store_; }
    std::unique_ptr<BlockStore> another() { return open(shared_nodes().url(1)); }
    void reopen() { store_ = open(shared_nodes().url(0)); }
    static bool move_clock(std::chrono::seconds) { return false; }

  private:
    std::unique_ptr<BlockStore> store_;
};
INSTANTIATE_TYPED_TEST_SUITE_P(RedisCluster, BlockStoreConformance, ClusterFixture);

std::vector<Get::Outcome> each(BlockStore& store, const TestBlocks& blocks, Clock::duration time = 20s) {
    std::vector<uint8_t> memory(test_shape().block_bytes);
    std::vector<Get::Outcome> outcomes;
    for (size_t i = 0; i < blocks.keys.size(); ++i) {
        Get item{blocks.keys[i], blocks.tokens_of(i), memory};
        store.get({&item, 1}, Clock::now() + time);
        EXPECT_TRUE(item.outcome != Get::Outcome::ok || memory == blocks.bytes[i]);
        outcomes.push_back(item.outcome);
    }
    return outcomes;
}

TEST(RedisCluster, BlocksLieWhereTheirSlotsAreAndTheMapIsLearnedOnce) {
    RedisNodes& nodes = shared_nodes();
    nodes.forget_blocks();
    const TestBlocks blocks(test_shape(), 1, 60);
    const auto store = open(nodes.url(0));
    EXPECT_EQ(stored(*store, blocks.puts(0, 60)), 60u);
    EXPECT_EQ(store->find(blocks.keys, soon()), 60u);
    EXPECT_EQ(stored(*store, blocks.puts(0, 1)), 0u);  // it asks for the map
    for (const kv::BlockKey& key : blocks.keys) {
        const RedisReply there = nodes.ask(nodes.owner(name_of(key)), {"EXISTS", name_of(key)});
        ASSERT_TRUE(there);
        EXPECT_EQ(there->integer, 1);
    }
    const int before = nodes.errors("MOVED");
    EXPECT_EQ(readable(*store, blocks, 0, 60), 60u);
    EXPECT_EQ(put(*store, blocks.puts(0, 60))[59], Put::Outcome::present);
    store->touch(blocks.keys, soon());
    EXPECT_EQ(nodes.errors("MOVED"), before);
}

TEST(RedisCluster, ASlotThatMigratesIsFollowed) {
    RedisNodes& nodes = shared_nodes();
    nodes.forget_blocks();
    const TestBlocks blocks(test_shape(), 2, 12);
    const auto store = open(nodes.url(0));
    EXPECT_EQ(stored(*store, blocks.puts(0, 12)), 12u);
    EXPECT_EQ(readable(*store, blocks, 0, 12), 12u);
    EXPECT_EQ(readable(*store, blocks, 0, 12), 12u);  // both connections know the map now
    EXPECT_EQ(stored(*store, blocks.puts(0, 12)), 0u);

    const std::string key = name_of(blocks.keys[5]), slot = std::to_string(slot_of_key(key));
    const size_t from = nodes.owner(key), to = (from + 1) % 3;
    const int moved = nodes.errors("MOVED"), asks = nodes.errors("ASK");
    nodes.ask(to, {"CLUSTER", "SETSLOT", slot, "IMPORTING", nodes.id(from)});
    nodes.ask(from, {"CLUSTER", "SETSLOT", slot, "MIGRATING", nodes.id(to)});
    EXPECT_EQ(readable(*store, blocks, 0, 12), 12u);  // still there
    EXPECT_EQ(nodes.errors("ASK"), asks);
    EXPECT_EQ(nodes.text(from, {"MIGRATE", "127.0.0.1", std::to_string(nodes[to].port()), key, "0", "5000"}),
              "OK");
    EXPECT_EQ(store->find(blocks.keys, soon()), 12u);
    EXPECT_EQ(readable(*store, blocks, 0, 12), 12u);
    EXPECT_EQ(put(*store, blocks.puts(0, 12))[5], Put::Outcome::present);
    EXPECT_EQ(nodes.errors("ASK"),
              asks + 4);  // each time: nothing is remembered of it; its life is renewed, too
    EXPECT_EQ(nodes.errors("MOVED"), moved);
    for (const size_t i : {to, from}) nodes.ask(i, {"CLUSTER", "SETSLOT", slot, "NODE", nodes.id(to)});
    EXPECT_EQ(readable(*store, blocks, 0, 12), 12u);
    EXPECT_EQ(nodes.errors("MOVED"), moved + 1);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(readable(*store, blocks, 0, 12), 12u);
    EXPECT_EQ(nodes.errors("MOVED"), moved + 1);
    EXPECT_EQ(nodes.errors("ASK"), asks + 4);
    // Back, for other tests.
    nodes.ask(to, {"FLUSHALL"});
    for (const size_t i : {from, to}) nodes.ask(i, {"CLUSTER", "SETSLOT", slot, "NODE", nodes.id(from)});
}

TEST(RedisCluster, ANodeThatIsKilledIsAMissForItsBlocksOnlyUntilItComesBack) {
    RedisNodes nodes;
    const TestBlocks blocks(test_shape(), 3, 30), more(test_shape(), 4, 30);
    const auto store = open(nodes.url(0));
    EXPECT_EQ(stored(*store, blocks.puts(0, 30)), 30u);
    EXPECT_EQ(readable(*store, blocks, 0, 30), 30u);
    nodes[0].kill();  // the one that the URL names
    for (int round = 0; round < 2; ++round) {
        auto begin = Clock::now();
        const auto outcomes = each(*store, blocks);
        for (size_t i = 0; i < 30; ++i)
            EXPECT_EQ(outcomes[i],
                      nodes.owner(name_of(blocks.keys[i])) == 0 ? Get::Outcome::failed : Get::Outcome::ok);
        EXPECT_LT(Clock::now() - begin, 2s);
        begin = Clock::now();
        const auto puts = put(*store, more.puts(0, 30));
        for (size_t i = 0; i < 30; ++i)
            EXPECT_EQ(puts[i], nodes.owner(name_of(more.keys[i])) == 0 ? Put::Outcome::failed
                               : round == 0                            ? Put::Outcome::stored
                                                                       : Put::Outcome::present);
        const size_t found = store->find(blocks.keys, soon());
        EXPECT_EQ(nodes.owner(name_of(blocks.keys[found])), 0u);
        store->touch(blocks.keys, soon());
        EXPECT_LT(Clock::now() - begin, 2s);
        // By now the others have noticed, too. A store that is opened in this time has to find them.
        std::this_thread::sleep_for(3500ms);
    }
    const auto late = open("redis://" + nodes.where(0) + "," + nodes.where(1));
    EXPECT_EQ(
        std::ranges::count(each(*late, more), Get::Outcome::ok),
        std::ranges::count_if(more.keys, [&](const auto& key) { return nodes.owner(name_of(key)) != 0; }));

    nodes[0].start();
    bool all = false;
    for (int tries = 0; tries < 100 && !all; ++tries, std::this_thread::sleep_for(100ms)) {
        stored(*store, more.puts(0, 30));
        all = readable(*store, more, 0, 30) == 30;
    }
    EXPECT_TRUE(all);
}

TEST(RedisCluster, AFailOverIsFollowed) {
    RedisNodes nodes({.replicas = 1});
    const TestBlocks blocks(test_shape(), 5, 30);
    const auto store = open(nodes.url(1));
    EXPECT_EQ(stored(*store, blocks.puts(0, 30)), 30u);
    EXPECT_EQ(readable(*store, blocks, 0, 30), 30u);
    EXPECT_EQ(readable(*store, blocks, 0, 30), 30u);
    nodes.wait_for_replica(0);
    nodes[0].kill();
    bool all = false;
    for (int tries = 0; tries < 600 && !all; ++tries, std::this_thread::sleep_for(100ms))
        all = readable(*store, blocks, 0, 30) == 30;
    EXPECT_TRUE(all);
    const TestBlocks more(test_shape(), 6, 30);
    put(*store, more.puts(0, 10));  // the writing connections learn it later
    std::this_thread::sleep_for(1100ms);
    EXPECT_EQ(stored(*store, more.puts(10, 20)), 20u);
}

TEST(RedisCluster, ANodeThatStallsDoesNotHoldUpTheOthers) {
    RedisNodes nodes;
    const TestBlocks blocks(test_shape(), 7, 30);
    const auto store = open(nodes.url(0));
    auto puts = blocks.puts(0, 15);
    store->put(puts, soon());
    EXPECT_EQ(readable(*store, blocks, 0, 15), 15u);
    EXPECT_EQ(stored(*store, blocks.puts(0, 15)), 0u);  // it asks for the map
    nodes[0].stop();
    auto begin = Clock::now();
    puts = blocks.puts(15, 15);
    store->put(puts, in(300ms));
    EXPECT_LT(Clock::now() - begin, 1s);
    for (const Put& put : puts)
        EXPECT_EQ(put.outcome == Put::Outcome::stored, nodes.owner(name_of(put.key)) != 0);
    begin = Clock::now();
    const size_t stalled = static_cast<size_t>(
        std::ranges::find_if(blocks.keys, [&](const auto& key) { return nodes.owner(name_of(key)) == 0; }) -
        blocks.keys.begin());
    EXPECT_GT(stalled, 0u);
    EXPECT_EQ(store->find(blocks.keys, in(200ms)), stalled);
    const auto outcomes = each(*store, blocks, 100ms);
    EXPECT_LT(Clock::now() - begin, 2s);
    for (size_t i = 0; i < 30; ++i)
        EXPECT_EQ(outcomes[i] == Get::Outcome::ok, nodes.owner(name_of(blocks.keys[i])) != 0) << i;
    nodes[0].go_on();
    bool all = false;
    for (int tries = 0; tries < 100 && !all; ++tries, std::this_thread::sleep_for(100ms)) {
        stored(*store, blocks.puts(0, 30));
        all = readable(*store, blocks, 0, 30) == 30;
    }
    EXPECT_TRUE(all);
}

TEST(RedisCluster, Passwords) {
    RedisNodes nodes({.password = "secret"});
    const TestBlocks blocks(test_shape(), 8, 20);
    EXPECT_EQ(stored(*open(nodes.url(0)), blocks.puts(0, 20)), 0u);
    EXPECT_EQ(stored(*open(nodes.url(0, ":wrong@")), blocks.puts(0, 20)), 0u);
    const auto store = open(nodes.url(0, ":secret@"));
    EXPECT_EQ(stored(*store, blocks.puts(0, 20)), 20u);
    EXPECT_EQ(readable(*open(nodes.url(2, "default:secret@")), blocks, 0, 20), 20u);
}

TEST(RedisCluster, SixthVersionOfTheInternetProtocol) {
    RedisNodes nodes({.host = "::1"});
    EXPECT_NE(nodes.text(0, {"CLUSTER", "NODES"}).find("::1"), std::string::npos);
    const TestBlocks blocks(test_shape(), 9, 20);
    const auto store = open(nodes.url(0));
    EXPECT_EQ(stored(*store, blocks.puts(0, 20)), 20u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(readable(*store, blocks, 0, 20), 20u);
}

TEST(RedisCluster, ItMayStartAndFormLaterThanTheStore) {
    RedisNodes nodes({.form = false});
    for (size_t i = 0; i < 3; ++i) nodes[i].kill();
    const TestBlocks blocks(test_shape(), 10, 20);
    const auto store = open(nodes.url(0));
    EXPECT_EQ(stored(*store, blocks.puts(0, 20)), 0u);
    for (size_t i = 0; i < 3; ++i) nodes[i].start();
    EXPECT_EQ(stored(*store, blocks.puts(0, 20)), 0u);  // serves no slot
    EXPECT_EQ(store->find(blocks.keys, soon()), 0u);
    nodes.form();
    std::this_thread::sleep_for(1100ms);
    EXPECT_EQ(stored(*store, blocks.puts(0, 20)), 20u);
    EXPECT_EQ(readable(*store, blocks, 0, 20), 20u);
}

TEST(RedisCluster, SeedsAndASocketAndDatabases) {
    RedisNodes& nodes = shared_nodes();
    nodes.forget_blocks();
    const TestBlocks blocks(test_shape(), 11, 20);
    const std::string second = nodes.where(2);
    EXPECT_EQ(stored(*open("redis://127.0.0.1:1," + second), blocks.puts(0, 20)), 20u);
    EXPECT_EQ(readable(*open("redis://127.0.0.1:1," + second + "/0"), blocks, 0, 20), 20u);
    EXPECT_EQ(readable(*open(nodes[1].socket_url()), blocks, 0, 20), 20u);
    EXPECT_EQ(readable(*open(nodes.url(1) + "/3"), blocks, 0, 20), 0u);
}

std::string array(const std::vector<std::string>& items) {
    std::string text = "*" + std::to_string(items.size()) + "\r\n";
    for (const std::string& item : items) text += item;
    return text;
}
std::string bulk(const std::string& text) {
    return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}
std::string integer(int64_t value) { return ":" + std::to_string(value) + "\r\n"; }
std::string range(int first, int last, const std::string& host, int port) {
    return array({integer(first), integer(last), array({bulk(host), integer(port), bulk("id"), array({})})});
}

TEST(RedisCluster, AMapThatIsWrongIsPutRight) {
    RedisNodes& nodes = shared_nodes();
    nodes.forget_blocks();
    const TestBlocks blocks(test_shape(), 12, 30);
    FakeRedis liar([&](const FakeRedis::Words& words) {
        if (words[0] != "CLUSTER") return std::string("-CLUSTERDOWN no\r\n");
        return array({range(0, 9000, "127.0.0.1", nodes[2].port()),  // the middle ones are nobody's
                      range(11'000, 16'383, "127.0.0.1", nodes[0].port())});
    });
    const auto store = open(liar.url() + ",127.0.0.1:1");
    EXPECT_GT(stored(*store, blocks.puts(0, 30)), 10u);  // but where the liar was asked
    EXPECT_GT(liar.count("CLUSTER"), 0);
    std::this_thread::sleep_for(1100ms);
    put(*store, blocks.puts(0, 30));
    std::vector<Put::Outcome> present(30, Put::Outcome::present);
    EXPECT_EQ(put(*store, blocks.puts(0, 30)), present);
    each(*store, blocks);
    std::this_thread::sleep_for(1100ms);
    each(*store, blocks);
    const int before = nodes.errors("MOVED");
    EXPECT_EQ(readable(*store, blocks, 0, 30), 30u);
    EXPECT_EQ(nodes.errors("MOVED"), before);
}

TEST(RedisCluster, AnEmptyHostIsTheOneThatSaidIt) {
    FakeRedis other([](const FakeRedis::Words& words) {
        return words[0] == "EXISTS" ? integer(1) : std::string("-ERR\r\n");
    });
    for (const bool map : {false, true}) {
        FakeRedis seed([&](const FakeRedis::Words& words) {
            if (words[0] != "CLUSTER")
                return map ? std::string("-ERR\r\n") : "-MOVED 1 :" + std::to_string(other.port()) + "\r\n";
            return map ? array({range(0, 16'383, "", other.port())}) : std::string("-ERR\r\n");
        });
        const TestBlocks blocks(test_shape(), 13, 2);
        const auto store = open(seed.url() + (map ? ",127.0.0.1:1" : ""));
        const auto begin = Clock::now();
        for (int i = 0; i < 20; ++i) EXPECT_EQ(store->find(blocks.keys, soon()), 2u) << map;
        EXPECT_LE(seed.count("CLUSTER"), 1 + (Clock::now() - begin) / 1s) << "once a second";
    }
}

TEST(RedisCluster, NodesThatDoNotTellTheirHost) {
    RedisNodes& nodes = shared_nodes();
    nodes.forget_blocks();
    const auto endpoint = [&](const char* type) {
        for (size_t i = 0; i < nodes.size(); ++i)
            EXPECT_EQ(nodes.text(i, {"CONFIG", "SET", "cluster-preferred-endpoint-type", type}), "OK");
    };
    endpoint("unknown-endpoint");
    const TestBlocks blocks(test_shape(), 17, 20);
    const auto store = open(nodes.url(0)), other = open(nodes[1].socket_url());
    EXPECT_EQ(stored(*store, blocks.puts(0, 20)), 20u);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(readable(*store, blocks, 0, 20), 20u);
        EXPECT_EQ(readable(*other, blocks, 0, 20), 20u);
    }
    endpoint("ip");
}

TEST(RedisCluster, RedirectionsEnd) {
    int port = 0;
    const char* kind = "MOVED";
    FakeRedis node([&](const FakeRedis::Words& words) {
        if (words[0] == "ASKING") return std::string("+OK\r\n");
        return "-" + std::string(kind) + " 7 127.0.0.1:" + std::to_string(port) + "\r\n";
    });
    port = node.port();
    const TestBlocks blocks(test_shape(), 14, 1);
    EXPECT_EQ(open(node.url())->find(blocks.keys, soon()), 0u);
    EXPECT_EQ(node.count("EXISTS"), 6);
    kind = "ASK";
    EXPECT_EQ(get(*open(node.url()), blocks, 0, 1)[0], Get::Outcome::failed);
    EXPECT_EQ(node.count("GET"), 2);
    EXPECT_EQ(node.count("ASKING"), 1);
    kind = "TRYAGAIN";
    EXPECT_EQ(put(*open(node.url()), blocks.puts(0, 1))[0], Put::Outcome::failed);
    EXPECT_EQ(node.count("SET"), 1);
}

TEST(RedisCluster, WhatIsNoReplyIsAFailureInTime) {
    const TestBlocks blocks(test_shape(), 15, 2);
    const auto hex = [](const std::string& text) { return text.substr(0, 40); };
    for (const std::string& answer :
         {std::string("rubbish\r\n"), std::string("*2147483647\r\n"), std::string("*-5\r\n"),
          std::string("$-7\r\n"), std::string("$99999999999\r\n"), std::string("-MOVED\r\n"),
          std::string("-MOVED 1 ?:1\r\n"), std::string("-ASK 99999 h:1\r\n"),
          std::string("$400000000\r\n") + std::string(40 << 20, 'x'), std::string("+"),
          array({integer(1), integer(2), integer(3)})}) {
        FakeRedis node([&](const FakeRedis::Words&) { return answer; });
        for (const char* more : {"", ",127.0.0.1:1"}) {
            const auto store = open(node.url() + more);
            const auto begin = Clock::now();
            EXPECT_EQ(store->find(blocks.keys, in(300ms)), 0u) << hex(answer);
            auto puts = blocks.puts(0, 1);
            store->put(puts, in(300ms));
            EXPECT_EQ(puts[0].outcome, Put::Outcome::failed) << hex(answer);
            EXPECT_LT(Clock::now() - begin, 2s) << hex(answer);
        }
    }
}

TEST(RedisCluster, AServerThatNeverEndsItsReplyIsGivenUp) {
    FakeRedis node([](const FakeRedis::Words&) { return "$400000000\r\n" + std::string(3 << 20, 'x'); });
    RedisConnection connection(parse_redis_url(node.url()).value(), 1, 1 << 20);
    const std::vector<RedisCommand> commands{{"GET", "a"}};
    const auto begin = Clock::now();
    EXPECT_FALSE(connection.run(commands, in(5s))[0]);
    EXPECT_LT(Clock::now() - begin, 4s);
}

// What one server does not answer, or how long it takes to connect to it, does not cost what another one replies.
TEST(RedisCluster, PipelinesAreAnsweredAtTheSameTime) {
    FakeRedis silent([](const FakeRedis::Words&) { return std::string(); });
    FakeRedis large([](const FakeRedis::Words&) { return bulk(std::string(8 << 20, 'x')); });
    RedisConnection to_silent(parse_redis_url(silent.url()).value(), 1);
    RedisConnection to_large(parse_redis_url(large.url()).value(), 1);
    const RedisCommand command{"GET", "a"};
    std::vector<RedisPipeline> pipelines(2);
    pipelines[0] = {&to_silent, {&command}, {}};
    pipelines[1] = {&to_large, {&command, &command}, {}};
    const auto begin = Clock::now();
    RedisConnection::run(pipelines, in(3s));  // 16 MiB, also under sanitizers
    EXPECT_LT(Clock::now() - begin, 5s);
    EXPECT_FALSE(pipelines[0].replies[0]);
    EXPECT_TRUE(pipelines[1].replies[1]);
}

TEST(RedisCluster, AServerThatDoesNotAcceptCostsOthersNothing) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(::bind(listener, where, size), 0);
    ASSERT_EQ(::listen(listener, 0), 0);
    ::getsockname(listener, where, &size);
    std::vector<int> fill;  // its queue; then it answers no more
    for (int i = 0; i < 4; ++i) {
        fill.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        ::connect(fill.back(), where, size);
    }
    FakeRedis good([](const FakeRedis::Words&) { return std::string("+OK\r\n"); });
    RedisAddress full;
    full.host = "127.0.0.1", full.port = ntohs(address.sin_port);
    RedisConnection to_full(full, 0.5), to_good(parse_redis_url(good.url()).value(), 1);
    ASSERT_TRUE(to_good.connect(soon()));
    const RedisCommand command{"GET", "a"};
    std::vector<RedisPipeline> pipelines(2);
    pipelines[0] = {&to_full, {&command}, {}};
    pipelines[1] = {&to_good, {&command}, {}};
    const auto begin = Clock::now();
    RedisConnection::run(pipelines, in(200ms));
    EXPECT_GT(Clock::now() - begin, 150ms);
    EXPECT_LT(Clock::now() - begin, 1s);
    EXPECT_FALSE(pipelines[0].replies[0]);
    EXPECT_TRUE(pipelines[1].replies[0]);
    for (const int fd : fill) ::close(fd);
    ::close(listener);
}

TEST(RedisCluster, AReplyTooManyIsNotTakenForTheNextOne) {
    FakeRedis node([](const FakeRedis::Words& words) { return "+" + words[1] + "\r\n+more\r\n"; });
    RedisConnection connection(parse_redis_url(node.url()).value(), 1);
    for (const char* key : {"a", "b"}) {
        const std::vector<RedisCommand> commands{{"GET", key}};
        const auto replies = connection.run(commands, in(5s));
        ASSERT_TRUE(replies[0]);
        EXPECT_STREQ(replies[0]->str, key);
    }
}

TEST(RedisCluster, AServerWithoutSlotsInItsPlace) {
    std::atomic<bool> cluster = true;
    int gone = RedisServer::free_port();
    FakeRedis seed([&](const FakeRedis::Words& words) {
        if (cluster && words[0] == "CLUSTER") return array({range(0, 16'383, "127.0.0.1", gone)});
        if (cluster) return "-MOVED 1 127.0.0.1:" + std::to_string(gone) + "\r\n";
        return words[0] == "CLUSTER" ? std::string("-ERR This instance has cluster support disabled\r\n")
                                     : integer(1);
    });
    const TestBlocks blocks(test_shape(), 16, 4);
    const auto store = open(seed.url());
    for (int i = 0; i < 2; ++i) EXPECT_EQ(store->find(blocks.keys, soon()), 0u);
    cluster = false;
    std::this_thread::sleep_for(1100ms);
    EXPECT_EQ(store->find(blocks.keys, soon()), 4u);
}

TEST(RedisSlots, KnownAnswers) {
    EXPECT_EQ(crc16("123456789"), 0x31C3);
    EXPECT_EQ(crc16(""), 0);
    EXPECT_EQ(slot_of_key("foo"), 12182);
    EXPECT_EQ(slot_of_key("{user1000}.following"), slot_of_key("user1000"));
    EXPECT_EQ(slot_of_key("{user1000}.following"), slot_of_key("{user1000}.followers"));
    EXPECT_EQ(slot_of_key("foo{}{bar}"), crc16("foo{}{bar}") % slot_count);
    EXPECT_EQ(slot_of_key("foo{{bar}}zap"), slot_of_key("{bar"));
    EXPECT_EQ(slot_of_key("foo{bar}{zap}"), slot_of_key("bar"));
    EXPECT_EQ(slot_of_key("foo{bar"), crc16("foo{bar") % slot_count);
    for (const std::string key : {"\xff\x80", "deepinfer:1:00", "{a}b", "a{b}", "}{"})
        EXPECT_EQ(shared_nodes().ask(0, {"CLUSTER", "KEYSLOT", key})->integer, slot_of_key(key)) << key;
}

TEST(RedisSlots, Redirections) {
    const auto parsed = [](const char* text) { return parse_redirection(text, "me"); };
    const auto moved = parsed("MOVED 3999 127.0.0.1:6381");
    ASSERT_TRUE(moved);
    EXPECT_FALSE(moved->ask);
    EXPECT_EQ(moved->slot, 3999);
    EXPECT_EQ(moved->node, (RedisNode{"127.0.0.1", 6381}));
    EXPECT_TRUE(parsed("ASK 0 h:1")->ask);
    EXPECT_EQ(parsed("MOVED 16383 ::1:7000")->node, (RedisNode{"::1", 7000}));
    EXPECT_EQ(parsed("MOVED 1 [fe80::1%eth0]:7000")->node, (RedisNode{"fe80::1%eth0", 7000}));
    EXPECT_EQ(parsed("MOVED 1 :7000")->node, (RedisNode{"me", 7000}));
    for (const char* wrong : {"",
                              "MOVED",
                              "MOVED ",
                              "MOVED 1",
                              "MOVED 1 ",
                              "MOVED 1 h",
                              "MOVED 1 h:",
                              "MOVED 1 h:0",
                              "MOVED 1 h:65536",
                              "MOVED 16384 h:1",
                              "MOVED -1 h:1",
                              "MOVED  1 h:1",
                              "MOVED 1 h:1 ",
                              "MOVED 1 a b:1",
                              "MOVED 1 ?:1",
                              "MOVED x h:1",
                              "ERR MOVED 1 h:1",
                              "moved 1 h:1",
                              "ASKING 1 h:1",
                              "MOVED 1 a/b:1"})
        EXPECT_FALSE(parsed(wrong)) << wrong;
    EXPECT_FALSE(parsed(("MOVED 1 " + std::string(256, 'h') + ":1").c_str()));
    EXPECT_TRUE(parsed(("MOVED 1 " + std::string(255, 'h') + ":1").c_str()));
}

std::optional<SlotMap> map_of(const std::string& text) {
    redisReader* reader = redisReaderCreate();
    redisReaderFeed(reader, text.data(), text.size());
    void* got = nullptr;
    EXPECT_EQ(redisReaderGetReply(reader, &got), REDIS_OK);
    const RedisReply reply(static_cast<redisReply*>(got));
    redisReaderFree(reader);
    return reply ? parse_slot_map(*reply, "me") : std::nullopt;
}

TEST(RedisSlots, Maps) {
    const auto map = map_of(array({range(0, 99, "a", 1), range(100, 100, "", 2), range(200, 16'383, "::1", 1),
                                   range(150, 160, "?", 1),
                                   array({integer(190), integer(191), array({"$-1\r\n", integer(3)})})}));
    ASSERT_TRUE(map);
    EXPECT_EQ(map->nodes().size(), 4u);
    EXPECT_EQ(*map->node(0), (RedisNode{"a", 1}));
    EXPECT_EQ(*map->node(99), (RedisNode{"a", 1}));
    EXPECT_EQ(*map->node(100), (RedisNode{"me", 2}));
    EXPECT_EQ(map->node(101), nullptr);
    EXPECT_EQ(map->node(155), nullptr);
    EXPECT_EQ(*map->node(191), (RedisNode{"me", 3}));
    EXPECT_EQ(*map->node(16'383), (RedisNode{"::1", 1}));
    for (const std::string& wrong :
         {array({}), integer(1), bulk("x"), array({array({})}), array({integer(1)}),
          array({range(5, 4, "a", 1)}), array({range(-1, 4, "a", 1)}), array({range(0, 16'384, "a", 1)}),
          array({range(0, 1, "a", 0)}), array({range(0, 1, "a", 65'536)}), array({range(0, 1, "a b", 1)}),
          array({range(0, 1, "?", 1)}), array({range(0, 1, std::string(256, 'h'), 1)}),
          array({range(0, 16'383, "a", 1), range(3, 3, "b", 1)}), array({array({integer(0), integer(1)})}),
          array({array({integer(0), integer(1), bulk("a")})}),
          array({array({integer(0), integer(1), array({bulk("a")})})}),
          array({array({integer(0), integer(1), array({integer(1), integer(1)})})}),
          array({array({bulk("0"), integer(1), array({bulk("a"), integer(1)})})})})
        EXPECT_FALSE(map_of(wrong)) << wrong;
    std::vector<std::string> ranges;
    for (int i = 0; i < 1024; ++i) ranges.push_back(range(i, i, "a", i + 1));
    EXPECT_TRUE(map_of(array(ranges)));
    ranges.push_back(range(2000, 2000, "a", 1025));
    EXPECT_FALSE(map_of(array(ranges)));
}

TEST(RedisSlots, Seeds) {
    const auto address = parse_redis_url("redis://me:a,b@one:1,[::1]:2,three/0").value();
    EXPECT_EQ(address.password, "a,b");
    EXPECT_EQ(address.host, "one");
    EXPECT_EQ(address.more_nodes, (std::vector<RedisNode>{{"::1", 2}, {"three", 6379}}));
    for (const char* wrong : {"redis://a,", "redis://,a", "redis://a,,b", "redis://a,b:0", "redis://a,b,/0",
                              "redis://a:1,b:1x", "redis://a,[b"})
        EXPECT_FALSE(parse_redis_url(wrong).ok()) << wrong;
    const auto database = parse_redis_url("redis://a,b/3");
    ASSERT_FALSE(database.ok());
    EXPECT_NE(database.error().message.find("database"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::store
