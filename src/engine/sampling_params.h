// How the tokens of an answer are drawn. docs/sampling.md has the formulas and the order in which they apply.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/token.h"

namespace deepinfer::engine {

// Which distribution log-probabilities are of.
enum class LogprobsMode {
    raw,        // the model's: before penalties, bias, temperature and truncation
    processed,  // the one that the token is drawn from; greedy: before temperature and truncation only
};

struct LogitBias {
    TokenId token = -1;
    float bias = 0.0f;  // added to the logit; within most_logit_bias
};

// In the order of application; the defaults change nothing.
struct SamplingParams {
    float repetition_penalty =
        1.0f;  // logits of tokens of prompt and output: above 0 divided by it, else multiplied
    float frequency_penalty = 0.0f;     // subtracted once per occurrence in the output
    float presence_penalty = 0.0f;      // subtracted once if the output has the token
    std::vector<LogitBias> logit_bias;  // a token at most once
    int32_t min_tokens = 0;             // what ends the answer cannot be drawn before; from 0 to max_tokens
    float temperature = 1.0f;           // >= 0; 0 is greedy (lowest id wins a tie)
    int32_t top_k = 0;                  // 0 = off
    float top_p = 1.0f;                 // (0, 1]
    float min_p = 0.0f;                 // [0, 1]; keeps tokens with p >= min_p * p_max
    float typical_p = 1.0f;  // (0, 1]; mass of tokens whose surprise is nearest to the expected one; 1 = off

    uint64_t seed = 0;              // the draw at a position depends on (seed, position) only
    int32_t max_tokens = 16;        // >= 1
    std::vector<TokenId> stop_ids;  // end the answer; reported as FinishReason::stop, not part of the output
    bool ignore_eos = false;        // the model's own end-of-generation tokens do not stop
    // -1: none; 0: of the sampled token; n: and of the n most likely (<= max_top_logprobs; fewer if fewer are possible)
    int32_t top_logprobs = -1;
    LogprobsMode logprobs_mode = LogprobsMode::raw;
    int32_t prompt_logprobs =
        -1;  // as top_logprobs, of the prompt's tokens and always raw; see Listener::on_prompt

    bool penalises() const {
        return repetition_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f;
    }
    bool changes_logits() const { return penalises() || !logit_bias.empty() || min_tokens > 0; }
    bool truncates() const { return top_k > 0 || top_p < 1.0f || min_p > 0.0f || typical_p < 1.0f; }
};

constexpr int32_t max_top_logprobs = 20;
constexpr float most_penalty = 2.0f;  // of frequency and presence, either sign
constexpr float least_repetition_penalty = 0.0625f, most_repetition_penalty = 16.0f;
constexpr float most_logit_bias = 100.0f;  // either sign
constexpr size_t max_logit_biases = 1024;

// invalid_argument with the parameter's name and range.
Status check(const SamplingParams& params, int32_t vocabulary);

}  // namespace deepinfer::engine
