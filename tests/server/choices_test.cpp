// Several answers to one prompt: n and best_of; and what the parameters become on the way to the engine.
#include <gtest/gtest.h>

#include <set>

#include "server/fixture.h"

namespace deepinfer::testing {
namespace {

namespace json = boost::json;

// Choice i of seed 1 answers i + 1 times the letter 'a' + i, and its tokens are the less likely the more there are.
ModelOptions letters() {
    return {.script = [](const engine::Request& request) {
        int32_t choice = 0;
        while (choice < 8 && engine::choice_seed(1, choice) != request.sampling.seed) ++choice;
        ScriptedEngine::Answer answer;
        answer.tokens.assign(static_cast<size_t>(choice) + 1, 'a' + choice);
        answer.logprob = -0.5f - std::abs(static_cast<float>(choice) - 2);  // the third is the best
        answer.cached_tokens = 2;
        return answer;
    }};
}

std::string text_of(const json::value& value) { return std::string(value.as_string()); }

TEST_F(ServerTest, NAnswersOfAChat) {
    start(letters());
    const Response response =
        request("POST", "/v1/chat/completions",
                R"({"messages":[{"role":"user","content":"x"}],"n":3,"seed":1,"logprobs":true})");
    ASSERT_EQ(response.status, 200) << response.body;
    const json::value body = response.json();
    ASSERT_EQ(body.at("choices").as_array().size(), 3u);
    for (int i = 0; i < 3; ++i) {
        const json::value& choice = body.at("choices").at(static_cast<size_t>(i));
        EXPECT_EQ(choice.at("index").to_number<int>(), i);
        EXPECT_EQ(text_of(choice.at("message").at("content")),
                  std::string(static_cast<size_t>(i) + 1, static_cast<char>('a' + i)));
        EXPECT_EQ(choice.at("logprobs").at("content").as_array().size(), static_cast<size_t>(i) + 1);
    }
    EXPECT_EQ(body.at("usage").at("completion_tokens").to_number<int>(), 6);
    EXPECT_EQ(body.at("usage").at("prompt_tokens_details").at("cached_tokens").to_number<int>(), 2)
        << "the prompt is there once";
    EXPECT_EQ(engine_->last_request().choices, 3);
}

TEST_F(ServerTest, NAnswersStreamSideBySide) {
    start(letters());
    const Response response = request(
        "POST", "/v1/completions",
        R"({"prompt":["x","y"],"n":3,"seed":1,"stream":true,"stream_options":{"include_usage":true}})");
    std::map<int, std::string> texts;
    std::map<int, int> ends;
    for (const json::value& event : events_of(response.body)) {
        if (!event.is_object()) continue;
        for (const json::value& choice : event.at("choices").as_array()) {
            const int index = choice.at("index").to_number<int>();
            texts[index] += text_of(choice.at("text"));
            ends[index] += choice.at("finish_reason").is_string();
        }
    }
    ASSERT_EQ(texts.size(), 6u) << response.body;
    for (const auto& [index, text] : texts) {
        EXPECT_EQ(text, std::string(static_cast<size_t>(index) % 3 + 1, static_cast<char>('a' + index % 3)));
        EXPECT_EQ(ends[index], 1);
    }
}

TEST_F(ServerTest, BestOfGivesTheMostLikelyPerToken) {
    start(letters());
    const Response response =
        request("POST", "/v1/completions", R"({"prompt":["x","y"],"n":2,"best_of":5,"seed":1})");
    ASSERT_EQ(response.status, 200) << response.body;
    const json::value body = response.json();
    const json::array& choices = body.at("choices").as_array();
    ASSERT_EQ(choices.size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(choices[i].at("index").to_number<size_t>(), i);
        EXPECT_EQ(text_of(choices[i].at("text")), i % 2 ? "bb" : "ccc")
            << "second and fourth are equally good";
        EXPECT_TRUE(choices[i].at("logprobs").is_null()) << "nobody asked";
    }
    EXPECT_EQ(body.at("usage").at("completion_tokens").to_number<int>(), 2 * (1 + 2 + 3 + 4 + 5));
    EXPECT_EQ(engine_->last_request().sampling.top_logprobs, 0);
}

TEST_F(ServerTest, AStopStringEndsItsChoiceOnly) {
    start(letters());
    const Response response =
        request("POST", "/v1/completions", R"({"prompt":"x","n":4,"seed":1,"stop":"bb"})");
    const json::value body = response.json();
    const std::vector<std::string> want{"a", "", "ccc", "dddd"};
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(text_of(body.at("choices").at(i).at("text")), want[i]);
}

TEST_F(ServerTest, StopStringsWaitForMinTokens) {
    start({.script = [](const engine::Request&) {
        return ScriptedEngine::Answer{.tokens = bytes_of("ab.cd.ef.")};
    }});
    const auto answer = [&](int min_tokens) {
        const Response response =
            request("POST", "/v1/completions",
                    R"({"prompt":"x","stop":["."],"min_tokens":)" + std::to_string(min_tokens) + "}");
        return text_of(response.json().at("choices").at(0).at("text"));
    };
    EXPECT_EQ(answer(0), "ab");
    EXPECT_EQ(answer(2), "ab");
    EXPECT_EQ(answer(3), "ab.cd");
    EXPECT_EQ(answer(5), "ab.cd");
    EXPECT_EQ(answer(9), "ab.cd.ef.");
    EXPECT_EQ(engine_->last_request().sampling.min_tokens, 9);
}

TEST_F(ServerTest, AnEchoHasLogprobs) {
    start(
        {.script = [](const engine::Request&) { return ScriptedEngine::Answer{.tokens = bytes_of("yz")}; }});
    const std::string body = R"({"prompt":"a\u00e9b","echo":true,"logprobs":2,"n":2,"prompt_logprobs":1)";
    const json::value answer = request("POST", "/v1/completions", body + "}").json();
    ASSERT_EQ(answer.at("choices").as_array().size(), 2u);
    for (const json::value& choice : answer.at("choices").as_array()) {
        EXPECT_EQ(text_of(choice.at("text")), "a\u00e9byz");
        const json::value& logprobs = choice.at("logprobs");
        // BOS, a, two bytes, b, y, z. A character counts when it is complete.
        EXPECT_EQ(logprobs.at("tokens"), json::array({"<s>", "a", "\\xc3", "\\xa9", "b", "y", "z"}));
        EXPECT_EQ(logprobs.at("text_offset"), json::array({0, 0, 1, 1, 2, 3, 4}));
        EXPECT_EQ(logprobs.at("token_logprobs"), json::array({nullptr, -1.0, -2.0, -3.0, -4.0, -0.5, -0.5}));
        EXPECT_TRUE(logprobs.at("top_logprobs").at(0).is_null());
        EXPECT_EQ(logprobs.at("top_logprobs").at(1).as_object().size(), 3u) << "two, and the token itself";
        const json::array& places = choice.at("prompt_logprobs").as_array();
        ASSERT_EQ(places.size(), 5u);
        EXPECT_TRUE(places[0].is_null());
        EXPECT_EQ(places[1],
                  json::value({{"97", {{"logprob", -1.0}, {"rank", 100}, {"decoded_token", "a"}}},
                               {"1", {{"logprob", -0.25}, {"rank", 1}, {"decoded_token", "\x01"}}}}));
    }
    // Streamed, the echo waits for its log-probabilities.
    const Response stream =
        request("POST", "/v1/completions", R"({"prompt":"ab","echo":true,"logprobs":0,"stream":true})");
    std::vector<std::string> texts;
    size_t tokens = 0;
    for (const json::value& event : events_of(stream.body)) {
        if (!event.is_object()) continue;
        const json::value& choice = event.at("choices").at(0);
        texts.push_back(text_of(choice.at("text")));
        if (choice.at("logprobs").is_object()) tokens += choice.at("logprobs").at("tokens").as_array().size();
    }
    ASSERT_FALSE(texts.empty());
    EXPECT_TRUE(texts[0].starts_with("ab"));
    EXPECT_EQ(tokens, 5u);
}

TEST_F(ServerTest, PromptLogprobsOfAChat) {
    start({});
    const json::value answer =
        request("POST", "/v1/chat/completions",
                R"({"messages":[{"role":"user","content":"x"}],"prompt_logprobs":0,"n":2})")
            .json();
    const json::array& places = answer.at("prompt_logprobs").as_array();
    EXPECT_EQ(places.size(), answer.at("usage").at("prompt_tokens").to_number<size_t>());
    EXPECT_TRUE(places[0].is_null());
    EXPECT_EQ(places[1].as_object().size(), 1u);
    EXPECT_FALSE(answer.at("choices").at(0).as_object().contains("prompt_logprobs"));
}

TEST_F(ServerTest, SamplingParametersReachTheEngine) {
    start({});
    const Response response =
        request("POST", "/v1/completions",
                R"({"prompt":"x","frequency_penalty":0.5,"presence_penalty":-1,"min_tokens":2,
            "repetition_penalty":1.5,"typical_p":0.25,"logit_bias":{"260":-3.5},"logprobs":2,
            "logprobs_mode":"processed_logprobs"})");
    ASSERT_EQ(response.status, 200) << response.body;
    const engine::SamplingParams s = engine_->last_request().sampling;
    EXPECT_EQ(s.frequency_penalty, 0.5f);
    EXPECT_EQ(s.presence_penalty, -1.0f);
    EXPECT_EQ(s.repetition_penalty, 1.5f);
    EXPECT_EQ(s.typical_p, 0.25f);
    EXPECT_EQ(s.min_tokens, 2);
    ASSERT_EQ(s.logit_bias.size(), 1u);
    EXPECT_EQ(s.logit_bias[0].token, 260);
    EXPECT_EQ(s.logit_bias[0].bias, -3.5f);
    EXPECT_EQ(s.logprobs_mode, engine::LogprobsMode::processed);
    const Response unknown = request("POST", "/v1/completions", R"({"prompt":"x","logit_bias":{"261":1}})");
    EXPECT_EQ(unknown.status, 400);
    EXPECT_EQ(unknown.json().at("error").at("param"), "logit_bias");
}

}  // namespace
}  // namespace deepinfer::testing
