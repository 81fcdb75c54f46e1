#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/philox.h"

namespace deepinfer::engine {

namespace {

double total(const std::vector<float>& weights) {
    return std::accumulate(weights.begin(), weights.end(), 0.0);
}

}  // namespace

Result<SampledToken> Sampler::sample(const float* logits, const SamplingParams& params, int64_t position) {
    SampledToken result;
    const int best = table_.argmax(logits, vocabulary_);
    const float highest = logits[best];
    if (!std::isfinite(highest))
        return Error{ErrorCode::internal, "the model produced logits that are not finite numbers"};
    result.token = params.temperature == 0.0f ? best : draw(logits, highest, params, position);
    if (result.token < 0)
        return Error{ErrorCode::internal, "the model produced logits that are not finite numbers"};
    if (params.top_logprobs >= 0) add_logprobs(logits, highest, params, result);
    return result;
}

TokenId Sampler::draw(const float* logits, float highest, const SamplingParams& params, int64_t position) {
    weights_.resize(static_cast<size_t>(vocabulary_));
    table_.exp_scaled(logits, vocabulary_, highest,
                      std::min(1.0f / params.temperature, std::numeric_limits<float>::max()),
                      weights_.data());
    const double u = uniform_draw(params.seed, 3 * static_cast<uint64_t>(position));
    const bool all = params.top_k == 0 && params.top_p >= 1.0f && params.min_p == 0.0f;
    double sum = 0, cumulative = 0;
    if (all) {
        sum = total(weights_);
        if (!std::isfinite(sum)) return -1;
        TokenId last =
            -1;  // rounding may leave the draw just above the sum: the last possible token takes it
        for (int i = 0; i < vocabulary_; ++i) {
            if (weights_[static_cast<size_t>(i)] == 0) continue;
            cumulative += weights_[static_cast<size_t>(i)];
            last = i;
            if (cumulative >= u * sum) break;
        }
        return last;
    }
    choose_candidates(params);
    for (TokenId id : candidates_) sum += weights_[static_cast<size_t>(id)];
    if (!std::isfinite(sum) || candidates_.empty()) return -1;
    for (TokenId id : candidates_) {
        cumulative += weights_[static_cast<size_t>(id)];
        if (cumulative >= u * sum) return id;
    }
    return candidates_.back();
}

void Sampler::choose_candidates(const SamplingParams& params) {
    const auto more_likely = [&](TokenId a, TokenId b) {
        const float x = weights_[static_cast<size_t>(a)], y = weights_[static_cast<size_t>(b)];
        return x != y ? x > y : a < b;
    };
    const double all_mass = params.top_k > 0 ? 0 : total(weights_);
    const double wanted = params.top_p * all_mass;
    // Most of the vocabulary is far below the best token (weight 1). Sort only what can matter; widen if that
    // was too little.
    for (float least : {1e-3f, 1e-6f, 0.0f}) {
        candidates_.clear();
        double mass = 0;
        for (int i = 0; i < vocabulary_; ++i)
            if (const float w = weights_[static_cast<size_t>(i)]; w > 0 && w >= least)
                candidates_.push_back(i), mass += w;
        const bool enough = params.top_k > 0      ? candidates_.size() >= static_cast<size_t>(params.top_k)
                            : params.top_p < 1.0f ? mass > wanted
                                                  : least < params.min_p;
        if (enough || least == 0.0f) break;
    }
    const size_t k = params.top_k > 0 ? std::min(candidates_.size(), static_cast<size_t>(params.top_k))
                                      : candidates_.size();
    std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(k),
                      candidates_.end(), more_likely);
    candidates_.resize(k);
    if (params.top_p < 1.0f) {
        double mass = all_mass, reached = 0;
        if (params.top_k > 0) {
            mass = 0;
            for (TokenId id : candidates_) mass += weights_[static_cast<size_t>(id)];
        }
        size_t keep = 0;
        while (keep < candidates_.size() && (keep == 0 || reached < params.top_p * mass))
            reached += weights_[static_cast<size_t>(candidates_[keep++])];
        candidates_.resize(keep);
    }
    if (params.min_p > 0 && !candidates_.empty()) {
        const float least = params.min_p * weights_[static_cast<size_t>(candidates_.front())];
        while (weights_[static_cast<size_t>(candidates_.back())] < least) candidates_.pop_back();
    }
}

void Sampler::add_logprobs(const float* logits, float highest, const SamplingParams& params,
                           SampledToken& result) {
    const float normaliser = table_.log_sum_exp(logits, vocabulary_, highest);
    result.logprob = logits[result.token] - normaliser;
    if (params.top_logprobs == 0) return;
    candidates_.resize(static_cast<size_t>(vocabulary_));
    std::iota(candidates_.begin(), candidates_.end(), 0);
    const size_t n = std::min(candidates_.size(), static_cast<size_t>(params.top_logprobs));
    std::partial_sort(
        candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(n), candidates_.end(),
        [&](TokenId a, TokenId b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
    for (size_t i = 0; i < n; ++i)
        result.top_logprobs.push_back({candidates_[i], logits[candidates_[i]] - normaliser});
}

Status check(const SamplingParams& p, int32_t vocabulary) {
    const auto bad = [](std::string message) {
        return Error{ErrorCode::invalid_argument, std::move(message)};
    };
    if (!(p.temperature >= 0) || !std::isfinite(p.temperature))
        return bad("temperature must be a finite number of at least 0");
    if (!(p.top_p > 0 && p.top_p <= 1)) return bad("top_p must be above 0 and at most 1");
    if (p.top_k < 0) return bad("top_k must be at least 0 (0 switches it off)");
    if (!(p.min_p >= 0 && p.min_p <= 1)) return bad("min_p must be from 0 to 1");
    if (p.max_tokens < 1) return bad("max_tokens must be at least 1");
    if (p.top_logprobs < -1 || p.top_logprobs > max_top_logprobs)
        return bad("top_logprobs must be from 0 to " + std::to_string(max_top_logprobs));
    for (TokenId id : p.stop_ids)
        if (id < 0 || id >= vocabulary)
            return bad("stop token id " + std::to_string(id) + " is not in the vocabulary of " +
                       std::to_string(vocabulary) + " tokens");
    return {};
}

}  // namespace deepinfer::engine
