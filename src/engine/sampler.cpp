#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/philox.h"

namespace deepinfer::engine {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr size_t block_size = 512;

Error not_finite() {
    return Error{ErrorCode::internal, "the model produced logits that are not finite numbers"};
}

float scale_of(const SamplingParams& params) {
    return std::min(1.0f / params.temperature, std::numeric_limits<float>::max());
}

float repetition_penalised(float logit, float penalty) {
    return logit > 0 ? logit / penalty : logit * penalty;
}

// Eight running sums, so that an addition does not wait for the one before.
double block_total(const float* weights, size_t count) {
    std::array<double, 8> sums{};
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (size_t lane = 0; lane < 8; ++lane) sums[lane] += static_cast<double>(weights[i + lane]);
    for (; i < count; ++i) sums[i % 8] += static_cast<double>(weights[i]);
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

}  // namespace

Sampler::Sampler(const kernels::KernelTable& table, int vocabulary, std::vector<TokenId> end_of_generation)
    : table_(table), vocabulary_(vocabulary), end_of_generation_(std::move(end_of_generation)) {
    std::erase_if(end_of_generation_, [&](TokenId id) { return id < 0 || id >= vocabulary; });
}

Result<SampledToken> Sampler::sample(float* logits, const SamplingParams& params, const TokenHistory& history,
                                     int64_t position) {
    SampledToken result;
    int best = table_.argmax(logits, vocabulary_);
    float highest = logits[best], normaliser = 0;
    if (!std::isfinite(highest)) return not_finite();
    const bool raw = params.logprobs_mode == LogprobsMode::raw;
    if (params.top_logprobs >= 0 && raw) {
        normaliser = table_.log_sum_exp(logits, vocabulary_, highest);
        result.top_logprobs = most_likely(logits, params.top_logprobs, normaliser);
    }
    changed_.clear();
    if (params.changes_logits()) {
        change_logits(logits, params, history);
        best = table_.argmax(logits, vocabulary_);
        highest = logits[best];
        if (highest == -infinity)
            return Error{ErrorCode::invalid_argument,
                         "no token is left to draw: min_tokens rules out all that have a probability"};
        if (!std::isfinite(highest)) return not_finite();
    }
    result.token = params.temperature == 0.0f ? best : draw(logits, highest, params, position);
    if (result.token < 0) return not_finite();
    if (params.top_logprobs < 0) return result;
    if (raw)
        result.logprob = raw_logit(logits, result.token) - normaliser;
    else
        add_processed_logprobs(logits, highest, params, result);
    return result;
}

Result<SampledToken> Sampler::score(const float* logits, TokenId token, int32_t top) const {
    const float highest = logits[table_.argmax(logits, vocabulary_)];
    if (!std::isfinite(highest)) return not_finite();
    const float normaliser = table_.log_sum_exp(logits, vocabulary_, highest);
    SampledToken result;
    result.token = token;
    result.logprob = logits[token] - normaliser;
    result.top_logprobs = most_likely(logits, top, normaliser);
    result.rank = 1;
    for (TokenId id = 0; id < vocabulary_; ++id)
        result.rank += logits[id] > logits[token] || (logits[id] == logits[token] && id < token);
    return result;
}

void Sampler::change_logits(float* logits, const SamplingParams& params, const TokenHistory& history) {
    const bool remember = params.top_logprobs >= 0 && params.logprobs_mode == LogprobsMode::raw;
    const auto set = [&](TokenId token, float value) {
        if (remember) changed_.push_back({token, logits[token]});
        logits[token] = value;
    };
    for (TokenId token : history.prompt())
        set(token, repetition_penalised(logits[token], params.repetition_penalty));
    for (const TokenHistory::Output& seen : history.output()) {
        float logit = logits[seen.token];
        if (!seen.in_prompt) logit = repetition_penalised(logit, params.repetition_penalty);
        logit -= params.frequency_penalty * static_cast<float>(seen.count);
        logit -= params.presence_penalty;
        set(seen.token, logit);
    }
    for (const LogitBias& b : params.logit_bias) set(b.token, logits[b.token] + b.bias);
    if (history.generated() >= params.min_tokens) return;
    for (TokenId token : params.stop_ids) set(token, -infinity);
    if (!params.ignore_eos)
        for (TokenId token : end_of_generation_) set(token, -infinity);
}

TokenId Sampler::draw(const float* logits, float highest, const SamplingParams& params, int64_t position) {
    weights_.resize(static_cast<size_t>(vocabulary_));
    table_.exp_scaled(logits, vocabulary_, highest, scale_of(params), weights_.data());
    const double u = uniform_draw(params.seed, 3 * static_cast<uint64_t>(position));
    if (!params.truncates()) return draw_from_all(u);
    choose_candidates(params);
    if (params.typical_p < 1.0f)
        keep_typical(logits, highest, static_cast<double>(scale_of(params)), params.typical_p);
    mass_ = candidate_mass();
    if (!std::isfinite(mass_) || candidates_.empty()) return -1;
    double cumulative = 0;
    for (TokenId id : candidates_) {
        cumulative += static_cast<double>(weights_[static_cast<size_t>(id)]);
        if (cumulative >= u * mass_) return id;
    }
    return candidates_.back();  // rounding left the draw just above the sum
}

// The first id whose cumulative weight reaches the draw. Blocks that end below it are passed over as a whole.
TokenId Sampler::draw_from_all(double u) {
    mass_ = total_weight();
    if (!std::isfinite(mass_)) return -1;
    const double wanted = u * mass_;
    double cumulative = 0;
    TokenId last = -1;  // rounding may leave the draw just above a sum: the last possible token takes it
    for (size_t block = 0; block < block_totals_.size(); ++block) {
        if (block_totals_[block] == 0) continue;
        const double after = cumulative + block_totals_[block];
        if (after >= wanted) {
            const size_t end = std::min(weights_.size(), (block + 1) * block_size);
            for (size_t i = block * block_size; i < end; ++i) {
                if (weights_[i] == 0) continue;
                cumulative += static_cast<double>(weights_[i]);
                last = static_cast<TokenId>(i);
                if (cumulative >= wanted) return last;
            }
        }
        cumulative = after;
    }
    return last;
}

double Sampler::total_weight() {
    block_totals_.clear();
    double sum = 0;
    for (size_t begin = 0; begin < weights_.size(); begin += block_size) {
        block_totals_.push_back(
            block_total(weights_.data() + begin, std::min(block_size, weights_.size() - begin)));
        sum += block_totals_.back();
    }
    return sum;
}

// The tokens with at least this weight, lower ids first.
void Sampler::collect_candidates(float least) {
    candidates_.clear();
    const auto add = [&](size_t id) {
        if (weights_[id] >= least) candidates_.push_back(static_cast<TokenId>(id));
    };
    size_t i = 0;
    for (constexpr size_t step = 16; i + step <= weights_.size(); i += step) {
        int any = 0;  // of most runs none
        for (size_t lane = 0; lane < step; ++lane) any |= weights_[i + lane] >= least;
        for (size_t lane = 0; any && lane < step; ++lane) add(i + lane);
    }
    for (; i < weights_.size(); ++i) add(i);
}

double Sampler::candidate_mass() const {
    double mass = 0;
    for (TokenId id : candidates_) mass += static_cast<double>(weights_[static_cast<size_t>(id)]);
    return mass;
}

// The first `count` candidates in order: most likely first, lower ids first among equals.
void Sampler::sort_candidates(size_t count) {
    std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(count),
                      candidates_.end(), [&](TokenId a, TokenId b) {
                          const float x = weights_[static_cast<size_t>(a)],
                                      y = weights_[static_cast<size_t>(b)];
                          return x != y ? x > y : a < b;
                      });
}

