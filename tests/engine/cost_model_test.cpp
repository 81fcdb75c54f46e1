#include "engine/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "models/pairs.h"
#include "support/hash_model.h"

namespace deepinfer::engine {
namespace {

double squares(std::span<const StepFeatures> a, const StepFeatures& c) {
    double sum = 0;
    for (const StepFeatures& row : a) {
        double r = -1;
        for (size_t j = 0; j < step_features; ++j) r += row[j] * c[j];
        sum += r * r;
    }
    return sum;
}

// Against random search around the answer: nothing near it, and nothing with a coordinate at its bound, is better.
TEST(CostModel, TheFitIsTheNonNegativeMinimum) {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> uniform(0, 1);
    for (int round = 0; round < 50; ++round) {
        std::vector<StepFeatures> a(40);
        for (auto& row : a)
            for (size_t j = 0; j < step_features; ++j)
                row[j] = uniform(random) * std::pow(10.0, 3.0 * static_cast<double>(j));
        const StepFeatures c = fit_non_negative(a);
        const double best = squares(a, c);
        for (double v : c) ASSERT_GE(v, 0);
        for (int trial = 0; trial < 500; ++trial) {
            StepFeatures other = c;
            for (size_t j = 0; j < step_features; ++j) {
                const double size = std::max(c[j], 1e-3 / std::pow(10.0, 3.0 * static_cast<double>(j)));
                if (random() % 2)
                    other[j] = std::max(0.0, c[j] + size * (uniform(random) - 0.5) *
                                                        std::pow(10.0, -static_cast<double>(random() % 4)));
            }
            ASSERT_GE(squares(a, other), best - 1e-9 * (1 + best));
        }
    }
}

// A model whose costs are those of a real one, without computing anything.
class Described final : public models::Model {
  public:
    Described() {
        shape_.layer_ops = 360'000'000, shape_.head_ops = 136'000'000;
        shape_.layer_bytes = 240'000'000, shape_.head_bytes = 144'000'000;
        shape_.heads = 14, shape_.kv_heads = 2, shape_.head_dim = 64, shape_.global_layers = 24;
        info_.vocabulary = 1000, info_.context_length = 32768;
    }
    const models::ModelInfo& info() const override { return info_; }
    Result<kv::Layout> kv_layout(KvType) const override { return kv::Layout{}; }
    models::StepCost cost(std::span<const models::ChunkShape> step, KvType type) const override {
        return models::dense_cost(shape_, step, type);
    }
    void forward(const models::Batch&, const kv::BlockPool&, float*) override {}
    // What a machine would take: memory at 35 GB/s or 0.5 TOPS, whichever is longer; attention on top.
    double truth(std::span<const Chunk> step) const {
        const models::StepCost c = cost(step, KvType::f16);
        return 1e-4 +
               std::max(static_cast<double>(c.weight_bytes) / 35e9,
                        static_cast<double>(c.product_ops) / 400e9) +
               static_cast<double>(c.attention_ops) / 80e9 + static_cast<double>(c.kv_bytes) / 40e9;
    }

