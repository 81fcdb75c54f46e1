// The sampler against its float64 reference, for random logits and parameters.
#include "engine/sampler_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "engine/sampler.h"
#include "kernels/isa.h"

namespace deepinfer::engine {
namespace {

using testing::reference_sample;
using testing::ReferenceResult;

struct Case {
    std::vector<float> logits;
    SamplingParams params;
    std::vector<TokenId> prompt, output, end_of_generation;
    int64_t position() const { return static_cast<int64_t>(prompt.size() + output.size()); }
    TokenHistory history() const {
        TokenHistory h(params, prompt, static_cast<int32_t>(logits.size()));
        for (TokenId token : output) h.add(token);
        return h;
    }
    Result<SampledToken> sample(kernels::Isa isa) const {
        Sampler sampler(kernels::kernel_table(isa), static_cast<int>(logits.size()), end_of_generation);
        std::vector<float> row = logits;
        return sampler.sample(row.data(), params, history(), position());
    }
    ReferenceResult reference() const {
        return reference_sample(logits, params, prompt, output, end_of_generation, position());
    }
};

// Logits and parameters on a grid: what is equal in real numbers is equal in float32, too, and there are many ties.
Case random_case(uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const auto grid = [&](int most) {
        return static_cast<float>(below(2 * most * 64 + 1) - most * 64) / 64.0f;
    };
    Case c;
    const int sizes[] = {1, 2, 17, 64, 300, 1500};
    const int n = sizes[below(6)], spread = below(2) ? 4 : 20;
    for (int i = 0; i < n; ++i) c.logits.push_back(below(50) == 0 ? -INFINITY : grid(spread));
    c.logits[static_cast<size_t>(below(n))] = grid(spread);  // at least one is possible
    for (int i = below(20); i > 0; --i) c.prompt.push_back(below(n));
    for (int i = below(30); i > 0; --i) c.output.push_back(below(std::min(n, 40)));
    SamplingParams& p = c.params;
    if (below(2)) p.repetition_penalty = below(2) ? 1.25f : 0.5f;
    if (below(2)) p.frequency_penalty = grid(2);
    if (below(2)) p.presence_penalty = grid(2);
    if (below(2))
        for (int id = below(n), i = 0; i < 5 && id < n; ++i, id += 1 + below(n))
            p.logit_bias.push_back({id, grid(100)});
    p.temperature = below(8) == 0 ? 0.0f : static_cast<float>(1 + below(20)) / 10.0f;
    if (below(3) == 0) p.top_k = 1 + below(n);
    if (below(3) == 0) p.top_p = 0.05f + 0.9f * static_cast<float>(below(1000)) / 1000.0f;
    if (below(4) == 0) p.min_p = static_cast<float>(below(300)) / 1000.0f;
    if (below(3) == 0) p.typical_p = 0.05f + 0.9f * static_cast<float>(below(1000)) / 1000.0f;
    if (n > 2) {
        p.max_tokens = 40;
        p.min_tokens = below(2) ? below(40) : 0;
        if (below(2)) p.stop_ids = {below(n)};
        if (below(2)) c.end_of_generation = {below(n)};
        p.ignore_eos = below(4) == 0;
    }
    p.seed = random();
    p.top_logprobs = n;  // the whole distribution
    p.logprobs_mode = LogprobsMode::processed;
    return c;
}

TEST(SamplerReference, SameTokensKeptSameProbabilitiesSameDraw) {
    int near_cuts = 0, near_draws = 0, draws = 0, cut_off = 0;
    double worst = 0;
    for (uint32_t seed = 0; seed < 6000; ++seed) {
        const Case c = random_case(seed);
        SCOPED_TRACE(seed);
        const auto got = c.sample(kernels::supported_isas().back());
        const ReferenceResult want = c.reference();
        if (!got) {  // min_tokens may rule out the only token that is possible
            ASSERT_EQ(got.error().code, ErrorCode::invalid_argument) << got.error().message;
            ASSERT_FALSE(*std::max_element(want.probabilities.begin(), want.probabilities.end()) > 0);
            continue;
        }
        const double bound = 2 * want.bound();  // a share of a sum: both may be off
        if (want.cut_margin <= bound) {
            ++near_cuts;
            continue;
        }
        std::vector<double> probabilities(c.logits.size(), 0.0);
        for (const TokenLogprob& t : got->top_logprobs)
            probabilities[static_cast<size_t>(t.token)] = std::exp(static_cast<double>(t.logprob));
        for (size_t id = 0; id < probabilities.size(); ++id) {
            const double w = want.probabilities[id], g = probabilities[id];
            if (w < 1e-30 && g < 1e-30) continue;
            ASSERT_EQ(w > 0, g > 0) << "token " << id << " of probability " << w << " or " << g;
            // And the logarithm is a float32 itself.
            const double allowed = bound + std::abs(std::log(w)) * 0x1p-24;
            ASSERT_LE(std::abs(g / w - 1), allowed) << "token " << id;
            worst = std::max(worst, std::abs(g / w - 1) / allowed);
        }
        cut_off += std::count(want.probabilities.begin(), want.probabilities.end(), 0.0) > 0;
        if (want.draw_margin <= bound) {
            ++near_draws;
            continue;
        }
        ++draws;
        ASSERT_EQ(got->token, want.token);
    }
    EXPECT_LT(near_cuts, 30) << "half a percent: too many to say anything";
    EXPECT_LT(near_draws, 30);
    EXPECT_GT(cut_off, 2000);
    std::printf("%d draws compared; %d near a cut, %d near a draw; largest error %.2f of its bound\n", draws,
                near_cuts, near_draws, worst);
}

TEST(SamplerReference, SameBitsOnEveryInstructionSet) {
    for (uint32_t seed = 0; seed < 1500; ++seed) {
        const Case c = random_case(seed);
        const auto first = c.sample(kernels::Isa::portable);
        for (kernels::Isa isa : kernels::supported_isas()) {
            const auto other = c.sample(isa);
            ASSERT_EQ(first.ok(), other.ok());
            if (!first) continue;
            ASSERT_EQ(first->token, other->token);
            ASSERT_EQ(0, std::memcmp(&first->logprob, &other->logprob, sizeof(float)));
            ASSERT_EQ(first->top_logprobs.size(), other->top_logprobs.size());
            for (size_t i = 0; i < first->top_logprobs.size(); ++i) {
                ASSERT_EQ(first->top_logprobs[i].token, other->top_logprobs[i].token);
                ASSERT_EQ(first->top_logprobs[i].logprob, other->top_logprobs[i].logprob);
            }
        }
    }
}

// Draws at many positions against the reference's probabilities.
TEST(SamplerReference, DrawsFollowTheDistribution) {
    for (uint32_t seed = 0; seed < 40; ++seed) {
        Case c = random_case(seed);
        if (c.params.temperature == 0.0f || c.logits.size() < 17) continue;
        SCOPED_TRACE(seed);
        const ReferenceResult want = c.reference();
        if (want.cut_margin < 1e-4) continue;
        c.params.top_logprobs = -1;
        constexpr int draws = 20000;
        std::vector<int> counts(c.logits.size(), 0);
        Sampler sampler(kernels::kernel_table(kernels::supported_isas().back()),
                        static_cast<int>(c.logits.size()), c.end_of_generation);
        const TokenHistory history = c.history();
        for (int i = 0; i < draws; ++i) {
            std::vector<float> row = c.logits;
            const auto token = sampler.sample(row.data(), c.params, history, i);
            ASSERT_TRUE(token.ok());
            ++counts[static_cast<size_t>(token->token)];
        }
        // Cells of at least 5 expected draws; the rest together.
        double chi = 0, rest = draws;
        int cells = 0, rest_count = draws;
        for (size_t id = 0; id < counts.size(); ++id) {
            const double expected = want.probabilities[id] * draws;
            if (expected == 0) {
                ASSERT_EQ(counts[id], 0) << "token " << id << " is cut off";
            }
            if (expected < 5) continue;
            chi += (counts[id] - expected) * (counts[id] - expected) / expected;
            rest -= expected;
            rest_count -= counts[id];
            ++cells;
        }
        if (rest > 5)
            chi += (rest_count - rest) * (rest_count - rest) / rest;
        else
            --cells;
        // Mean `cells`, standard deviation sqrt(2 cells); five of these. The draws are fixed: no flakes.
        EXPECT_LE(chi, cells + 5 * std::sqrt(2.0 * std::max(cells, 1)));
    }
}

}  // namespace
}  // namespace deepinfer::engine
