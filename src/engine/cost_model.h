// How long steps take, learned from those that were computed.
//
//   seconds = c . features,  c >= 0;  features: 1, rows, bytes of weights read, multiply-adds of the products, those of rows
//   beyond the first few (fewer rows are bound by reading the weights), attention's multiply-adds, bytes of keys and values read
//
// The coefficients minimise the relative errors over a profile made at load and the last 512 steps (non-negative least
// squares, each observation divided by its time); the tenth with the largest errors is left out, since a busy machine makes single
// steps several times as long. Same observations, same coefficients. Not thread-safe; copying is cheap enough for a test.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "base/kv_type.h"
#include "engine/scheduler.h"
#include "models/model.h"

namespace deepinfer::engine {

constexpr size_t step_features = 7;
using StepFeatures = std::array<double, step_features>;

// The c >= 0 that minimises the sum over i of (a[i] . c - 1)^2: Lawson-Hanson's problem, by coordinate descent.
StepFeatures fit_non_negative(std::span<const StepFeatures> a);

class CostModel final : public StepTimes {
  public:
    // `model` must outlive the object; only its cost() is used.
    CostModel(const models::Model& model, KvType kv_type) : model_(model), kv_type_(kv_type) {}

    double seconds(std::span<const Chunk> step) const override;
    void observe(std::span<const Chunk> step, double seconds) override;
    // An observation that is never forgotten, and the fit to all there are.
    void add_profile(std::span<const Chunk> step, double seconds);
    void fit();

    // Of |predicted / actual - 1| over the remembered steps, each predicted before it was learned from: the value that a
    // share `q` of them does not exceed. 0 without steps.
    double error_quantile(double q) const;
    const StepFeatures& coefficients() const { return coefficients_; }

  private:
    static constexpr size_t window = 512, refit_every = 32;
    struct Observation {
        StepFeatures scaled;  // features / seconds
        double error = 0;     // of the prediction
    };
    StepFeatures features(std::span<const Chunk> step) const;

    const models::Model& model_;
    KvType kv_type_;
    std::vector<StepFeatures> profile_;
    std::deque<Observation> observations_;
    size_t since_fit_ = 0;
    StepFeatures coefficients_{};
};

// Computes some steps of different shapes on `model`, which nobody else may use meanwhile, for about `budget_seconds`, and
// learns from them. Errors: those of Model::kv_layout and of memory for the keys and values.
Status profile_steps(CostModel& costs, models::Model& model, KvType kv_type, double budget_seconds);

}  // namespace deepinfer::engine