  private:
    models::DenseShape shape_;
    models::ModelInfo info_;
};

std::vector<Chunk> random_step(std::mt19937& random) {
    std::vector<Chunk> step;
    for (unsigned i = 0; i < random() % 8; ++i) step.push_back({1, static_cast<int32_t>(random() % 4000), 1});
    if (step.empty() || random() % 2)
        step.push_back({static_cast<int32_t>(1 + random() % 200), static_cast<int32_t>(random() % 8000),
                        static_cast<int32_t>(random() % 2)});
    return step;
}

TEST(CostModel, LearnsAMachineFromItsSteps) {
    const Described model;
    CostModel costs(model, KvType::f16);
    std::mt19937 random(2);
    // It starts from a profile of a machine three times as slow, and a tenth of the steps takes five times as long.
    for (int i = 0; i < 20; ++i) {
        const auto step = random_step(random);
        costs.add_profile(step, 3 * model.truth(step));
    }
    costs.fit();
    for (int i = 0; i < 600; ++i) {
        const auto step = random_step(random);
        costs.observe(step, model.truth(step) * (i % 10 == 3 ? 5 : 1));
    }
    std::vector<double> errors;
    for (int i = 0; i < 500; ++i) {
        const auto step = random_step(random);
        errors.push_back(std::abs(costs.seconds(step) / model.truth(step) - 1));
    }
    std::sort(errors.begin(), errors.end());
    std::printf("relative errors: median %.3f, 90 %% %.3f\n", errors[250], errors[450]);
    EXPECT_LT(errors[250], 0.05);
    EXPECT_LT(errors[450], 0.20);
}

TEST(CostModel, MoreRowsNeverTakeLess) {
    const Described model;
    CostModel costs(model, KvType::f16);
    std::mt19937 random(3);
    for (int i = 0; i < 200; ++i) {
        const auto step = random_step(random);
        costs.observe(step, model.truth(step));
    }
    for (int32_t position : {0, 100, 5000}) {
        double before = 0;
        for (int32_t rows = 1; rows < 600; ++rows) {
            const Chunk chunk{rows, position, 0};
            const double now = costs.seconds({&chunk, 1});
            ASSERT_GE(now, before) << rows << " rows at " << position;
            before = now;
        }
    }
    EXPECT_EQ(costs.seconds({}), 0);
}

TEST(CostModel, AProfileOfAModelGivesAFirstAnswer) {
    testing::HashModel model(64, 4096, std::chrono::microseconds(2000));
    CostModel costs(model, KvType::f16);
    ASSERT_TRUE(profile_steps(costs, model, KvType::f16, 0.5).ok());
    const Chunk one{1, 0, 1};
    EXPECT_GT(costs.seconds({&one, 1}), 0.001) << "every step takes 2 ms";
}

// Brute force over every visible pair; and the tiles of attention as kernels/attention.cpp cuts them.
TEST(StepCost, CountsWhatTheFormulasCount) {
    using models::capped_pairs, models::all_pairs, models::pairs_of;
    EXPECT_EQ(all_pairs(10, 2), 25);
    EXPECT_EQ(capped_pairs(10, 2, 3), 21);
    EXPECT_EQ(pairs_of(900, 1000, 1, 128), 12800);
    models::DenseShape shape;
    shape.layer_ops = 1000, shape.head_ops = 70, shape.layer_bytes = 500, shape.head_bytes = 30;
    shape.heads = 6, shape.kv_heads = 2, shape.head_dim = 32, shape.global_layers = 3, shape.local_layers = 2,
    shape.window = 20;
    for (int32_t position : {0, 1, 7, 19, 20, 21, 63, 200})
        for (int32_t rows : {1, 2, 5, 8, 9, 16, 40, 77}) {
            const models::ChunkShape chunk{rows, position, 1};
            const models::StepCost cost = models::dense_cost(shape, {&chunk, 1}, KvType::f16);
            int64_t pairs = 0, keys = 0;
            for (int32_t t = position + 1; t <= position + rows; ++t) pairs += 3 * t + 2 * std::min(t, 20);
            const int32_t vectors = rows * 3;
            for (int32_t first = 0; first < vectors; first += 24) {
                const int32_t last = std::min(vectors, first + 24) - 1, end = position + last / 3 + 1;
                keys += 3 * end + 2 * (end - std::max(0, position + first / 3 + 1 - 20));
            }
            ASSERT_EQ(cost.pairs, pairs * 6);
            ASSERT_EQ(cost.attention_ops, pairs * 6 * 2 * 32);
            ASSERT_EQ(cost.kv_bytes, keys * 2 * 2 * 2 * 32) << rows << " rows at " << position;
            ASSERT_EQ(cost.product_ops, rows * 1000 + 70);
            ASSERT_EQ(cost.weight_bytes, 530);
        }
}

}  // namespace
}  // namespace deepinfer::engine
