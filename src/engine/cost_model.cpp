#include "engine/cost_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/step_timer.h"

namespace deepinfer::engine {

namespace {

double dot(const StepFeatures& a, const StepFeatures& b) {
    double sum = 0;
    for (size_t i = 0; i < step_features; ++i) sum += a[i] * b[i];
    return sum;
}

}  // namespace

StepFeatures fit_non_negative(std::span<const StepFeatures> a) {
    // Normal equations of columns scaled to unit length; without that the features differ by twelve orders of magnitude.
    std::array<double, step_features> scale{};
    for (size_t j = 0; j < step_features; ++j) {
        double sum = 0;
        for (const StepFeatures& row : a) sum += row[j] * row[j];
        scale[j] = sum > 0 ? 1 / std::sqrt(sum) : 0;
    }
    std::array<StepFeatures, step_features> gram{};
    StepFeatures target{};
    for (const StepFeatures& row : a)
        for (size_t j = 0; j < step_features; ++j) {
            target[j] += row[j] * scale[j];
            for (size_t k = 0; k < step_features; ++k) gram[j][k] += row[j] * scale[j] * row[k] * scale[k];
        }
    // Convex, so descending coordinate by coordinate ends at the minimum.
    constexpr double ridge = 1e-9;  // among equal minima, the one near 0
    constexpr int most_sweeps = 5000;
    StepFeatures c{};
    for (int sweep = 0; sweep < most_sweeps; ++sweep) {
        double change = 0;
        for (size_t j = 0; j < step_features; ++j) {
            if (scale[j] == 0) continue;
            const double next =
                std::max(0.0, c[j] + (target[j] - dot(gram[j], c) - ridge * c[j]) / (gram[j][j] + ridge));
            change = std::max(change, std::abs(next - c[j]));
            c[j] = next;
        }
        if (change < 1e-9) break;
    }
    for (size_t j = 0; j < step_features; ++j) c[j] *= scale[j];
    return c;
}

StepFeatures CostModel::features(std::span<const Chunk> step) const {
    const models::StepCost cost = model_.cost(step, kv_type_);
    return {1.0,
            static_cast<double>(cost.rows),
            static_cast<double>(cost.weight_bytes),
            static_cast<double>(cost.product_ops),
            static_cast<double>(cost.late_ops),
            static_cast<double>(cost.attention_ops),
            static_cast<double>(cost.kv_bytes)};
}

double CostModel::seconds(std::span<const Chunk> step) const {
    return step.empty() ? 0 : dot(features(step), coefficients_);
}

void CostModel::add_profile(std::span<const Chunk> step, double seconds) {
    StepFeatures scaled = features(step);
    for (double& f : scaled) f /= seconds;
    profile_.push_back(scaled);
}

void CostModel::observe(std::span<const Chunk> step, double seconds) {
    if (!(seconds > 0)) return;
    StepFeatures scaled = features(step);
    for (double& f : scaled) f /= seconds;
    observations_.push_back({scaled, std::abs(dot(scaled, coefficients_) - 1)});
    if (observations_.size() > window) observations_.pop_front();
    // The first steps count at once if there was no profile.
    if (++since_fit_ >= refit_every || (profile_.empty() && observations_.size() < refit_every)) fit();
}

void CostModel::fit() {
    since_fit_ = 0;
    std::vector<StepFeatures> all = profile_;
    for (const Observation& o : observations_) all.push_back(o.scaled);
    if (all.empty()) return;
    StepFeatures c = fit_non_negative(all);
    if (all.size() >= 20) {
        const auto kept = all.begin() + static_cast<std::ptrdiff_t>(all.size() * 9 / 10);
        const auto error = [&](const StepFeatures& a) {
            return std::abs(std::log(std::max(dot(a, c), 1e-12)));
        };
        std::nth_element(all.begin(), kept, all.end(),
                         [&](const StepFeatures& a, const StepFeatures& b) { return error(a) < error(b); });
        c = fit_non_negative(std::span(all.begin(), kept));
    }
    coefficients_ = c;
}

double CostModel::error_quantile(double q) const {
    if (observations_.empty()) return 0;
    std::vector<double> errors;
    for (const Observation& o : observations_) errors.push_back(o.error);
    const auto at = errors.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(errors.size() - 1));
    std::nth_element(errors.begin(), at, errors.end());
    return *at;
}

Status profile_steps(CostModel& costs, models::Model& model, KvType kv_type, double budget_seconds) {
    const int32_t context = model.info().context_length, deep = std::min(4096, context - 128);
    auto timer = StepTimer::create(model, kv_type, 16 * 128 + deep + 128);
    if (!timer) return std::move(timer).error();
    std::vector<std::vector<Chunk>> steps;
    for (int32_t rows : {1, 2, 4, 8, 16, 32, 64, 128})
        if (rows <= context) steps.push_back({{rows, 0, 1}});
    for (int32_t depth : {1024, deep})
        for (int32_t rows : {1, 4, 16, 48})
            if (depth > 0 && depth + rows <= context) steps.push_back({{rows, depth, 1}});
    for (size_t sequences : {size_t{4}, size_t{16}})
        if (context > 128) steps.emplace_back(sequences, Chunk{1, 100, 1});
    steps.push_back({{std::min(16, context), 0, 0}});  // without the output head
    const auto begin = std::chrono::steady_clock::now();
    const auto spent = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    bool first = true;
    // Round by round, so that a disturbance hits few of a shape's measurements; the first round is not counted.
    for (int round = 0; round < 4; ++round)
        for (const auto& step : steps) {
            if (spent() > budget_seconds && !first) return costs.fit(), Status();
            const double took = timer->run(step);
            if (round > 0 || spent() > budget_seconds / 2) costs.add_profile(step, took), first = false;
        }
    costs.fit();
    return {};
}

}  // namespace deepinfer::engine
