// Each parameter by itself, at its edges.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/sampler.h"
#include "kernels/isa.h"

namespace deepinfer::engine {
namespace {

struct Row {
    std::vector<float> logits;
    SamplingParams params;
    std::vector<TokenId> prompt = {}, output = {}, end_of_generation = {};

    TokenHistory history() const {
        TokenHistory h(params, prompt, static_cast<int32_t>(logits.size()));
        for (TokenId token : output) h.add(token);
        return h;
    }
    Result<SampledToken> draw(int64_t position = 0) const {
        std::vector<float> row = logits;
        return Sampler(kernels::kernel_table(kernels::supported_isas().back()), static_cast<int>(row.size()),
                       end_of_generation)
            .sample(row.data(), params, history(), position);
    }
    // The logits as the sampler leaves them.
    std::vector<float> changed() const {
        std::vector<float> row = logits;
        EXPECT_TRUE(Sampler(kernels::kernel_table(kernels::Isa::portable), static_cast<int>(row.size()),
                            end_of_generation)
                        .sample(row.data(), params, history(), 0)
                        .ok());
        return row;
    }
    std::vector<TokenId> drawn(int draws = 400) const {  // different tokens, in order
        std::vector<bool> seen(logits.size());
        for (int i = 0; i < draws; ++i) seen[static_cast<size_t>(draw(i)->token)] = true;
        std::vector<TokenId> ids;
        for (size_t id = 0; id < seen.size(); ++id)
            if (seen[id]) ids.push_back(static_cast<TokenId>(id));
        return ids;
    }
};

using Ids = std::vector<TokenId>;

TEST(SamplerParameters, RepetitionDividesPositiveAndMultipliesNegativeLogitsOnce) {
    Row s{{3.0f, -1.0f, 0.0f, 2.0f, -4.0f}, {}};
    s.params.repetition_penalty = 2.0f;
    s.prompt = {0, 1, 1, 1};  // however often
    s.output = {1, 2, 4, 4};
    EXPECT_EQ(s.changed(), (std::vector<float>{1.5f, -2.0f, 0.0f, 2.0f, -8.0f}));
}

TEST(SamplerParameters, FrequencyAndPresenceCountTheOutputOnly) {
    Row s{{3.0f, 3.0f, 3.0f, 3.0f}, {}};
    s.params.frequency_penalty = 0.5f;
    s.params.presence_penalty = 0.25f;
    s.prompt = {3, 3, 3, 1};
    s.output = {1, 2, 2, 2};
    EXPECT_EQ(s.changed(), (std::vector<float>{3.0f, 2.25f, 1.25f, 3.0f}));
    s.params.frequency_penalty = -2.0f;
    s.params.presence_penalty = -1.0f;  // a bonus
    EXPECT_EQ(s.changed(), (std::vector<float>{3.0f, 6.0f, 10.0f, 3.0f}));
}

TEST(SamplerParameters, RepetitionComesFirstThenTheOthersThenTheBias) {
    Row s{{4.0f, 1.0f}, {}};
    s.params.repetition_penalty = 2.0f;
    s.params.frequency_penalty = 1.0f;
    s.params.presence_penalty = 2.0f;
    s.params.logit_bias = {{0, 10.0f}, {1, -0.5f}};
    s.output = {0, 0};
    EXPECT_EQ(s.changed(), (std::vector<float>{4.0f / 2 - 2 - 2 + 10, 0.5f}));
}

TEST(SamplerParameters, ABiasForbidsForcesAndCancelsOut) {
    Row s{{5.0f, 1.0f, 0.0f, 2.0f}, {}};
    s.params.logit_bias = {{0, -100.0f}};
    EXPECT_EQ(s.drawn(), (Ids{1, 2, 3}));
    s.params.logit_bias = {{2, 100.0f}};
    EXPECT_EQ(s.drawn(), (Ids{2}));
    // The same for every token is none at all.
    const Row plain{s.logits, {}};
    s.params.logit_bias = {{0, -100.0f}, {1, -100.0f}, {2, -100.0f}, {3, -100.0f}};
    for (int i = 0; i < 200; ++i) EXPECT_EQ(s.draw(i)->token, plain.draw(i)->token);
}

TEST(SamplerParameters, GreedyObeysPenaltiesAndBias) {
    Row s{{5.0f, 4.5f, 4.0f}, {}};
    s.params.temperature = 0;
    EXPECT_EQ(s.draw()->token, 0);
    s.params.presence_penalty = 1.0f;
    s.output = {0};
    EXPECT_EQ(s.draw()->token, 1);
    s.params.logit_bias = {{2, 0.5f}};
    EXPECT_EQ(s.draw()->token, 1) << "of equals the lower id";
    s.params.logit_bias = {{2, 0.75f}};
    EXPECT_EQ(s.draw()->token, 2);
}

TEST(SamplerParameters, MinTokensKeepsAwayWhatEndsTheAnswer) {
    Row s{{1.0f, 1.5f, 1.2f, 0.0f}, {}};
    s.params.min_tokens = 2;
    s.params.stop_ids = {2};
    s.end_of_generation = {1};
    s.prompt = {3, 3, 3};
    EXPECT_EQ(s.drawn(), (Ids{0, 3}));
    s.output = {0};
    EXPECT_EQ(s.drawn(), (Ids{0, 3}));
    s.params.ignore_eos = true;  // then 1 ends nothing
    EXPECT_EQ(s.drawn(), (Ids{0, 1, 3}));
    s.output = {0, 0};
    EXPECT_EQ(s.drawn(), (Ids{0, 1, 2, 3}));
    s.params.ignore_eos = false;
    EXPECT_EQ(s.drawn(), (Ids{0, 1, 2, 3}));
}

TEST(SamplerParameters, MinTokensThatLeavesNothingIsAnError) {
    Row s{{1.0f, 2.0f}, {}};
    s.params.min_tokens = 1;
    s.params.stop_ids = {0, 1};
    for (float temperature : {0.0f, 1.0f}) {
        s.params.temperature = temperature;
        const auto token = s.draw();
        ASSERT_FALSE(token.ok());
        EXPECT_NE(token.error().message.find("min_tokens"), std::string::npos);
    }
    s.output = {0};
    EXPECT_TRUE(s.draw().ok());
}

TEST(SamplerParameters, AllButOneMasked) {
    for (int n : {1, 5, 600, 2000}) {
        Row s{std::vector<float>(static_cast<size_t>(n), -INFINITY), {}};
        s.logits[static_cast<size_t>(n - 1)] = -3.0f;
        const auto every = [&](auto change) {
            s.params = {};
            s.params.top_logprobs = 5;
            change(s.params);
            for (LogprobsMode mode : {LogprobsMode::raw, LogprobsMode::processed}) {
                s.params.logprobs_mode = mode;
                const auto token = s.draw(n);
                ASSERT_TRUE(token.ok());
                EXPECT_EQ(token->token, n - 1);
                EXPECT_EQ(token->logprob, 0.0f);
                ASSERT_EQ(token->top_logprobs.size(), 1u) << "what is impossible is not listed";
                EXPECT_EQ(token->top_logprobs[0].token, n - 1);
            }
        };
        every([](auto&) {});
        every([](auto& p) { p.temperature = 0; });
        every([](auto& p) { p.top_k = 3; });
        every([](auto& p) { p.top_p = 0.5f; });
        every([](auto& p) { p.min_p = 0.5f; });
        every([](auto& p) { p.typical_p = 0.5f; });
    }
}

TEST(SamplerParameters, TopKOfOneIsGreedyTiesIncluded) {
    Row s{{1.0f, 4.0f, 4.0f, 4.0f}, {}};
    s.params.top_k = 1;
    EXPECT_EQ(s.drawn(), (Ids{1}));
    s.params.top_k = 2;
    EXPECT_EQ(s.drawn(), (Ids{1, 2}));
}

TEST(SamplerParameters, EqualLogitsAreDrawnEvenly) {
    Row s{std::vector<float>(1000, 0.0f), {}};
    EXPECT_GT(s.drawn(3000).size(), 900u);  // 950.2 expected
    s.params.top_p = 0.0995f;
    const Ids kept = s.drawn(3000);  // the lowest hundred ids
    EXPECT_EQ(kept.size(), 100u);
    EXPECT_EQ(kept.back(), 99);
}

TEST(SamplerParameters, TypicalLeavesOutTheTooLikely) {
    // Probabilities 0.6, 0.1 four times: the entropy is 1.228, the surprises 0.511 and 2.303; distances 0.717 and 1.075.
    Row s{{std::log(0.6f), std::log(0.1f), std::log(0.1f), std::log(0.1f), std::log(0.1f)}, {}};
    s.params.typical_p = 0.5f;
    EXPECT_EQ(s.drawn(), (Ids{0}));
    s.params.typical_p = 0.65f;
    EXPECT_EQ(s.drawn(), (Ids{0, 1}));
    // Probabilities 0.3, 0.014 fifty times: entropy 3.35, surprises 1.20 and 4.27. The likeliest token is not typical.
    s.logits.assign(51, std::log(0.014f));
    s.logits[7] = std::log(0.3f);
    s.params.typical_p = 0.0001f;
    EXPECT_EQ(s.drawn(), (Ids{0}));
    s.params.typical_p = 0.6f;  // 43 of the fifty
    const Ids kept = s.drawn(3000);
    EXPECT_EQ(kept.size(), 43u);
    EXPECT_EQ(std::count(kept.begin(), kept.end(), 7), 0);
    s.params.typical_p = 0.75f;
    EXPECT_EQ(s.drawn(3000).size(), 51u);
}

TEST(SamplerParameters, TypicalOverALargeVocabulary) {
    Row s{std::vector<float>(5000), {}};
    for (size_t i = 0; i < 5000; ++i) s.logits[i] = -static_cast<float>(i % 1000) / 100.0f;
    s.params.typical_p = 0.2f;
    s.params.top_logprobs = 5000;
    s.params.logprobs_mode = LogprobsMode::processed;
    const auto token = s.draw();
    ASSERT_TRUE(token.ok());
    double sum = 0;
    for (const TokenLogprob& t : token->top_logprobs) sum += std::exp(static_cast<double>(t.logprob));
    EXPECT_NEAR(sum, 1, 1e-5);
    for (size_t i = 1; i < token->top_logprobs.size(); ++i)
        EXPECT_LE(token->top_logprobs[i].logprob, token->top_logprobs[i - 1].logprob);
}

TEST(SamplerParameters, RawLogprobsKnowNothingOfPenalties) {
    Row s{{1.0f, 3.0f, 2.0f, -1.0f}, {}};
    s.params.top_logprobs = 3;
    s.params.repetition_penalty = 1.5f;
    s.params.presence_penalty = 1.0f;
    s.params.logit_bias = {{3, 30.0f}};
    s.params.top_k = 1;
    s.prompt = {1};
    s.output = {1, 3};
    const auto raw = s.draw();
    ASSERT_TRUE(raw.ok());
    ASSERT_EQ(raw->token, 3);
    const double normaliser = std::log(std::exp(1.0) + std::exp(3.0) + std::exp(2.0) + std::exp(-1.0));
    EXPECT_NEAR(raw->logprob, -1 - normaliser, 1e-6);
    ASSERT_EQ(raw->top_logprobs.size(), 3u);
    EXPECT_EQ(raw->top_logprobs[0].token, 1);
    EXPECT_NEAR(raw->top_logprobs[0].logprob, 3 - normaliser, 1e-6);
    s.params.logprobs_mode = LogprobsMode::processed;
    const auto processed = s.draw();
    EXPECT_EQ(processed->token, 3);
    EXPECT_EQ(processed->logprob, 0.0f);
    EXPECT_EQ(processed->top_logprobs.size(), 1u);
    // Greedy: after penalties and bias, before temperature and truncation.
    s.params.temperature = 0;
    s.params.logit_bias.clear();
    const auto greedy = s.draw();
    EXPECT_EQ(greedy->token, 2);
    EXPECT_NEAR(greedy->logprob, 2 - std::log(std::exp(1.0) + std::exp(1.0) + std::exp(2.0) + std::exp(-2.5)),
                1e-6);
}

TEST(SamplerParameters, ScoreIsTheRawLogprobOfAnyToken) {
    const std::vector<float> logits{1.0f, 3.0f, 2.0f, 3.0f, -INFINITY};
    const Sampler sampler(kernels::kernel_table(kernels::supported_isas().back()), 5, {});
    const double normaliser = std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0));
    const auto scored = sampler.score(logits.data(), 2, 2);
    ASSERT_TRUE(scored.ok());
    EXPECT_EQ(scored->token, 2);
    EXPECT_NEAR(scored->logprob, 2 - normaliser, 1e-6);
    ASSERT_EQ(scored->top_logprobs.size(), 2u);
    EXPECT_EQ(scored->top_logprobs[0].token, 1);
    EXPECT_EQ(scored->top_logprobs[1].token, 3);
    EXPECT_EQ(sampler.score(logits.data(), 4, 0)->logprob, -INFINITY);
    EXPECT_TRUE(sampler.score(logits.data(), 4, 0)->top_logprobs.empty());
    const std::vector<float> broken(5, NAN);
    EXPECT_FALSE(sampler.score(broken.data(), 0, 0).ok());
}

