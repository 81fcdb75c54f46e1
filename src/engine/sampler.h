// From logits to a token.
//
// A pure function of (logits, parameters, tokens so far, position): the same bits in any batch, on any thread and
// instruction set. docs/sampling.md has the order of application and the formulas.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/sampling_params.h"
#include "engine/token_history.h"
#include "kernels/kernel_table.h"

namespace deepinfer::engine {

// One thread per Sampler: it keeps scratch memory.
class Sampler {
  public:
    // `end_of_generation`: tokens that end an answer unless it ignores them; min_tokens keeps them away.
    Sampler(const kernels::KernelTable& table, int vocabulary, std::vector<TokenId> end_of_generation);

    // Decides the token at `position`, an index into its sequence. If params.changes_logits(), the logits are changed in
    // place: only those of tokens that a penalty, a bias or min_tokens concerns. `history` is of the same sequence and
    // parameters. Errors: internal if the logits are not finite; invalid_argument if no token is left to draw.
    Result<SampledToken> sample(float* logits, const SamplingParams& params, const TokenHistory& history,
                                int64_t position);

    // What the logits say of a token that is already decided: its log-probability and the `top` most likely ones, as raw
    // log-probabilities of sample(). Errors: internal if the logits are not finite.
    Result<SampledToken> score(const float* logits, TokenId token, int32_t top) const;

  private:
    struct Changed {
        TokenId token;
        float before;
    };

    void change_logits(float* logits, const SamplingParams& params, const TokenHistory& history);
    TokenId draw(const float* logits, float highest, const SamplingParams& params, int64_t position);
    TokenId draw_from_all(double u);
    double total_weight();
    void choose_candidates(const SamplingParams& params);
    void collect_candidates(float least);
    double candidate_mass() const;
    void sort_candidates(size_t count);
    void keep_typical(const float* logits, float highest, double scale, float wanted);
    float raw_logit(const float* logits, TokenId token) const;
    void add_processed_logprobs(const float* logits, float highest, const SamplingParams& params,
                                SampledToken& result) const;
    std::vector<TokenLogprob> most_likely(const float* logits, int32_t count, float normaliser) const;

    const kernels::KernelTable& table_;
    int vocabulary_;
    std::vector<TokenId> end_of_generation_;
    std::vector<Changed> changed_;      // in the order of the changes
    std::vector<float> weights_;        // unnormalised probabilities
    std::vector<double> block_totals_;  // of weights_
    std::vector<TokenId> candidates_;   // what truncation keeps, most likely first
    double mass_ = 0;                   // of what can be drawn
    struct Surprise {
        double distance;
        TokenId token;
    };
    std::vector<Surprise> surprises_;
};

}  // namespace deepinfer::engine
