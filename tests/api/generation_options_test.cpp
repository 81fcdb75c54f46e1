// The parameters that both completion endpoints share: from JSON to SamplingParams.
#include "api/generation_options.h"

#include <gtest/gtest.h>

#include "api/chat_request.h"
#include "api/completion_request.h"

namespace deepinfer::api {
namespace {

const std::string hello = R"({"messages":[{"role":"user","content":"Hi"}])", text = R"({"prompt":"x")";

GenerationOptions parsed(const std::string& members) {
    const auto chat = parse_chat_request(hello + members + "}");
    EXPECT_TRUE(static_cast<bool>(chat)) << (chat ? "" : chat.error().message) << members;
    return chat ? chat->options : GenerationOptions();
}

ApiError refused(const std::string& members) {
    const auto chat = parse_chat_request(hello + members + "}");
    EXPECT_FALSE(static_cast<bool>(chat)) << members;
    return chat ? ApiError() : chat.error();
}

TEST(GenerationOptions, PenaltiesAndBias) {
    const engine::SamplingParams s =
        parsed(R"(,"frequency_penalty":0.5,"presence_penalty":-2,"repetition_penalty":1.25,
                  "logit_bias":{"50256":-100,"7":0.5,"9":null},"typical_p":0.75,"min_tokens":3)")
            .sampling;
    EXPECT_EQ(s.frequency_penalty, 0.5f);
    EXPECT_EQ(s.presence_penalty, -2.0f);
    EXPECT_EQ(s.repetition_penalty, 1.25f);
    EXPECT_EQ(s.typical_p, 0.75f);
    EXPECT_EQ(s.min_tokens, 3);
    ASSERT_EQ(s.logit_bias.size(), 2u);
    EXPECT_EQ(s.logit_bias[0].token, 50256);
    EXPECT_EQ(s.logit_bias[0].bias, -100.0f);
    EXPECT_EQ(s.logit_bias[1].token, 7);
    EXPECT_FALSE(parsed("").sampling.changes_logits());
    EXPECT_FALSE(parsed("").sampling.truncates());
}

TEST(GenerationOptions, WhatIsOutOfRangeIsNamedWithTheRange) {
    const auto error = [](const std::string& members, const std::string& param, const std::string& part) {
        const ApiError got = refused(members);
        EXPECT_EQ(got.status, 400);
        EXPECT_EQ(got.param, param);
        EXPECT_NE(got.message.find(part), std::string::npos) << got.message;
    };
    error(R"(,"frequency_penalty":2.5)", "frequency_penalty", "between -2 and 2");
    error(R"(,"presence_penalty":-2.5)", "presence_penalty", "between -2 and 2");
    error(R"(,"repetition_penalty":0)", "repetition_penalty", "between 0.0625 and 16");
    error(R"(,"typical_p":0)", "typical_p", "greater than 0");
    error(R"(,"min_tokens":9,"max_tokens":8)", "min_tokens", "'max_tokens', which is 8");
    error(R"(,"min_tokens":9,"max_completion_tokens":8)", "min_tokens", "'max_tokens', which is 8");
    error(R"(,"logit_bias":{"5":101})", "logit_bias.5", "between -100 and 100");
    error(R"(,"logit_bias":{"cat":1})", "logit_bias", "'cat'");
    error(R"(,"logit_bias":{"+5":1})", "logit_bias", "'+5'");
    std::string many;
    for (size_t i = 0; i <= engine::max_logit_biases; ++i)
        many += (i ? ",\"" : "\"") + std::to_string(i) + "\":1";
    error(",\"logit_bias\":{" + many + "}", "logit_bias", "1025 elements");
    error(R"(,"logprobs":true,"logprobs_mode":"raw")", "logprobs_mode", "'processed_logprobs'");
    error(R"(,"logprobs_mode":"raw_logprobs")", "logprobs_mode", "only allowed with 'logprobs'");
    error(R"(,"n":129)", "n", "between 1 and 128");
}

TEST(GenerationOptions, LogprobsMode) {
    EXPECT_EQ(parsed(R"(,"logprobs":true)").sampling.logprobs_mode, engine::LogprobsMode::raw);
    EXPECT_EQ(parsed(R"(,"logprobs":true,"logprobs_mode":"raw_logprobs")").sampling.logprobs_mode,
              engine::LogprobsMode::raw);
    EXPECT_EQ(parsed(R"(,"logprobs":true,"logprobs_mode":"processed_logprobs")").sampling.logprobs_mode,
              engine::LogprobsMode::processed);
}

TEST(GenerationOptions, SeveralAnswers) {
    EXPECT_EQ(parsed("").n, 1);
    EXPECT_EQ(parsed(R"(,"n":5)").best_of, 5);
    const auto completion = parse_completion_request(text + R"(,"n":2,"best_of":7})");
    ASSERT_TRUE(static_cast<bool>(completion));
    EXPECT_EQ(completion->options.n, 2);
    EXPECT_EQ(completion->options.best_of, 7);
    EXPECT_EQ(parse_completion_request(text + R"(,"n":3,"best_of":2})").error().param, "best_of");
    EXPECT_EQ(parse_completion_request(text + R"(,"best_of":2,"stream":true})").error().param, "best_of");
    EXPECT_TRUE(static_cast<bool>(parse_completion_request(text + R"(,"n":2,"best_of":2,"stream":true})")));
}

TEST(GenerationOptions, PromptLogprobs) {
    EXPECT_EQ(parsed("").sampling.prompt_logprobs, -1);
    EXPECT_EQ(parsed(R"(,"prompt_logprobs":0)").sampling.prompt_logprobs, 0);
    EXPECT_EQ(refused(R"(,"prompt_logprobs":1,"stream":true)").param, "prompt_logprobs");
    EXPECT_EQ(refused(R"(,"prompt_logprobs":21)").param, "prompt_logprobs");
    const auto echo = parse_completion_request(text + R"(,"echo":true,"logprobs":4,"prompt_logprobs":2})");
    ASSERT_TRUE(static_cast<bool>(echo));
    EXPECT_EQ(echo->options.sampling.prompt_logprobs, 4);
    EXPECT_EQ(echo->options.prompt_logprobs, 2);
    EXPECT_EQ(parse_completion_request(text + R"(,"echo":true})")->options.sampling.prompt_logprobs, -1);
}

TEST(GenerationOptions, CompletionsCountMinTokensAgainstTheirDefault) {
    EXPECT_TRUE(static_cast<bool>(parse_completion_request(text + R"(,"min_tokens":16})")));
    EXPECT_EQ(parse_completion_request(text + R"(,"min_tokens":17})").error().param, "min_tokens");
}

}  // namespace
}  // namespace deepinfer::api