TEST(SamplerParameters, ScoreHasTheBitsOfSample) {
    Row s{std::vector<float>(3000), {}};
    for (size_t i = 0; i < 3000; ++i) s.logits[i] = std::sin(static_cast<float>(i * i));
    s.params.top_logprobs = 20;
    const Sampler sampler(kernels::kernel_table(kernels::supported_isas().back()), 3000, {});
    for (int i = 0; i < 20; ++i) {
        const auto token = s.draw(i);
        const auto scored = sampler.score(s.logits.data(), token->token, 20);
        EXPECT_EQ(token->logprob, scored->logprob);
        for (size_t t = 0; t < 20; ++t) {
            EXPECT_EQ(token->top_logprobs[t].token, scored->top_logprobs[t].token);
            EXPECT_EQ(token->top_logprobs[t].logprob, scored->top_logprobs[t].logprob);
        }
    }
}

TEST(TokenHistory, CountsOnlyWhatPenaltiesNeed) {
    const std::vector<TokenId> prompt{5, 6, 5};
    SamplingParams params;
    TokenHistory none(params, prompt, 10);
    none.add(5);
    EXPECT_EQ(none.generated(), 1);
    EXPECT_TRUE(none.prompt().empty() && none.output().empty());
    params.presence_penalty = 1;
    TokenHistory outputs(params, prompt, 10);
    outputs.add(5);
    EXPECT_TRUE(outputs.prompt().empty());
    EXPECT_EQ(outputs.output().size(), 1u);
    params.repetition_penalty = 1.1f;
    TokenHistory both(params, prompt, 10);
    EXPECT_EQ(Ids(both.prompt().begin(), both.prompt().end()), (Ids{5, 6}));
    TokenHistory copy = both;  // another choice of the request
    for (TokenId token : {7, 5, 7}) both.add(token);
    ASSERT_EQ(both.output().size(), 2u);
    EXPECT_EQ(both.output()[0].token, 7);
    EXPECT_EQ(both.output()[0].count, 2);
    EXPECT_FALSE(both.output()[0].in_prompt);
    EXPECT_TRUE(both.output()[1].in_prompt);
    EXPECT_TRUE(copy.output().empty());
    EXPECT_EQ(copy.prompt().data(), both.prompt().data());
}

}  // namespace
}  // namespace deepinfer::engine
