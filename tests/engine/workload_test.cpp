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
#include "support/hash_model.h"

namespace deepinfer::engine {
namespace {

using namespace std::chrono_literals;
using testing::HashModel;

// Takes some time for every step and row, so that chunks, buckets and late planning have something to work with.
struct Times final : StepTimes {
    Times(double base, double row) : base_(base), row_(row) {}
    double seconds(std::span<const Chunk> step) const override {
        double rows = 0;
        for (const Chunk& c : step) rows += c.rows;
        return base_ + row_ * rows;
    }
    void observe(std::span<const Chunk>, double) override {}
    double base_, row_;
};

struct Bench {
    explicit Bench(int32_t blocks, EngineOptions with, std::chrono::microseconds per_step = {},
                   std::unique_ptr<StepTimes> times = nullptr, std::shared_ptr<Trace> trace = nullptr)
        : model(64, 4096, per_step), pool(2), options(std::move(with)) {
        block_pool = std::make_unique<kv::BlockPool>(
            std::move(*kv::BlockPool::create(*model.kv_layout(KvType::f16), blocks)));
        engine =
            make_local_engine(model, *block_pool, pool, options, std::move(times), std::move(trace)).value();
    }
    bool quiet() const {
        for (int i = 0; i < 5000; ++i) {
            const EngineStats s = engine->stats();
            if (s.running == 0 && s.waiting == 0 && s.blocks_free == s.blocks_total) return true;
            std::this_thread::sleep_for(1ms);
        }
        return false;
    }
    HashModel model;
    ThreadPool pool;
    EngineOptions options;
    std::unique_ptr<kv::BlockPool> block_pool;
    std::unique_ptr<Engine> engine;
};

// What came of one request.
struct Record {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::vector<SampledToken>> tokens;
    std::vector<std::optional<Finish>> ends;
    std::optional<std::vector<SampledToken>> prompt;

    explicit Record(int32_t choices)
        : tokens(static_cast<size_t>(choices)), ends(static_cast<size_t>(choices)) {}
    Listener listener() {
        return {[this](int32_t choice, const SampledToken& token) {
                    std::lock_guard lock(mutex);
                    EXPECT_FALSE(ends[static_cast<size_t>(choice)]) << "a token after the end";
                    tokens[static_cast<size_t>(choice)].push_back(token);
                    changed.notify_all();
                },
                [this](int32_t choice, const Finish& finish) {
                    std::lock_guard lock(mutex);
                    EXPECT_FALSE(ends[static_cast<size_t>(choice)]) << "ended twice";
                    ends[static_cast<size_t>(choice)] = finish;
                    changed.notify_all();
                },
                [this](std::vector<SampledToken> scores) {
                    std::lock_guard lock(mutex);
                    EXPECT_FALSE(prompt) << "told twice";
                    for (const auto& t : tokens) EXPECT_TRUE(t.empty()) << "after the first token";
                    prompt = std::move(scores);
                }};
    }
    bool wait() {
        std::unique_lock lock(mutex);
        return changed.wait_for(lock, 60s, [&] {
            return std::all_of(ends.begin(), ends.end(), [](const auto& e) { return e.has_value(); });
        });
    }
};

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
    request.priority = below(3);
    return request;
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
    uint64_t scored = 0, preemptions = 0, cancelled = 0, forked = 0, skipped_rows = 0;
    const int workloads =
        std::getenv("DEEPINFER_WORKLOADS") ? std::atoi(std::getenv("DEEPINFER_WORKLOADS")) : 1000;
    for (int w = 0; w < workloads; ++w) {
        std::mt19937 random(static_cast<unsigned>(w));
        const auto below = [&](int n) { return static_cast<int32_t>(random() % static_cast<unsigned>(n)); };
        EngineOptions options;
        options.async = w % 3 != 0;
        options.end_of_generation = eos;
        options.limits.max_rows = below(3) == 0 ? 33 : 512;
        options.limits.max_running = below(3) == 0 ? 5 : 64;
        options.limits.prefill_seconds = 0.0005;
        options.isa = kernels::Isa::portable;
        const int32_t blocks = below(2) ? 10 : 60;
        std::unique_ptr<Times> times = below(2) ? std::make_unique<Times>(1e-5, 1e-5) : nullptr;
        Bench bench(blocks, options, {}, std::move(times));
        const int32_t count = 4 + below(12);
        std::vector<Request> requests;
        std::vector<std::unique_ptr<Record>> records;
        std::vector<std::thread> cancels;
        for (int32_t i = 0; i < count; ++i) {
            requests.push_back(random_request(random, std::min(4096, blocks * 64)));
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
        skipped_rows += bench.engine->stats().wasted_rows_total;
    }
    std::printf(
        "%d workloads: %llu preemptions, %llu answers cancelled, %llu requests with choices, %llu rows "
        "wasted\n",
        workloads, static_cast<unsigned long long>(preemptions), static_cast<unsigned long long>(cancelled),
        static_cast<unsigned long long>(forked), static_cast<unsigned long long>(skipped_rows));
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
    Bench bench(60, options, 5ms, std::make_unique<Times>(0.003, 0), trace);
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
    Bench bench(60, options, 1ms);
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
    Bench bench(60, options, 1ms, std::make_unique<Times>(0.001, 0.1));  // 0.1 s a row, it believes
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
    Bench bench(60, {}, 2ms, std::make_unique<CostModel>(described, KvType::f16));
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
    Bench bench(12, options, 1ms);
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
