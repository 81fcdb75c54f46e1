#include "engine/cost_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

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

// Brute force: the best of the minima over every set of coordinates that may differ from 0.
StepFeatures best_of_all_sets(std::span<const StepFeatures> a) {
    StepFeatures best{};
    double least = squares(a, best);
    for (unsigned set = 1; set < (1u << step_features); ++set) {
        std::vector<size_t> in;
        for (size_t j = 0; j < step_features; ++j)
            if (set >> j & 1) in.push_back(j);
        // Gauss-Jordan on the normal equations.
        std::vector<std::vector<double>> m(in.size(), std::vector<double>(in.size() + 1));
        for (const StepFeatures& row : a)
            for (size_t j = 0; j < in.size(); ++j) {
                for (size_t k = 0; k < in.size(); ++k) m[j][k] += row[in[j]] * row[in[k]];
                m[j].back() += row[in[j]];
            }
        for (size_t p = 0; p < in.size(); ++p)
            for (size_t r = 0; r < in.size(); ++r) {
                if (r == p) continue;
                const double f = m[r][p] / m[p][p];
                for (size_t k = p; k <= in.size(); ++k) m[r][k] -= f * m[p][k];
            }
        StepFeatures c{};
        bool allowed = true;
        for (size_t j = 0; j < in.size(); ++j) {
            c[in[j]] = m[j].back() / m[j][j];
            allowed &= c[in[j]] >= 0;
        }
        if (allowed && squares(a, c) < least) least = squares(a, c), best = c;
    }
    return best;
}

TEST(CostModel, TheFitIsTheNonNegativeMinimum) {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> uniform(0, 1);
    int bound = 0;
    for (int round = 0; round < 200; ++round) {
        std::vector<StepFeatures> a(12 + random() % 40);
        for (auto& row : a)
            for (size_t j = 0; j < step_features; ++j) row[j] = uniform(random);
        const StepFeatures expected = best_of_all_sets(a);
        // The same problem in units that differ by up to fourteen orders of magnitude.
        for (auto& row : a)
            for (size_t j = 0; j < step_features; ++j) row[j] *= std::pow(10.0, 2.0 * static_cast<double>(j));
        StepFeatures c = fit_non_negative(a);
        for (size_t j = 0; j < step_features; ++j) {
            ASSERT_GE(c[j], 0);
            ASSERT_NEAR(c[j] * std::pow(10.0, 2.0 * static_cast<double>(j)), expected[j], 1e-5);
            bound += expected[j] == 0;
        }
    }
    EXPECT_GT(bound, 100) << "these problems do not test the bounds";
}

