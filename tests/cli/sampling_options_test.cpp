#include "cli/sampling_options.h"

#include <gtest/gtest.h>

namespace deepinfer::cli {
namespace {

// The parameters after parsing, or nothing if an option was refused.
std::optional<engine::SamplingParams> parsed(std::vector<std::string> arguments) {
    CLI::App app;
    engine::SamplingParams sampling;
    add_sampling_options(app, sampling);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes a vector from its end
    try {
        app.parse(arguments);
    } catch (const CLI::ParseError&) {
        return std::nullopt;
    }
    return sampling;
}

TEST(SamplingOptions, EveryParameterHasOne) {
    const auto s = parsed({"--max-tokens",
                           "9",
                           "--min-tokens",
                           "3",
                           "--temperature",
                           "0.5",
                           "--top-k",
                           "4",
                           "--top-p",
                           "0.5",
                           "--min-p",
                           "0.25",
                           "--typical-p",
                           "0.75",
                           "--repetition-penalty",
                           "1.5",
                           "--frequency-penalty",
                           "-1",
                           "--presence-penalty",
                           "0.5",
                           "--logit-bias",
                           "7:-100",
                           "--logit-bias",
                           "8:0.5",
                           "--seed",
                           "18446744073709551615"});
    ASSERT_TRUE(s);
    EXPECT_EQ(s->max_tokens, 9);
    EXPECT_EQ(s->min_tokens, 3);
    EXPECT_EQ(s->temperature, 0.5f);
    EXPECT_EQ(s->top_k, 4);
    EXPECT_EQ(s->top_p, 0.5f);
    EXPECT_EQ(s->min_p, 0.25f);
    EXPECT_EQ(s->typical_p, 0.75f);
    EXPECT_EQ(s->repetition_penalty, 1.5f);
    EXPECT_EQ(s->frequency_penalty, -1.0f);
    EXPECT_EQ(s->presence_penalty, 0.5f);
    ASSERT_EQ(s->logit_bias.size(), 2u);
    EXPECT_EQ(s->logit_bias[0].token, 7);
    EXPECT_EQ(s->logit_bias[0].bias, -100.0f);
    EXPECT_EQ(s->logit_bias[1].bias, 0.5f);
    EXPECT_EQ(s->seed, ~uint64_t{0});
}

TEST(SamplingOptions, WhatIsOutOfRangeIsRefused) {
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, std::string>>{{"--max-tokens", "0"},
                                                          {"--min-tokens", "-1"},
                                                          {"--temperature", "-0.1"},
                                                          {"--top-k", "-1"},
                                                          {"--top-p", "1.1"},
                                                          {"--min-p", "-1"},
                                                          {"--typical-p", "2"},
                                                          {"--repetition-penalty", "0"},
                                                          {"--frequency-penalty", "2.5"},
                                                          {"--presence-penalty", "-3"},
                                                          {"--logit-bias", "7"},
                                                          {"--logit-bias", "7:"},
                                                          {"--logit-bias", "x:1"},
                                                          {"--logit-bias", "7:1x"},
                                                          {"--seed", "-1"}})
        EXPECT_FALSE(parsed({name, value})) << name << " " << value;
}

}  // namespace
}  // namespace deepinfer::cli
