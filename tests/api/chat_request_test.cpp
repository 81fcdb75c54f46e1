#include "api/chat_request.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "api/completion_request.h"
#include "api/request_fields.h"

namespace deepinfer::api {
namespace {

const std::string hello = R"("messages":[{"role":"user","content":"Hi"}])";

ChatRequest parsed(const std::string& body) {
    auto request = parse_chat_request(body);
    EXPECT_TRUE(static_cast<bool>(request)) << (request ? "" : request.error().message) << "\n" << body;
    return request ? *request : ChatRequest();
}

ApiError refused(const std::string& body) {
    const auto request = parse_chat_request(body);
    EXPECT_FALSE(static_cast<bool>(request)) << body;
    return request ? ApiError() : request.error();
}

TEST(ChatRequest, Minimal) {
    const ChatRequest request = parsed("{" + hello + "}");
    ASSERT_EQ(request.conversation.messages.size(), 1u);
    EXPECT_EQ(request.conversation.messages[0].role, recipe::Role::user);
    EXPECT_EQ(request.conversation.messages[0].content, "Hi");
    EXPECT_EQ(request.options.sampling.temperature, 1.0f);
    EXPECT_EQ(request.options.sampling.top_logprobs, -1);
    EXPECT_FALSE(request.options.max_tokens);
    EXPECT_FALSE(request.options.seed);
    EXPECT_FALSE(request.options.stream);
}

TEST(ChatRequest, EveryRole) {
    const ChatRequest request = parsed(R"({"messages":[
        {"role":"system","content":"s"},
        {"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"user","content":"u","name":"Ann"},
        {"role":"assistant","content":null,"refusal":null,"annotations":[],"audio":null,"function_call":null,
         "reasoning_content":"hm",
         "tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},
        {"role":"tool","tool_call_id":"c1","content":"42"},
        {"role":"assistant","content":"done","tool_calls":null}]})");
    const auto& messages = request.conversation.messages;
    ASSERT_EQ(messages.size(), 6u);
    EXPECT_EQ(messages[1].content, "a\nb");
    EXPECT_EQ(messages[2].name, "Ann");
    EXPECT_FALSE(messages[3].content);
    EXPECT_EQ(messages[3].reasoning, "hm");
    ASSERT_EQ(messages[3].tool_calls.size(), 1u);
    EXPECT_EQ(messages[3].tool_calls[0].arguments, R"({"x":1})");
    EXPECT_EQ(messages[4].tool_call_id, "c1");
}

TEST(ChatRequest, NullIsAbsent) {
    const ChatRequest request = parsed(
        "{" + hello +
        R"(,"temperature":null,"stop":null,"stream":null,"stream_options":null,"n":null,"logit_bias":null,"tools":null,
            "max_tokens":null,"seed":null,"response_format":null,"audio":null,"reasoning_effort":null,"functions":null})");
    EXPECT_EQ(request.options.sampling.temperature, 1.0f);
}

TEST(ChatRequest, NeutralValuesAndHintsAreTaken) {
    parsed("{" + hello + R"(,"n":1,"frequency_penalty":0,"presence_penalty":0.0,"logit_bias":{},"tools":[],
        "tool_choice":"auto","response_format":{"type":"text"},"store":false,"service_tier":"auto","modalities":["text"],
        "user":"u","metadata":{"a":"b"},"prompt_cache_key":"k","safety_identifier":"s","verbosity":"medium",
        "parallel_tool_calls":true,"prediction":{"type":"content","content":"x"},"function_call":"none"})");
    const ChatRequest request =
        parsed("{" + hello + R"(,"tools":[{"type":"function"}],"tool_choice":"none"})");
    EXPECT_TRUE(request.conversation.tools.empty());  // not mentioned in the prompt
}