void Sampler::choose_candidates(const SamplingParams& params) {
    const double all_mass = params.top_k > 0 ? 0 : total_weight();
    if (!std::isfinite(all_mass)) return candidates_.clear();
    if (params.top_k == 0 && params.top_p >= 1.0f && params.min_p == 0) {  // no need to know their order
        collect_candidates(std::numeric_limits<float>::denorm_min());
        return;
    }
    const double wanted = static_cast<double>(params.top_p) * all_mass;
    // Most of the vocabulary is far below the best token (weight 1). Sort only what can matter; widen if that
    // was too little.
    for (float least : {1e-3f, 1e-6f, std::numeric_limits<float>::denorm_min()}) {
        collect_candidates(least);
        const bool enough = params.top_k > 0      ? candidates_.size() >= static_cast<size_t>(params.top_k)
                            : params.top_p < 1.0f ? candidate_mass() > wanted
                                                  : least < params.min_p;
        if (enough) break;
    }
    const size_t k = params.top_k > 0 ? std::min(candidates_.size(), static_cast<size_t>(params.top_k))
                                      : candidates_.size();
    sort_candidates(k);
    candidates_.resize(k);
    if (params.top_p < 1.0f) {
        const double mass = params.top_k > 0 ? candidate_mass() : all_mass;
        double reached = 0;
        size_t keep = 0;
        while (keep < candidates_.size() && (keep == 0 || reached < static_cast<double>(params.top_p) * mass))
            reached += static_cast<double>(weights_[static_cast<size_t>(candidates_[keep++])]);
        candidates_.resize(keep);
    }
    if (params.min_p > 0 && !candidates_.empty()) {
        const float least = params.min_p * weights_[static_cast<size_t>(candidates_.front())];
        while (weights_[static_cast<size_t>(candidates_.back())] < least) candidates_.pop_back();
    }
}