TEST(CostModel, FeaturesThatAreNeverThereDoNotMatter) {
    std::vector<StepFeatures> a(5);
    for (auto& row : a) row = {0.5, 0, 0, 0, 0, 0, 0, 0};
    const StepFeatures c = fit_non_negative(a);
    EXPECT_NEAR(c[0], 2, 1e-6);
    for (size_t j = 1; j < step_features; ++j) EXPECT_EQ(c[j], 0);
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

struct Errors {
    double median, most_of_them;  // 90 %
};
Errors errors(const CostModel& costs, const std::function<double(std::span<const Chunk>)>& truth) {
    std::mt19937 random(99);
    std::vector<double> found;
    for (int i = 0; i < 500; ++i) {
        const auto step = random_step(random);
        found.push_back(std::abs(costs.seconds(step) / truth(step) - 1));
    }
    std::sort(found.begin(), found.end());
    return {found[250], found[450]};
}

std::vector<StepMeasurement> profile_of(const Described& model, double factor) {
    std::mt19937 random(2);
    std::vector<StepMeasurement> profile;
    for (int i = 0; i < 20; ++i) {
        const auto step = random_step(random);
        profile.push_back({step, factor * model.truth(step)});
    }
    return profile;
}

TEST(CostModel, LearnsAMachineFromItsSteps) {
    const Described model;
    const auto truth = [&](std::span<const Chunk> step) { return model.truth(step); };
    for (double wrong : {0.2, 1.0, 3.0}) {
        CostModel costs(model, KvType::f16);
        costs.start_from(profile_of(model, wrong));
        std::mt19937 random(4);
        for (int i = 0; i < 600; ++i) {
            const auto step = random_step(random);
            costs.observe(step, model.truth(step));
        }
        const auto [median, most] = errors(costs, truth);
        std::printf("profile wrong by %.1f: median error %.3f, 90 %% %.3f\n", wrong, median, most);
        EXPECT_LT(median, 0.05);
        EXPECT_LT(most, 0.15);
        EXPECT_LT(costs.error_quantile(0.5), 0.1);
        EXPECT_LE(costs.error_quantile(0.5), costs.error_quantile(0.9));
    }
}

TEST(CostModel, StepsThatTookFiveTimesAsLongMoveLittle) {
    const Described model;
    CostModel calm(model, KvType::f16), disturbed(model, KvType::f16);
    for (CostModel* costs : {&calm, &disturbed}) costs->start_from(profile_of(model, 1));
    std::mt19937 random(6);
    for (int i = 0; i < 640; ++i) {
        const auto step = random_step(random);
        calm.observe(step, model.truth(step));
        disturbed.observe(step, model.truth(step) * (i % 10 == 3 ? 5 : 1));
    }
    double most = 0;
    for (int i = 0; i < 500; ++i) {
        const auto step = random_step(random);
        most = std::max(most, std::abs(disturbed.seconds(step) / calm.seconds(step) - 1));
    }
    std::printf("predictions moved by at most %.3f\n", most);
    EXPECT_LT(most, 0.05);
}

// Only streams are observed, on a machine that became half as fast: chunks, of which none came, are expected to take longer, too.
TEST(CostModel, WhatIsNotSeenSlowsDownWithTheRest) {
    const Described model;
    CostModel costs(model, KvType::f16);
    costs.start_from(profile_of(model, 1));
    const Chunk chunk{150, 1000, 1};
    const double before = costs.seconds({&chunk, 1});
    for (int i = 0; i < 600; ++i) {
        const Chunk stream{1, 500 + i, 1};
        costs.observe({&stream, 1}, 2 * model.truth({&stream, 1}));
    }
    const Chunk stream{1, 800, 1};
    EXPECT_NEAR(costs.seconds({&stream, 1}) / model.truth({&stream, 1}), 2, 0.1);
    EXPECT_NEAR(costs.seconds({&chunk, 1}) / before, 2, 0.3);
}

TEST(CostModel, SameObservationsSameCoefficients) {
    const Described model;
    CostModel a(model, KvType::f16), b(model, KvType::f16);
    for (CostModel* costs : {&a, &b}) {
        std::mt19937 random(7);
        costs->start_from(profile_of(model, 1.5));
        for (int i = 0; i < 700; ++i) {
            const auto step = random_step(random);
            costs->observe(step, model.truth(step) * (1 + 0.1 * (random() % 7)));
        }
    }
    EXPECT_EQ(a.coefficients(), b.coefficients());
    a.observe({}, 1), a.observe(random_step(*std::make_unique<std::mt19937>(1)), 0);
    EXPECT_EQ(a.coefficients(), b.coefficients()) << "neither is an observation";
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
    const auto costs = profiled_cost_model(model, KvType::f16, {});
    ASSERT_TRUE(costs.ok());
    const Chunk one{1, 0, 1};
    EXPECT_GT((*costs)->seconds({&one, 1}), 0.001) << "every step takes 2 ms";
    EXPECT_LT((*costs)->seconds({&one, 1}), 0.1);
    // A model whose context is shorter than every shape but the smallest.
    testing::HashModel tiny(64, 20, std::chrono::microseconds(2000));
    const auto profile = profile_steps(tiny, KvType::f16, 0.1);
    ASSERT_TRUE(profile.ok());
    EXPECT_GE(profile->steps.size(), 3u);
    for (const StepMeasurement& m : profile->steps)
        for (const Chunk& c : m.step) EXPECT_LE(c.position + c.rows, 20);
}

}  // namespace
}  // namespace deepinfer::engine
