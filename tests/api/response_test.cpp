#include "api/response.h"

#include <gtest/gtest.h>

#include <cmath>

namespace deepinfer::api {
namespace {

const ResponseHeader chat_header{
    .dialect = Dialect::chat, .id = "chatcmpl-1", .created = 1700000000, .model = "m"};
const ResponseHeader text_header{
    .dialect = Dialect::completions, .id = "cmpl-1", .created = 1700000000, .model = "m"};

TEST(Response, ChatBody) {
    ChoiceDelta choice{.text = "Hi \"there\"\n漢"};
    choice.finish_reason = "stop";
    EXPECT_EQ(
        response_body(chat_header, {choice},
                      {.prompt_tokens = 5, .completion_tokens = 2, .cached_tokens = 4}),
        R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,)"
        R"("message":{"role":"assistant","content":"Hi \"there\"\n漢","refusal":null},"logprobs":null,)"
        R"("finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,)"
        R"("prompt_tokens_details":{"cached_tokens":4,"cached_tokens_by_tier":{"memory":4}}}})");
}

TEST(Response, ChatChunks) {
    EXPECT_EQ(
        role_chunk(chat_header, 0, false),
        R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{)"
        R"("index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,)"
        R"("finish_reason":null}]})");
    ChoiceDelta delta{.text = "x"};
    EXPECT_EQ(
        delta_chunk(chat_header, delta, true),
        R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{)"
        R"("index":0,"delta":{"content":"x"},"logprobs":null,"finish_reason":null}],"usage":null})");
    ChoiceDelta last;
    last.finish_reason = "length";
    EXPECT_NE(
        delta_chunk(chat_header, last, false).find(R"("delta":{},"logprobs":null,"finish_reason":"length")"),
        std::string::npos);
    EXPECT_NE(
        usage_chunk(chat_header, {.prompt_tokens = 1}).find(R"("choices":[],"usage":{"prompt_tokens":1,)"),
        std::string::npos);
}

TEST(Response, CompletionLogprobs) {
    ChoiceDelta choice{.text = "ab"};
    choice.logprobs = {
        {.token = {"a", -0.25f}, .top = {{"a", -0.25f}, {"\xC3", -INFINITY}}, .text_offset = 0},
        {.token = {"b", -1}, .top = {}, .text_offset = 1}};
    const std::string body = delta_chunk(text_header, choice, false);
    EXPECT_NE(body.find(R"("text":"ab")"), std::string::npos);
    EXPECT_NE(body.find(R"("tokens":["a","b"],"token_logprobs":[-2.5E-1,-1E0],"top_logprobs":[{"a":-2.5E-1,)"
                        R"("\\xc3":-9.999E3},{"b":-1E0}],"text_offset":[0,1])"),
              std::string::npos)
        << body;
}

TEST(Response, ChatLogprobsKeepBytes) {
    ChoiceDelta choice;
    choice.logprobs.emplace(1);
    choice.logprobs->front().token = {"\xF0\x9F\x8C", -0.5f};
    choice.logprobs->front().top = {{"é", -0.5f}};
    const std::string body = delta_chunk(chat_header, choice, false);
    EXPECT_NE(
        body.find(
            R"("token":"\\xf0\\x9f\\x8c","logprob":-5E-1,"bytes":[240,159,140],"top_logprobs":[{"token":"é")"),
        std::string::npos)
        << body;
}

TEST(Response, Models) {
    EXPECT_EQ(models_body("a/b", 5, 2048),
              R"({"object":"list","data":[{"id":"a/b","object":"model","created":5,"owned_by":"deepinfer",)"
              R"("max_model_len":2048}]})");
}

}  // namespace
}  // namespace deepinfer::api
