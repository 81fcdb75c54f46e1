#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/isa.h"

namespace deepinfer::engine {
namespace {

std::vector<float> example_logits() {
    return {1.0f, 3.0f, 2.0f, 3.0f,  -4.0f, 0.5f, 2.5f,  -1.0f,
            1.5f, 0.0f, 2.2f, -2.0f, 0.7f,  1.1f, -0.3f, 2.9f};
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
    std::vector<double> p;
    double total = 0;
    for (float l : logits) p.push_back(std::exp(static_cast<double>(l) / temperature)), total += p.back();
    for (double& x : p) x /= total;
    return p;
}

class SamplerTest : public testing::Test {
  protected:
    TokenId sample(const SamplingParams& params, int64_t position,
                   kernels::Isa isa = kernels::Isa::portable) {
        Sampler sampler(kernels::kernel_table(isa), static_cast<int>(logits.size()), {});
        std::vector<float> row = logits;
        auto token = sampler.sample(row.data(), params, {}, position);
        EXPECT_TRUE(token.ok());
        return token->token;
    }
    // Counts of `draws` draws, checked against `expected` probabilities: nothing with probability 0,
    // chi-square otherwise.
    void check_distribution(const SamplingParams& params, const std::vector<double>& expected) {
        constexpr int draws = 100000;
        std::vector<int> counts(logits.size(), 0);
        for (int i = 0; i < draws; ++i) ++counts[static_cast<size_t>(sample(params, i))];
        double chi = 0;
        int kinds = -1;
        for (size_t i = 0; i < counts.size(); ++i) {
            if (expected[i] == 0) {
                EXPECT_EQ(counts[i], 0) << "token " << i << " is cut off";
                continue;
            }
            const double e = expected[i] * draws;
            chi += (counts[i] - e) * (counts[i] - e) / e;
            ++kinds;
        }
        // Mean kinds, standard deviation sqrt(2 kinds); 4.5 of these. The draws are fixed, so this never
        // flakes.
        EXPECT_LT(chi, kinds + 4.5 * std::sqrt(2.0 * std::max(kinds, 1)));
    }
    static std::vector<double> keep(std::vector<double> p, const std::vector<size_t>& kept) {
        std::vector<double> out(p.size(), 0.0);
        double total = 0;
        for (size_t i : kept) total += p[i];
        for (size_t i : kept) out[i] = p[i] / total;
        return out;
    }
    std::vector<float> logits = example_logits();
};

TEST_F(SamplerTest, GreedyTakesTheLowestIdOfATie) {
    SamplingParams params;
    params.temperature = 0;
    EXPECT_EQ(sample(params, 0), 1);
}

TEST_F(SamplerTest, AnyPositiveTemperatureWorks) {
    SamplingParams params;
    for (float temperature : {1e-45f, 1e-39f, 1e-38f, 1e-6f}) {
        params.temperature = temperature;
        const TokenId token = sample(params, 2);
        EXPECT_TRUE(token == 1 || token == 3) << "one of the two most likely, at temperature " << temperature;
    }
    params.temperature = 3e38f;
    EXPECT_GE(sample(params, 2), 0);
}

TEST_F(SamplerTest, PlainSamplingFollowsTheSoftmax) {
    SamplingParams params;
    params.seed = 11;
    check_distribution(params, softmax(logits, 1));
    params.temperature = 0.4f;
    check_distribution(params, softmax(logits, 0.4));
}

TEST_F(SamplerTest, TopK) {
    SamplingParams params;
    params.top_k = 4;
    check_distribution(params, keep(softmax(logits, 1), {1, 3, 15, 6}));
    params.top_k = 1;
    EXPECT_EQ(sample(params, 3), 1);
    params.top_k = 1000;  // more than there are
    check_distribution(params, softmax(logits, 1));
}

TEST_F(SamplerTest, TopPKeepsTheShortestRunThatReachesTheMass) {
    const auto p = softmax(logits, 1);
    SamplingParams params;
    params.top_p = static_cast<float>(p[1] + p[3] + 0.5 * p[15]);
    check_distribution(params, keep(p, {1, 3, 15}));
    params.top_p = 1e-6f;
    EXPECT_EQ(sample(params, 5), 1);
}

TEST_F(SamplerTest, MinP) {
    SamplingParams params;
    params.min_p = 0.5f;  // logits above 3 + ln 0.5 = 2.307
    check_distribution(params, keep(softmax(logits, 1), {1, 3, 15, 6}));
    params.min_p = 1.0f;
    check_distribution(params, keep(softmax(logits, 1), {1, 3}));
}

TEST_F(SamplerTest, EveryTruncationTogether) {
    SamplingParams params;
    params.temperature = 0.8f;
    params.top_k = 6;
    params.top_p = 0.9f;
    params.min_p = 0.3f;
    const auto p = softmax(logits, 0.8);
    const auto six = keep(p, {1, 3, 15, 6, 10, 2});
    std::vector<size_t> kept;
    double mass = 0;
    for (size_t i : {1u, 3u, 15u, 6u, 10u, 2u}) {
        if (mass >= 0.9) break;
        mass += six[i];
        if (p[i] >= 0.3 * p[1]) kept.push_back(i);
    }
    check_distribution(params, keep(p, kept));
}

TEST_F(SamplerTest, DependsOnSeedAndPositionOnly) {
    SamplingParams params;
    params.seed = 99;
    int different = 0;
    for (int64_t position = 0; position < 200; ++position) {
        const TokenId token = sample(params, position);
        for (kernels::Isa isa : kernels::supported_isas()) EXPECT_EQ(sample(params, position, isa), token);
        SamplingParams other = params;
        other.seed = 100;
        different += sample(other, position) != token;
    }
    EXPECT_GT(different, 100);
}

TEST_F(SamplerTest, LogprobsAreOfTheModelBeforeTemperature) {
    SamplingParams params;
    params.temperature = 0.3f;
    params.top_logprobs = 3;
    Sampler sampler(kernels::kernel_table(kernels::supported_isas().back()), static_cast<int>(logits.size()),
                    {});
    const auto token = sampler.sample(logits.data(), params, {}, 0);
    ASSERT_TRUE(token.ok());
    const auto p = softmax(logits, 1);
    EXPECT_NEAR(token->logprob, std::log(p[static_cast<size_t>(token->token)]), 1e-5);
    ASSERT_EQ(token->top_logprobs.size(), 3u);
    EXPECT_EQ(token->top_logprobs[0].token, 1);
    EXPECT_EQ(token->top_logprobs[1].token, 3);
    EXPECT_EQ(token->top_logprobs[2].token, 15);
    EXPECT_NEAR(token->top_logprobs[2].logprob, std::log(p[15]), 1e-5);
}

TEST_F(SamplerTest, LogitsThatAreNotNumbersAreAnError) {
    for (float bad : {NAN, INFINITY}) {
        logits = std::vector<float>(16, bad);
        for (float temperature : {0.0f, 1.0f}) {
            SamplingParams params;
            params.temperature = temperature;
            Sampler sampler(kernels::kernel_table(kernels::supported_isas().back()), 16, {});
            EXPECT_FALSE(sampler.sample(logits.data(), params, {}, 0).ok());
            std::vector<float> one(16, 1.0f);
            for (const size_t at : {0, 7, 15}) {
                one[at] = bad;
                EXPECT_FALSE(sampler.sample(one.data(), params, {}, 0).ok()) << at;
                EXPECT_FALSE(sampler.score(one.data(), 3, 0).ok()) << at;
                one[at] = 1.0f;
            }
        }
    }
}

TEST_F(SamplerTest, ParametersOutOfRangeAreNamed) {
    const auto refused = [](auto change, const std::string& word) {
        SamplingParams params;
        change(params);
        const Status status = check(params, 100);
        ASSERT_FALSE(status.ok());
        EXPECT_NE(status.error().message.find(word), std::string::npos) << status.error().message;
    };
    EXPECT_TRUE(check({}, 100).ok());
    refused([](auto& p) { p.temperature = -1; }, "temperature");
    refused([](auto& p) { p.temperature = NAN; }, "temperature");
    refused([](auto& p) { p.temperature = INFINITY; }, "temperature");
    refused([](auto& p) { p.top_p = 0; }, "top_p");
    refused([](auto& p) { p.top_p = 1.5f; }, "top_p");
    refused([](auto& p) { p.top_k = -1; }, "top_k");
    refused([](auto& p) { p.min_p = NAN; }, "min_p");
    refused([](auto& p) { p.typical_p = 0; }, "typical_p");
    refused([](auto& p) { p.typical_p = NAN; }, "typical_p");
    refused([](auto& p) { p.repetition_penalty = 0; }, "repetition_penalty");
    refused([](auto& p) { p.repetition_penalty = NAN; }, "repetition_penalty");
    refused([](auto& p) { p.repetition_penalty = 17; }, "repetition_penalty");
    refused([](auto& p) { p.frequency_penalty = 2.1f; }, "frequency_penalty");
    refused([](auto& p) { p.presence_penalty = -2.1f; }, "presence_penalty");
    refused([](auto& p) { p.presence_penalty = NAN; }, "presence_penalty");
    refused([](auto& p) { p.logit_bias = {{100, 1}}; }, "logit_bias token id 100");
    refused([](auto& p) { p.logit_bias = {{5, 1}, {-1, 1}}; }, "logit_bias token id -1");
    refused([](auto& p) { p.logit_bias = {{5, 101}}; }, "token 5");
    refused([](auto& p) { p.logit_bias = {{5, NAN}}; }, "token 5");
    refused([](auto& p) { p.logit_bias = {{5, 1}, {6, 1}, {5, 2}}; }, "token 5 twice");
    refused([](auto& p) { p.logit_bias.resize(max_logit_biases + 1, {1, 1}); }, "1025 tokens");
    refused([](auto& p) { p.min_tokens = -1; }, "min_tokens");
    refused([](auto& p) { p.min_tokens = 17; }, "max_tokens, which is 16");
    refused([](auto& p) { p.max_tokens = 0; }, "max_tokens");
    refused([](auto& p) { p.top_logprobs = 21; }, "top_logprobs");
    refused([](auto& p) { p.prompt_logprobs = 21; }, "prompt_logprobs");
    refused([](auto& p) { p.stop_ids = {3, 100}; }, "100");
}

}  // namespace
}  // namespace deepinfer::engine
