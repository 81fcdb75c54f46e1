// An engine over a model whose answers are known, and what comes of its requests.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/local_engine.h"
#include "support/hash_model.h"

namespace deepinfer::testing {

// Takes some time for every step and row, so that chunks, buckets and late planning have something to work with.
struct Times final : engine::StepTimes {
    Times(double base, double row) : base_(base), row_(row) {}
    double seconds(std::span<const engine::Chunk> step) const override {
        double rows = 0;
        for (const engine::Chunk& c : step) rows += c.rows;
        return base_ + row_ * rows;
    }
    void observe(std::span<const engine::Chunk>, double) override {}
    double base_, row_;
};

// An engine over a HashModel.
struct EngineBench {
    explicit EngineBench(int32_t blocks, engine::EngineOptions with, std::chrono::microseconds per_step = {},
                         std::unique_ptr<engine::StepTimes> times = nullptr,
                         std::shared_ptr<engine::Trace> trace = nullptr, engine::Stores stores = {})
        : model(64, 4096, per_step), pool(2), options(std::move(with)) {
        block_pool = std::make_unique<kv::BlockPool>(
            std::move(*kv::BlockPool::create(*model.kv_layout(KvType::f16), blocks)));
        engine = engine::make_local_engine(model, *block_pool, pool, options, std::move(times),
                                           std::move(trace), std::move(stores))
                     .value();
    }
    bool quiet() const {
        for (int i = 0; i < 5000; ++i) {
            const engine::EngineStats s = engine->stats();
            if (s.running == 0 && s.waiting == 0 && s.blocks_free == s.blocks_total) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return false;
    }
    HashModel model;
    ThreadPool pool;
    engine::EngineOptions options;
    std::unique_ptr<kv::BlockPool> block_pool;
    std::unique_ptr<engine::Engine> engine;
};

// What came of one request.
struct Record {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::vector<engine::SampledToken>> tokens;
    std::vector<std::optional<engine::Finish>> ends;
    std::optional<std::vector<engine::SampledToken>> prompt;

    explicit Record(int32_t choices)
        : tokens(static_cast<size_t>(choices)), ends(static_cast<size_t>(choices)) {}
    engine::Listener listener() {
        return {[this](int32_t choice, const engine::SampledToken& token) {
                    std::lock_guard lock(mutex);
                    EXPECT_FALSE(ends[static_cast<size_t>(choice)]) << "a token after the end";
                    tokens[static_cast<size_t>(choice)].push_back(token);
                    changed.notify_all();
                },
                [this](int32_t choice, const engine::Finish& finish) {
                    std::lock_guard lock(mutex);
                    EXPECT_FALSE(ends[static_cast<size_t>(choice)]) << "ended twice";
                    ends[static_cast<size_t>(choice)] = finish;
                    changed.notify_all();
                },
                [this](std::vector<engine::SampledToken> scores) {
                    std::lock_guard lock(mutex);
                    EXPECT_FALSE(prompt) << "told twice";
                    for (const auto& t : tokens) EXPECT_TRUE(t.empty()) << "after the first token";
                    prompt = std::move(scores);
                }};
    }
    bool wait() {
        std::unique_lock lock(mutex);
        return changed.wait_for(lock, std::chrono::seconds(60), [&] {
            return std::all_of(ends.begin(), ends.end(), [](const auto& e) { return e.has_value(); });
        });
    }
};

}  // namespace deepinfer::testing
