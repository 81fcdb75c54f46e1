// The engine with a real (tiny) model: the same answer in any company, every block returned whatever happens.
#include "engine/local_engine.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>

#include "support/few_threads.h"

namespace deepinfer::engine {
namespace {

using namespace std::chrono_literals;

struct Answer {
    std::vector<TokenId> tokens;
    std::vector<float> logprobs;
    std::optional<Finish> finish;
};

// Collects answers from the engine thread.
class Collector {
  public:
    Listener listener(size_t slot) {
        std::lock_guard lock(mutex_);
        if (answers_.size() <= slot) answers_.resize(slot + 1);
        return {[this, slot](int32_t, const SampledToken& token) {
                    std::lock_guard inner(mutex_);
                    EXPECT_FALSE(answers_[slot].finish) << "a token after the end";
                    answers_[slot].tokens.push_back(token.token);
                    answers_[slot].logprobs.push_back(token.logprob);
                    changed_.notify_all();
                },
                [this, slot](int32_t, const Finish& finish) {
                    std::lock_guard inner(mutex_);
                    EXPECT_FALSE(answers_[slot].finish) << "ended twice";
                    answers_[slot].finish = finish;
                    changed_.notify_all();
                }};
    }
    Answer wait(size_t slot) {
        std::unique_lock lock(mutex_);
        EXPECT_TRUE(changed_.wait_for(lock, 120s, [&] { return answers_[slot].finish.has_value(); }))
            << "no answer";
        return answers_[slot];
    }
    void wait_for_tokens(size_t slot, size_t count) {
        std::unique_lock lock(mutex_);
        EXPECT_TRUE(changed_.wait_for(
            lock, 120s, [&] { return answers_[slot].tokens.size() >= count || answers_[slot].finish; }));
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Answer> answers_;
};

class LocalEngineTest : public testing::Test {
  protected:
    LocalEngineTest() : pool(2) {
        auto opened = checkpoint::Checkpoint::open(std::string(DEEPINFER_TEST_DATA) + "/oracle/llama");
        EXPECT_TRUE(opened.ok());
        weights = std::move(*opened);
        models::LoadOptions load;
        load.isa = kernels::supported_isas().back();
        auto loaded = models::Model::load(*weights, pool, load);
        EXPECT_TRUE(loaded.ok());
        model = std::move(*loaded);
    }
    void start(int32_t blocks, EngineOptions options = {}) {
        engine.reset();
        auto created = kv::BlockPool::create(*model->kv_layout(KvType::f16), blocks);
        ASSERT_TRUE(created.ok());
        block_pool = std::make_unique<kv::BlockPool>(std::move(*created));
        options.isa = kernels::supported_isas().back();
        engine = make_local_engine(*model, *block_pool, pool, options).value();
    }
    Request random_request(std::mt19937& random, int most_prompt, int most_output) {
        Request request;
        const int n = 1 + static_cast<int>(random() % static_cast<unsigned>(most_prompt));
        for (int i = 0; i < n; ++i) request.prompt.push_back(static_cast<TokenId>(random() % 512));
        SamplingParams& s = request.sampling;
        s.max_tokens = 1 + static_cast<int32_t>(random() % static_cast<unsigned>(most_output));
        s.temperature = random() % 4 == 0 ? 0.0f : 0.5f + static_cast<float>(random() % 100) / 100.0f;
        s.top_p = random() % 2 ? 1.0f : 0.8f;
        s.top_k = random() % 3 ? 0 : 20;
        s.min_p = random() % 4 ? 0.0f : 0.05f;
        s.typical_p = random() % 6 ? 1.0f : 0.7f;
        if (random() % 3 == 0) s.repetition_penalty = 1.3f;
        if (random() % 3 == 0) s.frequency_penalty = 0.5f;
        if (random() % 3 == 0) s.presence_penalty = -0.5f;
        if (random() % 3 == 0) s.logit_bias = {{static_cast<TokenId>(random() % 512), 3.0f}};
        s.seed = random();
        s.top_logprobs = 0;
        if (random() % 2) s.logprobs_mode = LogprobsMode::processed;
        return request;
    }
    Answer run_alone(const Request& request) {
        Collector collector;
        const auto id = engine->submit(request, collector.listener(0));
        EXPECT_TRUE(id.ok());
        return collector.wait(0);
    }
    void expect_quiet() {  // all blocks are back within a second of the last answer
        for (int i = 0; i < 1000; ++i) {
            const EngineStats s = engine->stats();
            if (s.running == 0 && s.waiting == 0 && s.blocks_free == s.blocks_total) return;
            std::this_thread::sleep_for(1ms);
        }
        const EngineStats s = engine->stats();
        FAIL() << "running " << s.running << " waiting " << s.waiting << " free " << s.blocks_free << " of "
               << s.blocks_total;
    }