// Locally typical sampling (Meister et al., 2022): of the candidates, those whose surprise -log p is nearest to its
// expectation. With x = the tempered logit, surprise less expectation is E[x] - x: the normaliser cancels.
void Sampler::keep_typical(const float* logits, float highest, double scale, float wanted) {
    const auto tempered = [&](TokenId id) {
        return (static_cast<double>(logits[id]) - static_cast<double>(highest)) * scale;
    };
    double mass = 0, weighted = 0;
    for (TokenId id : candidates_) {
        const auto w = static_cast<double>(weights_[static_cast<size_t>(id)]);
        mass += w;
        weighted += w * tempered(id);
    }
    const double expected = weighted / mass, needed = static_cast<double>(wanted) * mass;
    // As above: sort only what can matter.
    for (double most : {0.5, 2.0, 8.0, std::numeric_limits<double>::infinity()}) {
        surprises_.clear();
        double reached = 0;
        for (TokenId id : candidates_)
            if (const double distance = std::abs(tempered(id) - expected); distance <= most) {
                surprises_.push_back({distance, id});
                reached += static_cast<double>(weights_[static_cast<size_t>(id)]);
            }
        if (reached > needed) break;
    }
    std::sort(surprises_.begin(), surprises_.end(), [&](const Surprise& a, const Surprise& b) {
        if (a.distance != b.distance) return a.distance < b.distance;
        const float x = weights_[static_cast<size_t>(a.token)], y = weights_[static_cast<size_t>(b.token)];
        return x != y ? x > y : a.token < b.token;
    });
    candidates_.clear();
    double reached = 0;
    for (const Surprise& s : surprises_) {
        if (!candidates_.empty() && reached >= needed) break;
        candidates_.push_back(s.token);
        reached += static_cast<double>(weights_[static_cast<size_t>(s.token)]);
    }
    sort_candidates(candidates_.size());
}

float Sampler::raw_logit(const float* logits, TokenId token) const {
    const auto first = std::find_if(changed_.begin(), changed_.end(),
                                    [token](const Changed& change) { return change.token == token; });
    return first == changed_.end() ? logits[token] : first->before;
}

void Sampler::add_processed_logprobs(const float* logits, float highest, const SamplingParams& params,
                                     SampledToken& result) const {
    if (params.temperature == 0.0f) {
        const float normaliser = table_.log_sum_exp(logits, vocabulary_, highest);
        result.logprob = logits[result.token] - normaliser;
        result.top_logprobs = most_likely(logits, params.top_logprobs, normaliser);
        return;
    }
    const double scale = static_cast<double>(scale_of(params)), log_mass = std::log(mass_);
    const auto logprob = [&](TokenId id) {
        return static_cast<float>((static_cast<double>(logits[id]) - static_cast<double>(highest)) * scale -
                                  log_mass);
    };
    result.logprob = logprob(result.token);
    if (params.truncates()) {
        const size_t count = std::min(candidates_.size(), static_cast<size_t>(params.top_logprobs));
        for (size_t i = 0; i < count; ++i)
            result.top_logprobs.push_back({candidates_[i], logprob(candidates_[i])});
    } else {
        result.top_logprobs = most_likely(logits, params.top_logprobs, 0);
        for (TokenLogprob& t : result.top_logprobs) t.logprob = logprob(t.token);
    }
}

// Lower ids first among equals; none that is impossible.
std::vector<TokenLogprob> Sampler::most_likely(const float* logits, int32_t count, float normaliser) const {
    std::vector<TokenLogprob> top;  // logits for now
    const auto wanted = static_cast<size_t>(std::clamp(count, 0, vocabulary_));
    if (wanted == 0) return top;
    top.reserve(wanted + 1);
    float least = -infinity;
    for (int i = 0; i < vocabulary_; ++i) {
        if (!(logits[i] > least)) continue;
        const auto place = std::find_if(top.rbegin(), top.rend(),
                                        [&](const TokenLogprob& t) { return t.logprob >= logits[i]; });
        top.insert(place.base(), {i, logits[i]});
        if (top.size() > wanted) top.pop_back();
        if (top.size() == wanted) least = top.back().logprob;
    }
    for (TokenLogprob& t : top) t.logprob -= normaliser;
    return top;
}

}  // namespace deepinfer::engine
