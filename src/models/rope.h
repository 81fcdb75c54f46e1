// Rotary position embedding: inverse frequencies with the scalings that checkpoints declare, and a table of
// cos and sin.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"

namespace deepinfer::models {

// How frequencies are stretched for contexts longer than the trained one.
struct RopeScaling {
    enum class Kind { none, linear, llama3, yarn } kind = Kind::none;
    double factor = 1.0;
    double original_context = 0;                       // llama3, yarn
    double low_freq_factor = 1, high_freq_factor = 4;  // llama3
    double beta_fast = 32, beta_slow = 1;              // yarn
    double attention_factor = 0;                       // yarn: factor on cos and sin; 0 = 0.1 ln(factor) + 1
};

struct RopeConfig {
    double theta = 10000.0;
    int dim = 0;               // rotated values per head, even
    bool interleaved = false;  // pairs (2i, 2i+1), as GGUF stores llama; else (i, i + dim/2)
    RopeScaling scaling;
    std::vector<float> freq_factors;  // divides the frequencies, from the checkpoint; empty = all 1
};

// theta^(-2i/dim), i < dim/2, scaled. Sources: RoPE (Su et al. 2021); position interpolation (Chen et al.
// 2023); YaRN (Peng et al. 2023, "NTK by parts" with truncated bounds, as transformers computes it);
// Llama 3.1's scaling.
std::vector<double> rope_frequencies(const RopeConfig& config);

// Rows [cos x dim/2, sin x dim/2] per position, extended on demand by slabs of positions: what is there stays where it is, so a
// longer sequence costs a step no more than its own rows. Not thread-safe: ensure() before sharing rows.
class RopeTable {
  public:
    RopeTable() = default;
    explicit RopeTable(const RopeConfig& config);
    void ensure(int positions);
    const float* row(int position) const {
        const auto p = static_cast<size_t>(position);
        return slabs_[p / slab_positions].get() + p % slab_positions * static_cast<size_t>(dim_);
    }

  private:
    static constexpr size_t slab_positions = 1024;
    int dim_ = 0;
    double magnitude_ = 1.0;
    std::vector<double> frequencies_;
    std::vector<std::unique_ptr<float[]>> slabs_;
};

}  // namespace deepinfer::models
