// The engine under random work on a model whose answers are known: everything that can happen to a request, with steps
// planned ahead and without.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "engine/cost_model.h"
#include "engine/local_engine.h"
#include "support/engine_bench.h"
#include "support/map_store.h"

namespace deepinfer::engine {
namespace {

using namespace std::chrono_literals;
using testing::EngineBench;
using testing::HashModel;
using testing::Record;
using testing::Times;

Request random_request(std::mt19937& random, int32_t pool_tokens) {
    const auto below = [&](int n) { return static_cast<int32_t>(random() % static_cast<unsigned>(n)); };
    Request request;
    const int32_t prompt = 1 + below(below(4) == 0 ? std::min(400, pool_tokens - 30) : 70);
    for (int32_t i = 0; i < prompt; ++i) request.prompt.push_back(below(64));
    SamplingParams& s = request.sampling;
    s.max_tokens = 1 + below(below(5) == 0 ? 150 : 25);
    s.temperature = below(3) == 0 ? 0.0f : 0.5f + static_cast<float>(below(100)) / 100.0f;
    s.top_p = below(2) ? 1.0f : 0.8f;
    s.top_k = below(3) ? 0 : 20;
    s.typical_p = below(6) ? 1.0f : 0.7f;
    if (below(3) == 0) s.repetition_penalty = 1.3f;
    if (below(3) == 0) s.frequency_penalty = 0.5f;
    if (below(3) == 0) s.presence_penalty = -0.5f;
    if (below(3) == 0) s.logit_bias = {{below(64), 3.0f}};
    if (below(3) == 0) s.min_tokens = below(s.max_tokens + 1);
    if (below(2)) s.logprobs_mode = LogprobsMode::processed;
    s.seed = random();
    s.top_logprobs = 0;
    s.ignore_eos = below(3) == 0;
    if (below(5) == 0) s.prompt_logprobs = below(4);
    if (below(3) == 0) s.stop_ids = {below(64), below(64)};
    request.choices = below(4) == 0 ? 1 + below(4) : 1;
    request.tenant = std::string(1, static_cast<char>('a' + below(3)));
    if (below(4) == 0) request.cache_salt = "salt";
    request.priority = below(3);
    return request;
}

// Another turn of an earlier request, or the same one again, or what begins like it.
void continue_earlier(std::mt19937& random, const std::vector<Request>& earlier, const HashModel& model,
                      int32_t pool_tokens, Request& request) {
    if (earlier.empty() || random() % 2) return;
    const Request& before = earlier[random() % earlier.size()];
    std::vector<TokenId> prompt = before.prompt;
    switch (random() % 4) {
        case 0:
            for (const SampledToken& token : model.answer(before, 0, {}, 4096).tokens)
                prompt.push_back(token.token);
            prompt.insert(prompt.end(), request.prompt.begin(), request.prompt.end());
            break;
        case 1:
            break;
        case 2:
            prompt[random() % prompt.size()] ^= 1;
            break;
        default:
            prompt.resize(1 + random() % prompt.size());
    }
    if (static_cast<int32_t>(prompt.size()) > pool_tokens - 64 * request.choices) return;
    request.prompt = std::move(prompt);
    if (random() % 8) request.tenant = before.tenant, request.cache_salt = before.cache_salt;
}

// The prompt's log-probabilities. True if there were some.
bool check_prompt(const HashModel& model, const Request& request, const Record& record) {
    if (request.sampling.prompt_logprobs < 0) {
        EXPECT_FALSE(record.prompt);
        return false;
    }
    if (!record.prompt) {
        EXPECT_EQ(record.ends[0]->reason, FinishReason::cancelled);
        return false;
    }
    SamplingParams one_token = request.sampling;
    one_token.max_tokens = 1;
    one_token.min_tokens = 0;
    Request only_prompt = request;
    only_prompt.sampling = one_token;
    const auto want = model.answer(only_prompt, 0, {}, 4096).prompt;
    EXPECT_EQ(record.prompt->size(), want.size());
    for (size_t i = 0; i < want.size() && i < record.prompt->size(); ++i) {
        const SampledToken& got = (*record.prompt)[i];
        EXPECT_EQ(got.token, request.prompt[i + 1]);
        EXPECT_EQ(0, std::memcmp(&got.logprob, &want[i].logprob, sizeof(float)));
        EXPECT_EQ(got.rank, want[i].rank);
        EXPECT_EQ(got.top_logprobs.size(), static_cast<size_t>(request.sampling.prompt_logprobs));
        for (size_t t = 0; t < got.top_logprobs.size(); ++t) {
            EXPECT_EQ(got.top_logprobs[t].token, want[i].top_logprobs[t].token);
            if (got.top_logprobs[t].token == got.token) {
                EXPECT_EQ(got.rank, static_cast<int32_t>(t) + 1);
            }
        }
    }
    return true;
}

// Bars: 1 000 workloads; outputs equal the single request's, cancelled ones are a beginning of it; every block comes back.
TEST(Workload, AThousandRandomOnesAnswerAsEachRequestAlone) {
    const std::vector<TokenId> eos{7};
    uint64_t hits = 0, evictions = 0, told_hits = 0, loaded = 0, told_loaded = 0;
    const auto stored = std::make_shared<store::MapStoreContents>();
    uint64_t scored = 0, preemptions = 0, cancelled = 0, forked = 0, skipped_rows = 0;
    const int workloads =
        std::getenv("DEEPINFER_WORKLOADS") ? std::atoi(std::getenv("DEEPINFER_WORKLOADS")) : 1000;
    for (int w = 0; w < workloads; ++w) {
        // Every fourth asks the same as the one two before it, in a new engine with the same store.
        std::mt19937 random(static_cast<unsigned>(w % 4 == 0 ? w - 2 : w));
        const auto below = [&](int n) { return static_cast<int32_t>(random() % static_cast<unsigned>(n)); };
        EngineOptions options;
        options.async = w % 3 != 0;
        options.prefix_cache = w % 5 != 0;
        options.end_of_generation = eos;
        options.limits.max_rows = below(3) == 0 ? 33 : 512;
        options.limits.max_running = below(3) == 0 ? 5 : 64;
        options.limits.prefill_seconds = 0.0005;
        options.isa = kernels::Isa::portable;
        const int32_t blocks = below(2) ? 10 : 60;
        std::unique_ptr<Times> times = below(2) ? std::make_unique<Times>(1e-5, 1e-5) : nullptr;
        std::vector<std::unique_ptr<Record>> records;  // outlive the engine
        // What one engine has stored, the next may find. Some stores are slow, fail or damage.
        Stores stores;
        if (w % 2 == 0) {
            stored->delay_us = below(4) == 0 ? below(300) : 0;
            stored->fail_gets = below(3) == 0 ? 50 : 0;
            stored->fail_puts = below(3) == 0 ? 50 : 0;
            stored->damage_gets = below(3) == 0 ? 50 : 0;
            stores.push_back(std::make_unique<store::MapStore>(stored));
        }
        EngineBench bench(blocks, options, {}, std::move(times), nullptr, std::move(stores));
        const int32_t count = 4 + below(12);
        std::vector<Request> requests;
        std::vector<std::thread> cancels;
        for (int32_t i = 0; i < count; ++i) {
            const int32_t most = std::min(4096, blocks * 64);
            Request made = random_request(random, most);
            continue_earlier(random, requests, bench.model, most, made);
            requests.push_back(std::move(made));
            records.push_back(std::make_unique<Record>(requests.back().choices));
            auto id = bench.engine->submit(requests.back(), records.back()->listener());
            ASSERT_TRUE(id.ok()) << id.error().message;
            forked += static_cast<uint64_t>(requests.back().choices > 1);
            if (below(5) == 0)
                cancels.emplace_back([&engine = *bench.engine, id = *id, choice = below(2) ? -1 : below(3),
                                      after = std::chrono::microseconds(below(3000))] {
                    std::this_thread::sleep_for(after);
                    choice < 0 ? engine.cancel(id) : engine.cancel(id, choice);
                });
            if (below(3) == 0) std::this_thread::sleep_for(std::chrono::microseconds(below(500)));
        }
        for (auto& thread : cancels) thread.join();
        for (int32_t i = 0; i < count; ++i) {
            Record& record = *records[static_cast<size_t>(i)];
            ASSERT_TRUE(record.wait()) << "workload " << w << " request " << i;
            const Request& request = requests[static_cast<size_t>(i)];
            scored += static_cast<uint64_t>(check_prompt(bench.model, request, record));
            told_loaded += static_cast<uint64_t>(record.ends[0]->loaded_tokens[0]);
            told_hits += static_cast<uint64_t>(record.ends[0]->cached_tokens);
            ASSERT_LT(record.ends[0]->cached_tokens, record.ends[0]->prompt_tokens);
            for (int32_t choice = 0; choice < request.choices; ++choice) {
                const auto& got = record.tokens[static_cast<size_t>(choice)];
                const Finish& end = *record.ends[static_cast<size_t>(choice)];
                const HashModel::Answer want =
                    bench.model.answer(request, choice, eos, bench.engine->context_length());
                cancelled += end.reason == FinishReason::cancelled;
                if (end.reason == FinishReason::cancelled) {
                    ASSERT_LE(got.size(), want.tokens.size());
                } else {
                    ASSERT_EQ(end.reason, want.reason) << end.error.message;
                    ASSERT_EQ(got.size(), want.tokens.size()) << "workload " << w << " request " << i;
                }
                for (size_t t = 0; t < got.size(); ++t) {
                    ASSERT_EQ(got[t].token, want.tokens[t].token)
                        << "workload " << w << " request " << i << " at " << t;
                    ASSERT_EQ(0, std::memcmp(&got[t].logprob, &want.tokens[t].logprob, sizeof(float)));
                }
            }
        }
        ASSERT_TRUE(bench.quiet()) << "workload " << w;
        preemptions += bench.engine->stats().preemptions_total;
        hits += bench.engine->stats().cache_hits_total;
        evictions += bench.engine->stats().cache.evicted_total;
        ASSERT_EQ(told_hits, hits) << "workload " << w;
        for (const TierStats& tier : bench.engine->stats().tiers) loaded += tier.hits_total;
        ASSERT_EQ(told_loaded, loaded) << "workload " << w;
        if (!options.prefix_cache) {
            ASSERT_EQ(bench.engine->stats().cache_hits_total, 0u);
        }
        skipped_rows += bench.engine->stats().wasted_rows_total;
    }
    std::printf(
        "%d workloads: %llu tokens of prompts found, %llu of them in a store, %llu blocks evicted, %llu "
        "preemptions, %llu answers "
        "cancelled, %llu requests with choices, %llu rows wasted\n",
        workloads, static_cast<unsigned long long>(hits), static_cast<unsigned long long>(loaded),
        static_cast<unsigned long long>(evictions), static_cast<unsigned long long>(preemptions),
        static_cast<unsigned long long>(cancelled), static_cast<unsigned long long>(forked),
        static_cast<unsigned long long>(skipped_rows));
    if (workloads >= 1000) {
        EXPECT_GT(hits, 20'000u);
        EXPECT_GT(loaded, 1'000u);
    }
    EXPECT_GT(evictions, 0u);
    EXPECT_GT(preemptions, 0u);
    EXPECT_GT(cancelled, 0u);
    EXPECT_GT(forked, 0u);
    EXPECT_GT(scored, 0u);
}

struct Overlap {
    double idle =
        0;  // share of the time between the first and the last step in which the device had nothing to do
    int steps = 0, ahead = 0;  // and how many were planned while the one before was computed
};
Overlap overlap(bool async) {
    EngineOptions options;
    options.async = async;
    auto trace = std::make_shared<Trace>();
    EngineBench bench(60, options, 5ms, std::make_unique<Times>(0.003, 0), trace);
    Request request;
    request.prompt = {1, 2, 3};
    request.sampling.max_tokens = 100;
    request.sampling.ignore_eos = true;
    Record record(1);
    Listener listener = record.listener();
    listener.on_token = [inner = std::move(listener.on_token)](int32_t choice, const SampledToken& token) {
        const auto until = std::chrono::steady_clock::now() + 3ms;  // masks, detokenisation, ...
        while (std::chrono::steady_clock::now() < until) {
        }
        inner(choice, token);
    };
    EXPECT_TRUE(bench.engine->submit(request, std::move(listener)).ok());
    EXPECT_TRUE(record.wait());
    const auto events = boost::json::parse(trace->json()).at("traceEvents").as_array();
    Overlap result;
    double first = -1, last = 0, busy = 0;
    std::map<int64_t, double> planned;  // when, by step
    for (const auto& e : events)
        if (e.at("name") == "plan")
            planned[e.at("args").at("step").to_number<int64_t>()] =
                e.at("ts").to_number<double>() + e.at("dur").to_number<double>();
    for (const auto& e : events) {
        if (e.at("name") != "compute") continue;
        const double begin = e.at("ts").to_number<double>(), took = e.at("dur").to_number<double>();
        if (first < 0) first = begin;
        last = begin + took;
        busy += took;
        ++result.steps;
        const auto next = planned.find(e.at("args").at("step").to_number<int64_t>() + 1);
        result.ahead += next != planned.end() && next->second < last;
    }
    result.idle = 1 - busy / (last - first);
    return result;
}

// Idle on a quiet machine: about 0.1 % and 37 %. A busy one adds gaps to both, so only the order of events is asked for.
TEST(Workload, HostWorkHidesBehindTheDevice) {
    const Overlap ahead = overlap(true), in_turn = overlap(false);
    std::printf("device idle: %.1f %% planned ahead (%d of %d steps), %.1f %% in turn\n", ahead.idle * 100,
                ahead.ahead, ahead.steps, in_turn.idle * 100);
    EXPECT_GE(ahead.steps, 100);
    EXPECT_GT(ahead.ahead, ahead.steps / 10);
    EXPECT_EQ(in_turn.ahead, 0);
}

TEST(Workload, ADeadlineEndsARequestAtAnyStage) {
    EngineOptions options;
    options.limits.max_running = 1;
    EngineBench bench(60, options, 1ms);
    Request request;
    request.prompt = {1, 2, 3};
    request.sampling.max_tokens = 4000;
    request.sampling.ignore_eos = true;
    request.deadline = Clock::now() + 30ms;
    Record running(1), waiting(1);
    ASSERT_TRUE(bench.engine->submit(request, running.listener()).ok());
    ASSERT_TRUE(bench.engine->submit(request, waiting.listener()).ok());
    for (Record* r : {&running, &waiting}) {
        ASSERT_TRUE(r->wait());
        EXPECT_EQ(r->ends[0]->reason, FinishReason::error);
        EXPECT_EQ(r->ends[0]->error.code, ErrorCode::deadline_exceeded);
    }
    EXPECT_TRUE(bench.quiet());
}

TEST(Workload, WhoWouldWaitTooLongIsToldWhenToComeBack) {
    EngineOptions options;
    options.limits.max_running = 1;
    options.max_wait_seconds = 5;
    EngineBench bench(60, options, 1ms, std::make_unique<Times>(0.001, 0.1));  // 0.1 s a row, it believes
    Request request;
    request.prompt.assign(40, 1);
    request.sampling.max_tokens = 3000;
    request.sampling.ignore_eos = true;
    Record first(1), second(1), third(1);
    ASSERT_TRUE(bench.engine->submit(request, first.listener()).ok());
    ASSERT_TRUE(bench.engine->submit(request, second.listener()).ok());
    for (int i = 0; i < 2000 && bench.engine->stats().estimated_wait <= 5; ++i)
        std::this_thread::sleep_for(1ms);
    const auto refused = bench.engine->submit(request, third.listener());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::resource_exhausted);
    EXPECT_GE(refused.error().retry_after, 1.0);
    bench.engine->cancel_all();
    EXPECT_TRUE(bench.quiet());
}

TEST(Workload, StatisticsSayHowGoodPredictionsWere) {
    const testing::HashModel described;
    EngineBench bench(60, {}, 2ms, std::make_unique<CostModel>(described, KvType::f16));
    Request request;
    request.prompt.assign(40, 1);
    request.sampling.max_tokens = 100;
    request.sampling.ignore_eos = true;
    Record record(1);
    ASSERT_TRUE(bench.engine->submit(request, record.listener()).ok());
    ASSERT_TRUE(record.wait());
    ASSERT_TRUE(bench.quiet());
    const EngineStats stats = bench.engine->stats();
    EXPECT_GT(stats.prediction_error_p90, 0) << "no step takes exactly as long as the one before";
    EXPECT_LE(stats.prediction_error_median, stats.prediction_error_p90);
    EXPECT_LT(stats.prediction_error_median, 0.5) << "a step takes 2 ms and little else";
}

TEST(Workload, ChoicesShareThePromptsBlocks) {
    EngineOptions options;
    EngineBench bench(12, options, 1ms);
    Request request;
    request.prompt.assign(300, 5);  // five blocks, the last one partly
    request.sampling.max_tokens = 20;
    request.sampling.ignore_eos = true;
    request.choices = 6;
    Record record(6);
    ASSERT_TRUE(bench.engine->submit(request, record.listener()).ok());
    ASSERT_TRUE(record.wait());
    EXPECT_EQ(bench.engine->stats().preemptions_total, 0u) << "six separate prompts would need 36 blocks";
    EXPECT_EQ(bench.engine->stats().prompt_tokens_total, 300u);
    std::set<std::vector<TokenId>> different;
    for (const auto& tokens : record.tokens) {
        std::vector<TokenId> ids;
        for (const SampledToken& t : tokens) ids.push_back(t.token);
        different.insert(ids);
    }
    EXPECT_EQ(different.size(), 6u);
    request.choices = 9;
    const auto refused = bench.engine->submit(request, record.listener());
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("13 blocks"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace deepinfer::engine