TEST(ChatRequest, HintsHaveTypes) {
    for (const auto& [field, value] :
         std::vector<std::pair<std::string, std::string>>{{"user", "1"},
                                                          {"metadata", "[]"},
                                                          {"metadata", R"("a")"},
                                                          {"prompt_cache_key", "{}"},
                                                          {"prompt_cache_options", "true"},
                                                          {"safety_identifier", "false"},
                                                          {"prediction", R"("x")"},
                                                          {"parallel_tool_calls", R"("yes")"}}) {
        const ApiError error = refused("{" + hello + ",\"" + field + "\":" + value + "}");
        EXPECT_EQ(error.param, field);
        EXPECT_EQ(error.code, "invalid_type") << field;
    }
    const auto part = [](const std::string& more) {
        return R"({"messages":[{"role":"user","content":[{"type":"text","text":"a",)" + more + "}]}]}";
    };
    parsed(part(R"("cache_control":{"type":"ephemeral"},"annotations":[])"));
    EXPECT_EQ(refused(part(R"("cache_control":5)")).param, "messages[0].content[0].cache_control");
    EXPECT_EQ(refused(part(R"("cache_control":{"ttl":"2h"})")).param,
              "messages[0].content[0].cache_control.ttl");
    EXPECT_EQ(refused(part(R"("cache_control":{"ttl":1})")).code, "invalid_type");
    using engine::Retention;
    EXPECT_EQ(parsed(part(R"("annotations":[])")).options.retention, std::nullopt);
    EXPECT_EQ(parsed(part(R"("cache_control":{"type":"ephemeral"})")).options.retention, Retention::agent);
    EXPECT_EQ(parsed(part(R"("cache_control":{"ttl":"5m"})")).options.retention, Retention::agent);
    EXPECT_EQ(parsed(part(R"("cache_control":{"ttl":"1h"})")).options.retention, Retention::chat);
    EXPECT_EQ(parsed(R"({"prompt_cache_retention":"none","messages":[{"role":"user","content":[)"
                     R"({"type":"text","text":"a","cache_control":{"ttl":"1h"}},)"
                     R"({"type":"text","text":"b","cache_control":{"ttl":"5m"}}]}]})")
                  .options.retention,
              Retention::none);
    EXPECT_EQ(refused(part(R"("annotations":{})")).code, "invalid_type");
    EXPECT_EQ(refused(R"({"messages":[{"role":"user","content":"a","annotations":5}]})").param,
              "messages[0].annotations");
}

TEST(ChatRequest, UnsupportedValuesAreRefusedByName) {
    for (const auto& [field, value] : std::vector<std::pair<std::string, std::string>>{
             {"tools", R"([{"type":"function","function":{"name":"f"}}])"},
             {"tool_choice", R"("required")"},
             {"tool_choice", R"({"type":"function","function":{"name":"f"}})"},
             {"response_format", R"({"type":"json_object"})"},
             {"response_format", R"({"type":"json_schema","json_schema":{"name":"x","schema":{}}})"},
             {"store", "true"},
             {"service_tier", R"("flex")"},
             {"modalities", R"(["text","audio"])"},
             {"audio", R"({"voice":"x","format":"wav"})"},
             {"functions", R"([{"name":"f"}])"},
             {"function_call", R"("auto")"},
             {"reasoning_effort", R"("low")"},
             {"web_search_options", R"({"a":1})"},
             {"web_search_options", "{}"},
             {"verbosity", R"("low")"},
             {"moderation", "{}"}}) {
        const ApiError error = refused("{" + hello + ",\"" + field + "\":" + value + "}");
        EXPECT_EQ(error.status, 400) << field;
        EXPECT_EQ(error.param, field);
        EXPECT_EQ(error.code, "unsupported_parameter") << field;
        EXPECT_NE(error.message.find(field), std::string::npos);
    }
    EXPECT_EQ(refused("{" + hello + R"(,"frequency_penality":0})").code, "unknown_parameter");
}

