// From logits to a token.
//
// A pure function of (logits, parameters, position): the same bits in any batch, on any thread and
// instruction set. Order: temperature -> top-k -> top-p -> min-p -> draw. Among equal probabilities the lower
// id comes first. top-p keeps the shortest run of most likely tokens whose mass reaches top_p; min-p then
// drops tokens below min_p times the most likely.
#pragma once

#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "kernels/kernel_table.h"

namespace deepinfer::engine {

class Sampler {
  public:
    Sampler(const kernels::KernelTable& table, int vocabulary) : table_(table), vocabulary_(vocabulary) {}

    // `position` is the index of the token being decided in its sequence. Errors: internal if the logits are
    // not finite. One thread per Sampler: it keeps scratch memory.
    Result<SampledToken> sample(const float* logits, const SamplingParams& params, int64_t position);

  private:
    TokenId draw(const float* logits, float highest, const SamplingParams& params, int64_t position);
    void choose_candidates(const SamplingParams& params);
    void add_logprobs(const float* logits, float highest, const SamplingParams& params, SampledToken& result);

    const kernels::KernelTable& table_;
    int vocabulary_;
    std::vector<float> weights_;       // unnormalised probabilities
    std::vector<TokenId> candidates_;  // most likely first
};

Status check(const SamplingParams& params, int32_t vocabulary);

}  // namespace deepinfer::engine