    ThreadPool pool;
    std::unique_ptr<checkpoint::Checkpoint> weights;
    std::unique_ptr<models::Model> model;
    std::unique_ptr<kv::BlockPool> block_pool;
    std::unique_ptr<Engine> engine;
};

TEST_F(LocalEngineTest, ThreadsThatTheSystemDoesNotGiveAreAnError) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // ThreadSanitizer allows no threads after a bare fork
    start(4);                                        // a first one, for the blocks
    for (unsigned more : {0u, 1u})
        EXPECT_EXIT((allow_threads(more), exit_with(make_local_engine(*model, *block_pool, pool, {}))),
                    testing::ExitedWithCode(0), "cannot start .* of the engine");
}

// The promise of one answer: tokens and log-probability bits do not depend on company, batch limits or
// preemption.
TEST_F(LocalEngineTest, SameBitsAloneAndAmongFifteenOthers) {
    std::mt19937 random(20261130);
    uint64_t preemptions = 0;
    for (int mix = 0; mix < 200; ++mix) {
        std::vector<Request> requests;
        for (int i = 0; i < 16; ++i) requests.push_back(random_request(random, mix % 10 == 0 ? 200 : 40, 24));
        EngineOptions options;
        options.limits.max_rows = mix % 3 == 0 ? 33 : 512;
        options.limits.max_running = mix % 4 == 0 ? 5 : 64;
        if (mix % 25 == 0) start(64);
        const Answer alone = run_alone(requests[0]);
        // A pool that is too small for all makes some give up their blocks and come back.
        std::unique_ptr<Engine> keep = std::move(engine);
        std::unique_ptr<kv::BlockPool> keep_blocks = std::move(block_pool);
        start(mix % 5 == 0 ? 5 : 40, options);
        Collector collector;
        std::vector<size_t> order(requests.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        for (size_t i : order) {
            ASSERT_TRUE(engine->submit(requests[i], collector.listener(i)).ok());
            if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
        }
        for (size_t i = 0; i < requests.size(); ++i) collector.wait(i);
        EXPECT_EQ(engine->stats().blocks_free, engine->stats().blocks_total)
            << "the last answer is there, so are the blocks";
        const Answer mixed = collector.wait(0);
        ASSERT_EQ(alone.tokens, mixed.tokens) << "mix " << mix;
        ASSERT_EQ(0, std::memcmp(alone.logprobs.data(), mixed.logprobs.data(),
                                 alone.logprobs.size() * sizeof(float)))
            << "mix " << mix;
        ASSERT_EQ(alone.finish->reason, mixed.finish->reason);
        expect_quiet();
        preemptions += engine->stats().preemptions_total;
        engine = std::move(keep);
        block_pool = std::move(keep_blocks);
    }
    EXPECT_GT(preemptions, 0u) << "the small pools were meant to cause some";
}

TEST_F(LocalEngineTest, EndsForTheRightReason) {
    start(32);
    std::mt19937 random(5);
    Request request = random_request(random, 30, 1);
    request.sampling = {};
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 12;
    const Answer plain = run_alone(request);
    ASSERT_EQ(plain.tokens.size(), 12u);
    EXPECT_EQ(plain.finish->reason, FinishReason::length);
    EXPECT_EQ(plain.finish->prompt_tokens, static_cast<int32_t>(request.prompt.size()));
    EXPECT_EQ(plain.finish->completion_tokens, 12);
    // A stop id ends the answer and is not part of it.
    const TokenId stop = plain.tokens[4];
    const auto first =
        static_cast<size_t>(std::find(plain.tokens.begin(), plain.tokens.end(), stop) - plain.tokens.begin());
    request.sampling.stop_ids = {stop};
    const Answer stopped = run_alone(request);
    EXPECT_EQ(stopped.tokens,
              std::vector<TokenId>(plain.tokens.begin(),
                                   plain.tokens.begin() + static_cast<std::ptrdiff_t>(first)));
    EXPECT_EQ(stopped.finish->reason, FinishReason::stop);
    EXPECT_EQ(stopped.finish->stop_token, stop);
    // The model's own end of generation does the same, unless it is ignored.
    EngineOptions options;
    options.end_of_generation = {stop};
    start(32, options);
    request.sampling.stop_ids.clear();
    EXPECT_EQ(run_alone(request).tokens, stopped.tokens);
    request.sampling.ignore_eos = true;
    EXPECT_EQ(run_alone(request).tokens, plain.tokens);
}

TEST_F(LocalEngineTest, TheContextIsAHardEnd) {
    EngineOptions options;
    options.context_length = 100;
    start(32, options);
    Request request;
    request.prompt.assign(90, 7);
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 512;
    const Answer answer = run_alone(request);
    EXPECT_EQ(answer.tokens.size(), 10u);
    EXPECT_EQ(answer.finish->reason, FinishReason::length);
    request.prompt.assign(100, 7);
    const auto refused = engine->submit(request, {});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(refused.error().message.find("100"), std::string::npos);
    // A pool smaller than the context limits it as well: a request that can never fit is refused at once.
    start(1, options);
    EXPECT_EQ(engine->context_length(), 64);
}

TEST_F(LocalEngineTest, BadRequestsAreRefusedBeforeTheyQueue) {
    start(8);
    Request request;
    EXPECT_EQ(engine->submit(request, {}).error().code, ErrorCode::invalid_argument);
    request.prompt = {512};
    EXPECT_NE(engine->submit(request, {}).error().message.find("512"), std::string::npos);
    request.prompt = {-1};
    EXPECT_FALSE(engine->submit(request, {}).ok());
    request.prompt = {1};
    request.sampling.top_p = 0;
    EXPECT_FALSE(engine->submit(request, {}).ok());
    expect_quiet();
}

TEST_F(LocalEngineTest, AFullQueueRefuses) {
    EngineOptions options;
    options.limits.max_running = 1;
    options.max_waiting = 3;
    start(32, options);
    Collector collector;
    Request request;
    request.prompt.assign(200, 3);
    request.sampling.max_tokens = 300;
    request.sampling.ignore_eos = true;
    size_t accepted = 0, refused = 0;
    for (size_t i = 0; i < 10; ++i) {
        const auto id = engine->submit(request, collector.listener(i));
        if (id.ok()) {
            ++accepted;
        } else {
            EXPECT_EQ(id.error().code, ErrorCode::resource_exhausted);
            ++refused;
        }
    }
    EXPECT_GE(accepted, 4u) << "one runs and three wait, also before the first step";
    EXPECT_GE(refused, 5u);
    EXPECT_EQ(engine->stats().rejected_total, refused);
    engine.reset();  // while the collector lives
}

TEST_F(LocalEngineTest, CancelledAtAnyStageEverythingComesBack) {
    EngineOptions options;
    options.limits.max_rows = 16;  // many steps of prefill
    options.limits.max_running = 3;
    start(40, options);
    std::mt19937 random(3);
    for (int round = 0; round < 30; ++round) {
        Collector collector;
        std::vector<RequestId> ids;
        for (size_t i = 0; i < 8; ++i) {
            Request request = random_request(random, 300, 200);
            const auto id = engine->submit(request, collector.listener(i));
            ASSERT_TRUE(id.ok());
            ids.push_back(*id);
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
        for (size_t i : {6u, 0u, 3u}) engine->cancel(ids[i]);  // waiting, running, either
        engine->cancel(987654321);                             // never existed
        for (size_t i = 0; i < 8; ++i) {
            const Answer answer = collector.wait(i);
            EXPECT_TRUE(answer.finish->reason != FinishReason::cancelled || i == 6 || i == 0 || i == 3);
        }
        expect_quiet();
    }
}

// Choice by choice, before any of them has started: the last one ends the request.
TEST_F(LocalEngineTest, ChoicesAreCancelledBeforeTheyStart) {
    EngineOptions options;
    options.limits.max_running = 3;
    start(40, options);
    for (const size_t cancelled : {3u, 2u}) {
        Collector collector;
        Request first;
        first.prompt.assign(20, 3);
        first.sampling.max_tokens = 400;
        first.sampling.ignore_eos = true;
        Request waits = first;
        waits.sampling.max_tokens = 100;
        waits.choices = 3;
        const auto busy = engine->submit(first, collector.listener(0));
        std::array<std::optional<Finish>, 3> ends;
        std::mutex mutex;
        std::condition_variable changed;
        const auto id = engine->submit(waits, {[](int32_t, const SampledToken&) {},
                                               [&](int32_t choice, const Finish& finish) {
                                                   const std::lock_guard lock(mutex);
                                                   ends[static_cast<size_t>(choice)] = finish;
                                                   changed.notify_all();
                                               }});
        ASSERT_TRUE(busy.ok() && id.ok());
        const uint64_t generated = engine->stats().generated_tokens_total;
        for (size_t i = 0; i < cancelled; ++i) engine->cancel(*id, static_cast<int32_t>(i));
        {
            std::unique_lock lock(mutex);
            ASSERT_TRUE(changed.wait_for(lock, 60s, [&] { return ends[0] && ends[1] && ends[2]; }));
        }
        for (size_t i = 0; i < 3; ++i) {
            EXPECT_EQ(ends[i]->reason, i < cancelled ? FinishReason::cancelled : FinishReason::length) << i;
            if (i < cancelled) {
                EXPECT_LE(ends[i]->completion_tokens, 3);  // of steps that were in flight when they started
            }
        }
        EXPECT_GE(engine->stats().generated_tokens_total, generated);
        engine->cancel(*busy);
        collector.wait(0);
        expect_quiet();
    }
    EXPECT_GE(engine->stats().cancelled_total, 3u + 2u);
}

TEST_F(LocalEngineTest, DestructionEndsWhatIsLeft) {
    start(40);
    Collector collector;
    Request request;
    request.prompt.assign(50, 3);
    request.sampling.max_tokens = 900;
    request.sampling.ignore_eos = true;
    for (size_t i = 0; i < 5; ++i) ASSERT_TRUE(engine->submit(request, collector.listener(i)).ok());
    collector.wait_for_tokens(0, 3);
    engine.reset();
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(collector.wait(i).finish->reason, FinishReason::cancelled);
    EXPECT_EQ(block_pool->free(), block_pool->total());
}

}  // namespace
}  // namespace deepinfer::engine