// The fields of the request types of the openai SDK, version 3.57.
TEST(RequestFields, EveryFieldOfTheSdkIsInTheTable) {
    const std::set<std::string_view> chat_fields = {"messages",
                                                    "model",
                                                    "audio",
                                                    "frequency_penalty",
                                                    "function_call",
                                                    "functions",
                                                    "logit_bias",
                                                    "logprobs",
                                                    "max_completion_tokens",
                                                    "max_tokens",
                                                    "metadata",
                                                    "modalities",
                                                    "moderation",
                                                    "n",
                                                    "parallel_tool_calls",
                                                    "prediction",
                                                    "presence_penalty",
                                                    "prompt_cache_key",
                                                    "prompt_cache_options",
                                                    "prompt_cache_retention",
                                                    "reasoning_effort",
                                                    "response_format",
                                                    "safety_identifier",
                                                    "seed",
                                                    "service_tier",
                                                    "stop",
                                                    "store",
                                                    "stream_options",
                                                    "temperature",
                                                    "tool_choice",
                                                    "tools",
                                                    "top_logprobs",
                                                    "top_p",
                                                    "user",
                                                    "verbosity",
                                                    "web_search_options",
                                                    "stream"};
    const std::set<std::string_view> completion_fields = {
        "model",      "prompt",   "best_of",        "echo",   "frequency_penalty",
        "logit_bias", "logprobs", "max_tokens",     "n",      "presence_penalty",
        "seed",       "stop",     "stream_options", "suffix", "temperature",
        "top_p",      "user",     "stream"};
    std::set<std::string_view> known_chat, known_completion;
    for (const RequestField& field : request_fields()) {
        if (field.endpoints & Endpoint::chat) {
            EXPECT_TRUE(known_chat.insert(field.name).second) << field.name;
        }
        if (field.endpoints & Endpoint::completions) {
            EXPECT_TRUE(known_completion.insert(field.name).second);
        }
        EXPECT_EQ(field.use != FieldUse::implemented, field.accepts != nullptr) << field.name;
    }
    for (const auto name : chat_fields) EXPECT_TRUE(known_chat.contains(name)) << name;
    for (const auto name : completion_fields) EXPECT_TRUE(known_completion.contains(name)) << name;
}

TEST(RequestFields, EveryFieldIsDocumented) {
    std::ifstream file(std::string(DEEPINFER_TEST_DATA) + "/../docs/http-api.md");
    const std::string page((std::istreambuf_iterator<char>(file)), {});
    for (const RequestField& field : request_fields())
        EXPECT_NE(page.find("`" + std::string(field.name) + "`"), std::string::npos) << field.name;
}

TEST(ChatRequest, StopForms) {
    EXPECT_EQ(parsed("{" + hello + R"(,"stop":"x"})").options.stop, std::vector<std::string>{"x"});
    EXPECT_EQ(parsed("{" + hello + R"(,"stop":["x","y"]})").options.stop,
              (std::vector<std::string>{"x", "y"}));
    EXPECT_TRUE(parsed("{" + hello + R"(,"stop":[]})").options.stop.empty());
    EXPECT_EQ(refused("{" + hello + R"(,"stop":[""]})").param, "stop[0]");
    EXPECT_EQ(refused("{" + hello + R"(,"stop":[1]})").param, "stop[0]");
    std::string many = R"("x")";
    for (int i = 0; i < 16; ++i) many += R"(,"x")";
    EXPECT_EQ(refused("{" + hello + ",\"stop\":[" + many + "]}").param, "stop");
    EXPECT_EQ(refused("{" + hello + ",\"stop\":\"" + std::string(257, 'x') + "\"}").param, "stop");
}

