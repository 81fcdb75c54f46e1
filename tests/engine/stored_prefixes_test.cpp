// What the engine does with stores behind its pool: blocks outlive it, answers never depend on what a store does.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "support/engine_bench.h"
#include "support/map_store.h"

namespace deepinfer::engine {
namespace {

using namespace std::chrono_literals;
using store::MapStore;
using store::MapStoreContents;
using testing::EngineBench;
using testing::Record;
using testing::Times;

constexpr int32_t block = kv::block_tokens;

// One after the other.
Stores stores_of(const std::vector<std::shared_ptr<MapStoreContents>>& contents) {
    Stores stores;
    for (const auto& c : contents)
        stores.push_back(std::make_unique<MapStore>(c, "map" + std::to_string(stores.size())));
    return stores;
}

// Computing takes 1 ms a token, as it believes.
std::unique_ptr<EngineBench> make_bench(const std::vector<std::shared_ptr<MapStoreContents>>& contents,
                                        int32_t blocks = 100, EngineOptions options = {},
                                        std::chrono::microseconds per_step = {}) {
    return std::make_unique<EngineBench>(blocks, std::move(options), per_step,
                                         std::make_unique<Times>(0.0, 0.001), nullptr, stores_of(contents));
}

Request prompt_of(int32_t tokens, unsigned seed, int32_t answer = 4) {
    std::mt19937 random(seed);
    Request request;
    for (int32_t i = 0; i < tokens; ++i) request.prompt.push_back(static_cast<TokenId>(random() % 64));
    request.sampling.max_tokens = answer;
    request.sampling.ignore_eos = true;
    return request;
}

// Runs it, compares the answer with what it must be, and returns how it ended.
Finish run(EngineBench& bench, const Request& request) {
    Record record(1);
    EXPECT_TRUE(bench.engine->submit(request, record.listener()).ok());
    EXPECT_TRUE(record.wait());
    const auto want = bench.model.answer(request, 0, {}, bench.engine->context_length());
    EXPECT_EQ(record.tokens[0].size(), want.tokens.size());
    for (size_t i = 0; i < std::min(record.tokens[0].size(), want.tokens.size()); ++i)
        EXPECT_EQ(record.tokens[0][i].token, want.tokens[i].token) << i;
    return *record.ends[0];
}

int32_t missed(Finish end, CacheMiss why) { return of(end.misses, why); }

TEST(StoredPrefixes, ANewEngineFindsWhatAnEarlierOneComputedPromptAndAnswer) {
    auto contents = std::make_shared<MapStoreContents>();
    Request request = prompt_of(10 * block + 5, 1, 3 * block);
    {
        const auto bench = make_bench({contents});
        EXPECT_EQ(run(*bench, request).cached_tokens, 0);
        // The next turn: all of this one, and more.
        for (const SampledToken& t : bench->model.answer(request, 0, {}, 4096).tokens)
            request.prompt.push_back(t.token);
        request.prompt.push_back(1);
    }
    EXPECT_EQ(contents->blocks.size(), 13u);  // the last token drawn was never computed
    const auto bench = make_bench({contents});
    const Finish end = run(*bench, request);
    EXPECT_EQ(end.cached_tokens, 13 * block);
    EXPECT_EQ(end.loaded_tokens[0], 13 * block);
    const Finish again = run(*bench, request);  // now from the pool
    EXPECT_EQ(again.cached_tokens, 13 * block);
    EXPECT_EQ(again.loaded_tokens[0], 0);
    const EngineStats stats = bench->engine->stats();
    ASSERT_EQ(stats.tiers.size(), 1u);
    EXPECT_EQ(stats.tiers[0].hits_total, static_cast<uint64_t>(13 * block));
    EXPECT_GT(contents->touches, 0);
    EXPECT_TRUE(bench->quiet());
}

TEST(StoredPrefixes, OtherTenantsSaltsAndFingerprintsFindNothing) {
    auto contents = std::make_shared<MapStoreContents>();
    Request request = prompt_of(5 * block, 2);
    request.tenant = "a";
    run(*make_bench({contents}), request);
    EngineOptions other;
    other.fingerprint.bytes[3] = 1;
    EXPECT_EQ(run(*make_bench({contents}, 100, other), request).cached_tokens, 0);
    request.cache_salt = "x";
    EXPECT_EQ(run(*make_bench({contents}), request).cached_tokens, 0);
    request.cache_salt = "";
    request.tenant = "b";
    EXPECT_EQ(run(*make_bench({contents}), request).cached_tokens, 0);
    request.tenant = "a";
    EXPECT_EQ(run(*make_bench({contents}), request).cached_tokens, 4 * block);
    EngineOptions sharing;
    sharing.share_between_tenants = true;
    run(*make_bench({contents}, 100, sharing), request);
    request.tenant = "b";
    EXPECT_EQ(run(*make_bench({contents}, 100, sharing), request).cached_tokens, 4 * block);
}

TEST(StoredPrefixes, RetentionNoneIsNotStored) {
    auto contents = std::make_shared<MapStoreContents>();
    Request request = prompt_of(5 * block, 3);
    request.retention = Retention::none;
    const auto bench = make_bench({contents});
    run(*bench, request);
    EXPECT_EQ(run(*bench, request).cached_tokens, 4 * block);  // from the pool
    EXPECT_EQ(contents->puts, 0);
}

TEST(StoredPrefixes, ADamagedOrUnreadableBlockEndsTheHitBeforeIt) {
    for (const bool damage : {false, true}) {
        auto contents = std::make_shared<MapStoreContents>();
        const Request request = prompt_of(20 * block + 1, 4);
        run(*make_bench({contents}), request);
        (damage ? contents->damage_gets : contents->fail_gets) = 200;
        const auto bench = make_bench({contents});
        const Finish end = run(*bench, request);
        EXPECT_LT(end.cached_tokens, 20 * block);
        EXPECT_EQ(end.cached_tokens % block, 0);
        EXPECT_EQ(bench->engine->stats().cache_loads_failed_total, 1u);
        EXPECT_EQ(missed(end, CacheMiss::failed), 20 * block - end.cached_tokens);
        EXPECT_EQ(missed(end, CacheMiss::tail), 1);
        EXPECT_TRUE(bench->quiet());
    }
}

TEST(StoredPrefixes, ALoadThatIsLateIsCutOffAndTheRestIsComputed) {
    auto contents = std::make_shared<MapStoreContents>();
    const Request request = prompt_of(20 * block + 1, 5);
    run(*make_bench({contents}), request);
    contents->delay_us = 40'000;  // a block; computing all takes 1.3 s, half of it is the deadline
    const auto bench = make_bench({contents});
    const auto begin = Clock::now();
    const Finish end = run(*bench, request);
    EXPECT_LT(Clock::now() - begin, 5s);
    EXPECT_GT(end.cached_tokens, 0);
    EXPECT_LT(end.cached_tokens, 20 * block);
    EXPECT_EQ(bench->engine->stats().cache_loads_late_total, 1u);
    EXPECT_EQ(missed(end, CacheMiss::late), 20 * block - end.cached_tokens);
    EXPECT_TRUE(bench->quiet());
}

TEST(StoredPrefixes, ASlowStoreIsNotAskedWhenComputingIsQuicker) {
    auto contents = std::make_shared<MapStoreContents>();
    std::vector<Request> requests;
    for (unsigned i = 0; i < 12; ++i) requests.push_back(prompt_of(4 * block + 1, 100 + i));
    {
        const auto bench = make_bench({contents});
        for (const Request& request : requests) run(*bench, request);
    }
    contents->delay_us = 60'000;  // a block, which takes 64 ms to compute
    const auto bench = make_bench({contents});
    int32_t not_worth = 0;
    for (const Request& request : requests) not_worth += missed(run(*bench, request), CacheMiss::not_worth);
    const uint64_t loads = bench->engine->stats().cache_loads_not_worth_total;
    EXPECT_GT(loads, 0u);
    EXPECT_EQ(not_worth, static_cast<int32_t>(loads) * 4 * block);
}

// A store that stalled once is not given up for ever: as often as it is not asked, it is believed to be quicker.
TEST(StoredPrefixes, ASlowStoreIsTriedAgain) {
    auto contents = std::make_shared<MapStoreContents>();
    std::vector<Request> requests;
    for (unsigned i = 0; i < 40; ++i) requests.push_back(prompt_of(4 * block + 1, 100 + i));
    {
        const auto bench = make_bench({contents}, 400);
        for (const Request& request : requests) run(*bench, request);
    }
    contents->delay_us = 150'000;  // a block, which takes 64 ms to compute
    const auto bench = make_bench({contents}, 400);
    run(*bench, requests[0]);
    contents->delay_us = 0;
    EXPECT_EQ(missed(run(*bench, requests[1]), CacheMiss::not_worth), 4 * block);
    size_t tried = 2;
    while (tried < 40 && run(*bench, requests[tried]).cached_tokens == 0) ++tried;
    EXPECT_GT(tried, 3u);
    EXPECT_LT(tried, 30u);
    int32_t cached = 0;
    for (size_t i = 30; i < 40; ++i) cached += run(*bench, requests[i]).cached_tokens;
    EXPECT_GT(cached, 5 * 4 * block);
}

// Of what the near store has and the far one continues, the part that is worth loading.
TEST(StoredPrefixes, WhatANearStoreHasIsLoadedThoughTheFarOneIsTooSlow) {
    auto near = std::make_shared<MapStoreContents>(), far = std::make_shared<MapStoreContents>();
    const auto all = prompt_of(12 * block + 1, 200), other = prompt_of(4 * block + 1, 201);
    Request half = all;
    half.prompt.resize(6 * block + 1);
    run(*make_bench({near}), half);
    {
        const auto bench = make_bench({far});
        run(*bench, all);
        run(*bench, other);
    }
    far->delay_us = 150'000;
    const auto bench = make_bench({near, far});
    run(*bench, other);  // so that it is known
    const Finish end = run(*bench, all);
    EXPECT_EQ(end.loaded_tokens[0], 6 * block);
    EXPECT_EQ(end.cached_tokens, 6 * block);
    EXPECT_EQ(missed(end, CacheMiss::not_worth), 6 * block);
}

TEST(StoredPrefixes, OthersRunWhileBlocksAreLoaded) {
    auto contents = std::make_shared<MapStoreContents>();
    const Request stored = prompt_of(30 * block + 1, 6);
    run(*make_bench({contents}), stored);
    contents->delay_us = 10'000;
    const auto bench = make_bench({contents}, 200, {}, 200us);
    Record loading(1), other(1);
    ASSERT_TRUE(bench->engine->submit(stored, loading.listener()).ok());
    Request quick = prompt_of(5, 7, 50);
    ASSERT_TRUE(bench->engine->submit(quick, other.listener()).ok());
    ASSERT_TRUE(other.wait());
    {
        const std::lock_guard lock(loading.mutex);
        EXPECT_TRUE(loading.tokens[0].empty());  // 300 ms of loading
    }
    ASSERT_TRUE(loading.wait());
    EXPECT_EQ(loading.ends[0]->cached_tokens, 30 * block);
}

TEST(StoredPrefixes, TheSameBlocksAreLoadedOnce) {
    auto contents = std::make_shared<MapStoreContents>();
    const Request request = prompt_of(10 * block + 1, 8);
    run(*make_bench({contents}), request);
    contents->gets = 0;
    contents->delay_us = 1'000;
    const auto bench = make_bench({contents});
    std::vector<std::unique_ptr<Record>> records;
    for (int i = 0; i < 5; ++i) {
        records.push_back(std::make_unique<Record>(1));
        ASSERT_TRUE(bench->engine->submit(request, records.back()->listener()).ok());
    }
    for (const auto& record : records) {
        ASSERT_TRUE(record->wait());
        EXPECT_EQ(record->ends[0]->cached_tokens, 10 * block);
    }
    EXPECT_EQ(contents->gets, 10);
}

TEST(StoredPrefixes, WhatOnlyTheFarStoreHadIsWrittenToTheNearOne) {
    auto near = std::make_shared<MapStoreContents>(), far = std::make_shared<MapStoreContents>();
    const Request request = prompt_of(6 * block + 1, 9);
    run(*make_bench({far}), request);
    {
        const auto bench = make_bench({near, far});
        const Finish end = run(*bench, request);
        EXPECT_EQ(end.loaded_tokens[0], 0);
        EXPECT_EQ(end.loaded_tokens[1], 6 * block);
    }
    EXPECT_EQ(near->blocks.size(), 6u);
    const Finish end = run(*make_bench({near, far}), request);
    EXPECT_EQ(end.loaded_tokens[0], 6 * block);
    EXPECT_EQ(end.loaded_tokens[1], 0);
}

TEST(StoredPrefixes, CancelledWhileItsBlocksAreLoaded) {
    auto contents = std::make_shared<MapStoreContents>();
    const Request request = prompt_of(20 * block + 1, 10);
    run(*make_bench({contents}), request);
    contents->delay_us = 5'000;
    const auto bench = make_bench({contents});
    Record record(1);
    const auto id = bench->engine->submit(request, record.listener());
    std::this_thread::sleep_for(30ms);
    bench->engine->cancel(*id);
    ASSERT_TRUE(record.wait());
    EXPECT_EQ(record.ends[0]->reason, FinishReason::cancelled);
    EXPECT_TRUE(bench->quiet());
}

// What a store lost, or never got since it was down, is written again when it is used from the pool.
TEST(StoredPrefixes, WhatAStoreLacksIsWrittenAgain) {
    auto contents = std::make_shared<MapStoreContents>();
    const auto bench = make_bench({contents});
    Request request = prompt_of(10 * block + 1, 60);
    request.retention = Retention::none;
    run(*bench, request);
    EXPECT_EQ(contents->puts, 0);
    request.retention = Retention::chat;
    EXPECT_EQ(run(*bench, request).cached_tokens, 10 * block);
    const auto stored = [&](size_t count) {
        for (int i = 0; i < 2000; ++i) {
            {
                const std::lock_guard lock(contents->mutex);
                if (contents->blocks.size() == count) return true;
            }
            std::this_thread::sleep_for(1ms);
        }
        return false;
    };
    EXPECT_TRUE(stored(10));
    EXPECT_EQ(contents->puts, 10);
    run(*bench, request);
    EXPECT_TRUE(bench->quiet());
    EXPECT_EQ(contents->puts, 10) << "it has them";
    EXPECT_EQ(run(*make_bench({contents}), request).loaded_tokens[0], 10 * block);
}

// A store that does not come back from a call: nobody waits for it, and when it does, it is used again.
TEST(StoredPrefixes, AStoreThatHangsHoldsNobodyUp) {
    auto contents = std::make_shared<MapStoreContents>();
    std::vector<Request> requests;
    for (unsigned i = 0; i < 8; ++i) requests.push_back(prompt_of(4 * block + 1, 70 + i));
    {
        const auto bench = make_bench({contents});
        for (const Request& request : requests) run(*bench, request);
    }
    const auto bench = make_bench({contents});
    contents->hangs = true;
    const auto begin = Clock::now();
    const Finish first = run(*bench, requests[0]);
    EXPECT_EQ(first.cached_tokens, 0);
    EXPECT_LT(Clock::now() - begin, 5s);
    for (int i = 1; i < 6; ++i) EXPECT_EQ(run(*bench, requests[static_cast<size_t>(i)]).cached_tokens, 0);
    EXPECT_LT(Clock::now() - begin, 6s);
    contents->hangs = false;
    std::this_thread::sleep_for(100ms);  // it answers what it was asked
    EXPECT_TRUE(bench->quiet());
    EXPECT_EQ(run(*bench, requests[6]).loaded_tokens[0], 4 * block);
}

// What was given up and came all the same is not counted as loaded: usage must add up.
TEST(StoredPrefixes, WhatComesTooLateIsNotCounted) {
    auto contents = std::make_shared<MapStoreContents>();
    const Request request = prompt_of(20 * block + 1, 90);
    run(*make_bench({contents}), request);
    const auto bench = make_bench({contents});
    Request beginning = request;
    beginning.prompt.resize(block + 1);
    run(*bench, beginning);  // the pool has its first block
    contents->hangs = true;
    std::thread later([&] {
        std::this_thread::sleep_for(800ms);
        contents->hangs = false;
    });
    const Finish end = run(*bench, request);
    later.join();
    int32_t loaded = 0;
    for (const int32_t tokens : end.loaded_tokens) loaded += tokens;
    EXPECT_LE(loaded, end.cached_tokens);
    EXPECT_EQ(bench->engine->stats().cache_lookups_given_up_total, 1u);
    EXPECT_TRUE(bench->quiet());
}

// Writing to a far store that stalls keeps nothing from the near one, and what it lacks it gets later.
TEST(StoredPrefixes, AFarStoreThatHangsKeepsNothingFromTheNearOne) {
    auto near = std::make_shared<MapStoreContents>(), far = std::make_shared<MapStoreContents>();
    const auto bench = make_bench({near, far}, 400);
    far->hangs = true;
    const auto begin = Clock::now();
    for (unsigned i = 0; i < 10; ++i) run(*bench, prompt_of(20 * block + 1, 300 + i));
    const auto stored = [](MapStoreContents& contents) {
        const std::lock_guard lock(contents.mutex);
        return contents.blocks.size();
    };
    while (stored(*near) < 10 * 20 && Clock::now() - begin < 20s) {
        run(*bench, prompt_of(5, 400));  // steps, so that writes go on
        std::this_thread::sleep_for(50ms);
    }
    EXPECT_EQ(stored(*near), 10u * 20);
    EXPECT_EQ(stored(*far), 0u);
    far->hangs = false;
    while (stored(*far) < 10 * 20 && Clock::now() - begin < 40s) {
        for (unsigned i = 0; i < 10; ++i) run(*bench, prompt_of(20 * block + 1, 300 + i));
        std::this_thread::sleep_for(50ms);
    }
    EXPECT_EQ(stored(*far), 10u * 20);
}

// Without a store, what left the pool is known to have been there.
TEST(StoredPrefixes, WhyNothingWasFound) {
    const auto bench = make_bench({}, 24);
    EXPECT_EQ(missed(run(*bench, prompt_of(16 * block + 3, 30)), CacheMiss::fresh), 16 * block);
    EXPECT_EQ(missed(run(*bench, prompt_of(16 * block + 3, 30)), CacheMiss::tail), 3);
    run(*bench, prompt_of(16 * block + 3, 31));
    Finish end = run(*bench, prompt_of(16 * block + 3, 30));
    EXPECT_EQ(end.cached_tokens + missed(end, CacheMiss::evicted), 16 * block);
    EXPECT_GT(missed(end, CacheMiss::evicted), 0);
    Request scored = prompt_of(16 * block + 3, 30);
    scored.sampling.prompt_logprobs = 0;
    scored.sampling.top_logprobs = 0;
    EXPECT_EQ(missed(run(*bench, scored), CacheMiss::prompt_logprobs), 16 * block + 3);
    const kv::PrefixCache::Stats stats = bench->engine->stats().cache;
    const auto count = [](const DurationHistogram& h) {
        return std::accumulate(h.counts.begin(), h.counts.end(), uint64_t{0});
    };
    EXPECT_GT(stats.evicted_total, 0u);
    EXPECT_EQ(count(stats.lifetime), stats.evicted_total);
    EXPECT_EQ(count(stats.idle), stats.evicted_total);
    EXPECT_GE(count(stats.reuse_gap), 16u);
    EXPECT_LE(stats.idle.sum, stats.lifetime.sum);
}

// A pool smaller than the prompts: each leaves it before the next one comes back, and comes back from the store.
TEST(StoredPrefixes, WhatThePoolCannotHoldComesBackWhole) {
    auto contents = std::make_shared<MapStoreContents>();
    const auto bench = make_bench({contents}, 24);
    for (int round = 0; round < 2; ++round)
        for (unsigned i = 0; i < 5; ++i) {
            const Finish end = run(*bench, prompt_of(16 * block + 1, 20 + i));
            EXPECT_EQ(end.cached_tokens, round == 0 ? 0 : 16 * block)
                << i << ": " << ::testing::PrintToString(end.misses) << ", "
                << bench->engine->stats().cache_writes_total << " written, "
                << bench->engine->stats().cache_lookups_empty_total << " empty";
            ASSERT_TRUE(bench->quiet());
            // Computing takes no time here, so that writing may be behind.
            for (int wait = 0;
                 contents->puts < (round == 0 ? 16 * (static_cast<int64_t>(i) + 1) : 80) && wait < 5000;
                 ++wait)
                std::this_thread::sleep_for(1ms);
        }
    const EngineStats stats = bench->engine->stats();
    EXPECT_GT(stats.cache.evicted_total, 100u);
    EXPECT_EQ(stats.cache_writes_dropped_total, 0u);
}

TEST(StoredPrefixes, ASlowWriterDropsBlocksAndHoldsNobodyUp) {
    auto contents = std::make_shared<MapStoreContents>();
    contents->delay_us = 20'000;
    const auto bench = make_bench({contents}, 24);
    const auto begin = Clock::now();
    for (unsigned i = 0; i < 8; ++i) run(*bench, prompt_of(16 * block + 1, 40 + i));
    EXPECT_LT(Clock::now() - begin, 128 * 20ms);  // quicker than all the writes
    EXPECT_GT(bench->engine->stats().cache_writes_dropped_total, 0u);
}

}  // namespace
}  // namespace deepinfer::engine
