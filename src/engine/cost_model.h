// How long steps take, learned from those that were computed.
//
//   seconds = c . features,  c >= 0;  features: CostModel::features(), of models/step_cost.h
//
// The coefficients minimise the relative errors over a profile made at load and the last 512 steps (non-negative least squares,
// each observation divided by its time). Of the steps, up to a tenth is left out: those off by more than a quarter and than
// three times the median error, since a busy machine makes single steps several times as long. The profile is taken as so many
// times longer or shorter as the recent steps are than it says: when the machine's speed changes, kinds of steps that were not
// seen since keep their relation to the others. With 20 remembered steps or more, all coefficients are multiplied in the end with
// the median of what those took by what was predicted, since squares of relative errors draw towards the shortest times.
// Same observations, same coefficients. Not thread-safe.
#pragma once

#include <array>
#include <deque>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/kv_type.h"
#include "engine/profile_file.h"
#include "engine/scheduler.h"
#include "models/model.h"

namespace deepinfer::engine {

constexpr size_t step_features = 8;
using StepFeatures = std::array<double, step_features>;

// The c >= 0 that minimises the sum over i of (a[i] . c - 1)^2.
StepFeatures fit_non_negative(std::span<const StepFeatures> a);

class CostModel final : public StepTimes {
  public:
    // `model` must outlive the object; only its cost() is used.
    CostModel(const models::Model& model, KvType kv_type) : model_(model), kv_type_(kv_type) {}

    double seconds(std::span<const Chunk> step) const override;
    // Fits again every 32 steps, and after each of the first ones if there is no profile.
    void observe(std::span<const Chunk> step, double seconds) override;
    // What to start from, never forgotten.
    void start_from(std::span<const StepMeasurement> profile);

    // Each step was predicted before it was learned from. 0 without steps.
    double error_quantile(double q) const override;
    const StepFeatures& coefficients() const { return coefficients_; }

  private:
    static constexpr size_t window = 512, refit_every = 32;
    struct Observation {
        StepFeatures scaled;  // features / seconds
        double error = 0;     // of the prediction
    };
    StepFeatures features(std::span<const Chunk> step) const;
    StepFeatures scaled(std::span<const Chunk> step, double seconds) const;
    double slowdown() const;
    void fit();

    const models::Model& model_;
    KvType kv_type_;
    std::vector<StepFeatures> profile_;  // scaled
    StepFeatures profiled_{};            // coefficients of the profile alone
    std::deque<Observation> observations_;
    size_t since_fit_ = 0;
    StepFeatures coefficients_{};
};

struct StepProfile {
    std::vector<StepMeasurement> steps;  // trimmed means
    bool steady = false;                 // repeated measurements agreed: nobody else used the machine much
};
// Computes some steps of different shapes on `model`, which nobody else may use meanwhile, for about `budget_seconds`. Errors:
// those of Model::kv_layout and of memory for the keys and values.
Result<StepProfile> profile_steps(models::Model& model, KvType kv_type, double budget_seconds);

struct ProfileOptions {
    double seconds = 2;            // to spend on a new profile
    std::filesystem::path folder;  // where profiles are kept; empty: nowhere
    std::string machine;    // processor, instruction set, threads, ...: what times depend on beside the model
    models::Notice notice;  // may be empty
};
// From the profile in the folder, or from a new one, which is kept there if it was steady. A file that cannot be read or written
// is no error: it is profiled again, and `notice` is told.
Result<std::unique_ptr<CostModel>> profiled_cost_model(models::Model& model, KvType kv_type,
                                                       const ProfileOptions& options);

}  // namespace deepinfer::engine
