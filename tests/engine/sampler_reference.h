// The sampler once more, in float64 and without any regard for speed: every step over the whole vocabulary, written down
// as docs/sampling.md has it. Tests compare the two.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/philox.h"
#include "engine/sampling_params.h"

namespace deepinfer::testing {

struct ReferenceResult {
    std::vector<double>
        probabilities;           // by token, of the distribution that is drawn from; 0 if it is cut off
    std::vector<double> bounds;  // relative, on what float32 weights may differ from `probabilities`
    TokenId token = -1;
    // How near the nearest decision was to going the other way: of a cut, or of the draw. Below `bound()` the sampler may
    // differ.
    double cut_margin = 1, draw_margin = 1;
    double bound() const { return *std::max_element(bounds.begin(), bounds.end()); }
};

inline ReferenceResult reference_sample(const std::vector<float>& raw, const engine::SamplingParams& params,
                                        const std::vector<TokenId>& prompt,
                                        const std::vector<TokenId>& output,
                                        const std::vector<TokenId>& end_of_generation, int64_t position) {
    const size_t n = raw.size();
    const auto count = [](const std::vector<TokenId>& in, size_t id) {
        return static_cast<double>(std::count(in.begin(), in.end(), static_cast<TokenId>(id)));
    };
    std::vector<double> logits(raw.begin(), raw.end()), rounding(n, 0.0);
    constexpr double half_ulp = 0x1p-24;  // relative, of a float32 operation
    for (size_t id = 0; id < n; ++id) {
        double& l = logits[id];
        double& error = rounding[id];
        const auto rounded = [&] { error += std::isfinite(l) ? std::abs(l) * half_ulp : 0; };
        if (params.repetition_penalty != 1.0f && count(prompt, id) + count(output, id) > 0) {
            const double penalty = params.repetition_penalty;
            l = l > 0 ? l / penalty : l * penalty;
            rounded();
        }
        if (count(output, id) > 0) {
            const double frequency = static_cast<double>(params.frequency_penalty) * count(output, id);
            l -= frequency;
            error += std::abs(frequency) * half_ulp;
            rounded();
            l -= static_cast<double>(params.presence_penalty);
            rounded();
        }
        for (const engine::LogitBias& b : params.logit_bias)
            if (b.token == static_cast<TokenId>(id)) {
                l += static_cast<double>(b.bias);
                rounded();
            }
        const bool ends =
            count(params.stop_ids, id) > 0 || (!params.ignore_eos && count(end_of_generation, id) > 0);
        if (ends && static_cast<int32_t>(output.size()) < params.min_tokens) l = -HUGE_VAL;
    }

    ReferenceResult result;
    result.probabilities.assign(n, 0.0);
    result.bounds.assign(n, 0.0);
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    const double temperature = params.temperature == 0.0f ? 1 : static_cast<double>(params.temperature);
    const double best = logits[order[0]];
    std::vector<double> x(n), p(n);  // tempered logits, below the best by
    for (size_t id = 0; id < n; ++id) {
        x[id] = (logits[id] - best) / temperature;
        p[id] = x[id] < -87 ? 0 : std::exp(x[id]);  // the exponential in float32 ends there
        if (p[id] == 0) continue;
        // Subtraction, 1 / temperature and their product round; the exponential is good to 3e-7.
        result.bounds[id] =
            3 * half_ulp * std::abs(x[id]) + (rounding[id] + rounding[order[0]]) / temperature + 3e-7;
    }
    std::vector<size_t> kept;
    for (size_t id : order)
        if (p[id] > 0) kept.push_back(id);
    const auto mass = [&](const std::vector<size_t>& ids) {
        double sum = 0;
        for (size_t id : ids) sum += p[id];
        return sum;
    };
    const auto near = [&](double distance) {
        result.cut_margin = std::min(result.cut_margin, std::abs(distance));
    };
    // The shortest run of `ids` whose mass reaches `wanted` of all their mass.
    const auto shortest_run = [&](std::vector<size_t> ids, double wanted) {
        const double all = mass(ids);
        std::vector<size_t> run;
        double reached = 0;
        for (size_t id : ids) {
            if (!run.empty()) near(reached / all - wanted);
            if (!run.empty() && reached >= wanted * all) break;
            run.push_back(id);
            reached += p[id];
        }
        return run;
    };

    const bool greedy = params.temperature == 0.0f, truncates = !greedy && params.truncates();
    if (truncates) {
        if (params.top_k > 0 && kept.size() > static_cast<size_t>(params.top_k))
            kept.resize(static_cast<size_t>(params.top_k));
        if (params.top_p < 1.0f) kept = shortest_run(kept, static_cast<double>(params.top_p));
        if (params.min_p > 0)
            for (size_t id : kept) near(p[id] / p[kept[0]] - static_cast<double>(params.min_p));
        std::erase_if(kept,
                      [&](size_t id) { return p[id] < static_cast<double>(params.min_p) * p[kept[0]]; });
        if (params.typical_p < 1.0f) {
            // Information content and entropy as the paper has them.
            const double all = mass(kept);
            double entropy = 0;
            for (size_t id : kept) entropy -= p[id] / all * std::log(p[id] / all);
            const auto surprise = [&](size_t id) { return std::abs(-std::log(p[id] / all) - entropy); };
            std::vector<size_t> by_surprise = kept;
            std::stable_sort(by_surprise.begin(), by_surprise.end(), [&](size_t a, size_t b) {
                const double distance = surprise(a) - surprise(b);
                return std::abs(distance) < 1e-9 ? false : distance < 0;  // kept's order among equals
            });
            const std::vector<size_t> typical =
                shortest_run(by_surprise, static_cast<double>(params.typical_p));
            // The order at the cut matters, too, between tokens of different probability.
            for (size_t i = 1; i < by_surprise.size() && i <= typical.size(); ++i)
                if (p[by_surprise[i]] != p[by_surprise[i - 1]])
                    near(surprise(by_surprise[i]) - surprise(by_surprise[i - 1]));
            std::erase_if(kept, [&](size_t id) {
                return std::find(typical.begin(), typical.end(), id) == typical.end();
            });
        }
    } else if (!greedy) {
        std::sort(kept.begin(), kept.end());  // nothing is cut off: the draw goes by id
    }
    const double all = mass(kept);
    for (size_t id : kept) result.probabilities[id] = p[id] / all;
    if (greedy) {
        result.token = static_cast<TokenId>(order[0]);
        return result;
    }
    const double u = uniform_draw(params.seed, 3 * static_cast<uint64_t>(position));
    double cumulative = 0;
    for (size_t id : kept) {
        cumulative += p[id] / all;
        result.draw_margin = std::min(result.draw_margin, std::abs(cumulative - u));
        if (result.token < 0 && cumulative >= u) result.token = static_cast<TokenId>(id);
    }
    if (result.token < 0) result.token = static_cast<TokenId>(kept.back());
    return result;
}

}  // namespace deepinfer::testing
