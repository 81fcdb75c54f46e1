#include "engine/sampling_params.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace deepinfer::engine {

namespace {

Error bad(std::string message) { return Error{ErrorCode::invalid_argument, std::move(message)}; }

Status check_token(const char* what, TokenId id, int32_t vocabulary) {
    if (id >= 0 && id < vocabulary) return {};
    return bad(std::string(what) + " token id " + std::to_string(id) + " is not in the vocabulary of " +
               std::to_string(vocabulary) + " tokens");
}

Status check_bias(const std::vector<LogitBias>& biases, int32_t vocabulary) {
    if (biases.size() > max_logit_biases)
        return bad("logit_bias has " + std::to_string(biases.size()) + " tokens; at most " +
                   std::to_string(max_logit_biases) + " are allowed");
    std::vector<TokenId> ids;
    for (const LogitBias& b : biases) {
        if (Status status = check_token("logit_bias", b.token, vocabulary); !status) return status;
        if (!(std::abs(b.bias) <= most_logit_bias))
            return bad("logit_bias of token " + std::to_string(b.token) + " must be from -100 to 100");
        ids.push_back(b.token);
    }
    std::sort(ids.begin(), ids.end());
    if (const auto twice = std::adjacent_find(ids.begin(), ids.end()); twice != ids.end())
        return bad("logit_bias has token " + std::to_string(*twice) + " twice");
    return {};
}

}  // namespace

Status check(const SamplingParams& p, int32_t vocabulary) {
    if (!(p.repetition_penalty >= least_repetition_penalty &&
          p.repetition_penalty <= most_repetition_penalty))
        return bad("repetition_penalty must be from 0.0625 to 16 (1 switches it off)");
    if (!(std::abs(p.frequency_penalty) <= most_penalty))
        return bad("frequency_penalty must be from -2 to 2");
    if (!(std::abs(p.presence_penalty) <= most_penalty)) return bad("presence_penalty must be from -2 to 2");
    if (Status status = check_bias(p.logit_bias, vocabulary); !status) return status;
    if (!(p.temperature >= 0) || !std::isfinite(p.temperature))
        return bad("temperature must be a finite number of at least 0");
    if (p.top_k < 0) return bad("top_k must be at least 0 (0 switches it off)");
    if (!(p.top_p > 0 && p.top_p <= 1)) return bad("top_p must be above 0 and at most 1");
    if (!(p.min_p >= 0 && p.min_p <= 1)) return bad("min_p must be from 0 to 1");
    if (!(p.typical_p > 0 && p.typical_p <= 1)) return bad("typical_p must be above 0 and at most 1");
    if (p.max_tokens < 1) return bad("max_tokens must be at least 1");
    if (p.min_tokens < 0 || p.min_tokens > p.max_tokens)
        return bad("min_tokens must be from 0 to max_tokens, which is " + std::to_string(p.max_tokens));
    if (p.top_logprobs < -1 || p.top_logprobs > max_top_logprobs)
        return bad("top_logprobs must be from 0 to " + std::to_string(max_top_logprobs));
    if (p.prompt_logprobs < -1 || p.prompt_logprobs > max_top_logprobs)
        return bad("prompt_logprobs must be from 0 to " + std::to_string(max_top_logprobs));
    for (TokenId id : p.stop_ids)
        if (Status status = check_token("stop", id, vocabulary); !status) return status;
    return {};
}

}  // namespace deepinfer::engine