TEST(ChatRequest, Numbers) {
    EXPECT_EQ(*parsed("{" + hello + R"(,"max_tokens":16.0})").options.max_tokens, 16);
    EXPECT_EQ(*parsed("{" + hello + R"(,"max_completion_tokens":7,"max_tokens":7})").options.max_tokens, 7);
    EXPECT_EQ(refused("{" + hello + R"(,"max_completion_tokens":7,"max_tokens":8})").param, "max_tokens");
    EXPECT_EQ(refused("{" + hello + R"(,"max_tokens":1.5})").code, "invalid_type");
    EXPECT_EQ(refused("{" + hello + R"(,"max_tokens":0})").code, "invalid_value");
    EXPECT_EQ(*parsed("{" + hello + R"(,"seed":-9223372036854775808})").options.seed, uint64_t{1} << 63);
    EXPECT_EQ(refused("{" + hello + R"(,"seed":9223372036854775808})").param, "seed");
    EXPECT_EQ(parsed("{" + hello + R"(,"top_k":-1})").options.sampling.top_k, 0);
    EXPECT_EQ(parsed("{" + hello + R"(,"logprobs":true})").options.sampling.top_logprobs, 0);
    EXPECT_EQ(parsed("{" + hello + R"(,"logprobs":false,"top_logprobs":0})").options.sampling.top_logprobs,
              -1);
    EXPECT_EQ(refused("{" + hello + R"(,"top_logprobs":2})").param, "top_logprobs");
}

TEST(ChatRequest, TemplateOptions) {
    const ChatRequest request = parsed(
        "{" + hello + R"(,"chat_template_kwargs":{"enable_thinking":false},"add_generation_prompt":false})");
    EXPECT_EQ(request.conversation.template_options.at("enable_thinking"), false);
    EXPECT_FALSE(request.add_generation_prompt);
    for (const std::string name :
         {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"}) {
        const std::string member = R"(,"chat_template_kwargs":{")" + name + R"(":"x"}})";
        const ApiError error = refused("{" + hello + member);
        EXPECT_EQ(error.param, "chat_template_kwargs") << name;
        EXPECT_NE(error.message.find("'" + name + "'"), std::string::npos) << error.message;
        const auto tokenized = parse_tokenize_request("{" + hello + member);
        ASSERT_FALSE(static_cast<bool>(tokenized)) << name;
        EXPECT_EQ(tokenized.error().param, "chat_template_kwargs") << name;
    }
}

TEST(CompletionRequest, PromptForms) {
    const auto text = parse_completion_request(R"({"prompt":"x"})");
    ASSERT_TRUE(static_cast<bool>(text));
    EXPECT_EQ(text->prompts, std::vector<Prompt>{Prompt("x")});
    EXPECT_EQ(*text->options.max_tokens, 16);
    const auto tokens = parse_completion_request(R"({"prompt":[1,2]})");
    ASSERT_TRUE(static_cast<bool>(tokens));
    EXPECT_EQ(tokens->prompts, std::vector<Prompt>{Prompt(std::vector<TokenId>{1, 2})});
    const auto several = parse_completion_request(R"({"prompt":["a",[3]]})");
    ASSERT_TRUE(static_cast<bool>(several));
    EXPECT_EQ(several->prompts, (std::vector<Prompt>{Prompt("a"), Prompt(std::vector<TokenId>{3})}));
    EXPECT_FALSE(static_cast<bool>(parse_completion_request(R"({"prompt":[]})")));
    EXPECT_FALSE(static_cast<bool>(parse_completion_request(R"({"prompt":[1,"a"]})")));
    EXPECT_EQ(parse_completion_request(R"({"prompt":"x","suffix":"y"})").error().param, "suffix");
    EXPECT_EQ(parse_completion_request(R"({"prompt":"x","messages":[]})").error().param, "messages");
}

TEST(ApiErrors, TakeOpenAisForm) {
    EXPECT_EQ(to_json(bad_request("a", "b")),
              R"({"error":{"message":"b","type":"invalid_request_error","param":"a","code":null}})");
    const ApiError error = context_length_exceeded(2000, 1024);
    EXPECT_EQ(error.status, 400);
    EXPECT_NE(error.message.find("2000"), std::string::npos);
    EXPECT_NE(error.message.find("1024"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::api
