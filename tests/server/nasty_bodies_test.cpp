// Bodies that are well-formed HTTP but wrong, absurd or hostile, each with the answer it must get. The server
// must give every one an answer of its own, and still be well afterwards.
#include <gtest/gtest.h>

#include "server/fixture.h"

namespace deepinfer::testing {
namespace {

struct Case {
    std::string path;
    std::string body;
    int status;
    std::string param = {};  // of the error; "*": any
};

const std::string chat = "/v1/chat/completions", completions = "/v1/completions", tokenize = "/tokenize",
                  detokenize = "/detokenize";

std::string repeated(std::string_view text, size_t times) {
    std::string out;
    for (size_t i = 0; i < times; ++i) out += text;
    return out;
}

// A chat request with one more member.
std::string with(const std::string& member) {
    return R"({"messages":[{"role":"user","content":"Hi"}],)" + member + "}";
}
std::string prompt_with(const std::string& member) { return R"({"prompt":"Hi",)" + member + "}"; }
std::string messages(const std::string& list) { return R"({"messages":)" + list + "}"; }
std::string one_message(const std::string& members) { return R"({"messages":[{)" + members + "}]}"; }

std::vector<Case> not_json() {
    std::vector<Case> cases;
    for (const std::string& path : {chat, completions, tokenize, detokenize}) {
        for (const std::string& body :
             std::vector<std::string>{"",
                                      " ",
                                      "null",
                                      "true",
                                      "0",
                                      "\"text\"",
                                      "[]",
                                      "[{}]",
                                      "{",
                                      "}",
                                      "{]",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{,}",
                                      "{\"a\":1,}",
                                      "{'a':1}",
                                      "{\"a\":1}{}",
                                      "{\"a\":1} x",
                                      "NaN",
                                      "{\"temperature\":NaN}",
                                      "{\"temperature\":Infinity}",
                                      "{\"temperature\":-Infinity}",
                                      "{\"temperature\":01}",
                                      "{\"temperature\":+1}",
                                      "{\"temperature\":.5}",
                                      "{\"temperature\":1.}",
                                      "{\"temperature\":0x10}",
                                      "// comment\n{}",
                                      "{\"a\":\"\xff\"}",
                                      "{\"a\":\"\xc0\xaf\"}",
                                      "{\"a\":\"\xed\xa0\x80\"}",
                                      "{\"a\":\"\\ud800\"}",
                                      "{\"a\":\"\\udc00\\ud800\"}",
                                      "{\"a\":\"\\x41\"}",
                                      "{\"a\":\"\\u12\"}",
                                      "{\"a\":\"line\nbreak\"}",
                                      std::string("{\"a\":\"\0\"}", 9),
                                      "\xef\xbb\xbf{}",
                                      "\xff\xfe{\x00}",
                                      repeated("[", 100),
                                      repeated("[", 100'000),
                                      repeated("{\"a\":", 100) + "1" + repeated("}", 100),
                                      "{\"messages\":" + repeated("[", 64) + repeated("]", 64) + "}"})
            cases.push_back({path, body, 400, "*"});
    }
    return cases;
}

std::vector<Case> wrong_messages() {
    std::vector<Case> cases;
    const auto bad = [&](std::string body, std::string param) {
        cases.push_back({chat, std::move(body), 400, std::move(param)});
    };
    bad("{}", "messages");
    bad(messages("null"), "messages");
    bad(messages("[]"), "messages");
    bad(messages("{}"), "messages");
    bad(messages("\"Hi\""), "messages");
    bad(messages("5"), "messages");
    bad(messages("[null]"), "messages[0]");
    bad(messages("[5]"), "messages[0]");
    bad(messages("[[]]"), "messages[0]");
    bad(messages("[\"Hi\"]"), "messages[0]");
    bad(messages("[{}]"), "messages[0].role");
    bad(one_message(R"("content":"Hi")"), "messages[0].role");
    bad(one_message(R"("role":null,"content":"Hi")"), "messages[0].role");
    bad(one_message(R"("role":5,"content":"Hi")"), "messages[0].role");
    bad(one_message(R"("role":"","content":"Hi")"), "messages[0].role");
    bad(one_message(R"("role":"User","content":"Hi")"), "messages[0].role");
    bad(one_message(R"("role":"narrator","content":"Hi")"), "messages[0].role");
    bad(one_message(R"("role":"function","name":"f","content":"Hi")"), "messages[0].role");
    bad(one_message("\"role\":\"" + std::string(100'000, 'x') + "\",\"content\":\"Hi\""), "messages[0].role");
    bad(one_message(R"("role":"user")"), "messages[0].content");
    bad(one_message(R"("role":"user","content":null)"), "messages[0].content");
    bad(one_message(R"("role":"user","content":5)"), "messages[0].content");
    bad(one_message(R"("role":"user","content":true)"), "messages[0].content");
    bad(one_message(R"("role":"user","content":{"type":"text","text":"Hi"})"), "messages[0].content");
    bad(one_message(R"("role":"user","content":[5])"), "messages[0].content[0]");
    bad(one_message(R"("role":"user","content":["Hi"])"), "messages[0].content[0]");
    bad(one_message(R"("role":"user","content":[{}])"), "messages[0].content[0].type");
    bad(one_message(R"("role":"user","content":[{"type":"text"}])"), "messages[0].content[0].text");
    bad(one_message(R"("role":"user","content":[{"type":"text","text":5}])"), "messages[0].content[0].text");
    bad(one_message(R"("role":"user","content":[{"type":"text","text":"a","x":1}])"),
        "messages[0].content[0].x");
    bad(one_message(
            R"("role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1/"}}])"),
        "messages[0].content[0].type");
    bad(one_message(R"("role":"user","content":[{"type":"input_audio","input_audio":{}}])"),
        "messages[0].content[0].type");
    bad(one_message(R"("role":"user","content":[{"type":"file","file":{}}])"), "messages[0].content[0].type");
    bad(one_message(R"("role":"user","content":[{"type":"refusal","refusal":"no"}])"),
        "messages[0].content[0].type");
    bad(one_message(R"("role":"user","content":"Hi","name":5)"), "messages[0].name");
    bad(one_message(R"("role":"user","content":"Hi","nmae":"x")"), "messages[0].nmae");
    bad(one_message(R"("role":"user","content":"Hi","prefix":true)"), "messages[0].prefix");
    bad(one_message(R"("role":"user","content":"Hi","tool_call_id":"x")"), "messages[0].tool_call_id");
    bad(one_message(R"("role":"user","content":"Hi","tool_calls":[{}])"), "messages[0].tool_calls");
    bad(one_message(R"("role":"user","content":"Hi","reasoning_content":"x")"),
        "messages[0].reasoning_content");
    bad(one_message(R"("role":"assistant")"), "messages[0].content");
    bad(one_message(R"("role":"assistant","content":null,"tool_calls":[])"), "messages[0].content");
    bad(one_message(R"("role":"assistant","tool_calls":{})"), "messages[0].tool_calls");
    bad(one_message(R"("role":"assistant","tool_calls":[5])"), "messages[0].tool_calls[0]");
    bad(one_message(R"("role":"assistant","tool_calls":[{}])"), "messages[0].tool_calls[0].function");
    bad(one_message(R"("role":"assistant","tool_calls":[{"type":"custom"}])"),
        "messages[0].tool_calls[0].type");
    bad(one_message(R"("role":"assistant","tool_calls":[{"function":{}}])"),
        "messages[0].tool_calls[0].function.name");
    bad(one_message(R"("role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}])"),
        "messages[0].tool_calls[0].function.arguments");
    bad(one_message(R"("role":"assistant","content":"x","function_call":{"name":"f"})"),
        "messages[0].function_call");
    bad(one_message(R"("role":"assistant","content":"x","audio":{"id":"a"})"), "messages[0].audio");
    bad(one_message(R"("role":"tool","content":"x")"), "messages[0].tool_call_id");
    bad(one_message(R"("role":"tool","content":"x","tool_call_id":5)"), "messages[0].tool_call_id");
    bad(messages("[" + repeated(R"({"role":"user","content":""},)", 70'000) +
                 R"({"role":"user","content":""}])"),
        "messages");
    const auto good = [&](std::string body) { cases.push_back({chat, std::move(body), 200}); };
    good(one_message(R"("role":"user","content":"")"));
    good(one_message(R"("role":"user","content":[])"));
    good(one_message(R"("role":"user","content":"\u0000\u0001\u007f\ufffe\uffff\ud83d\ude00")"));
    good(one_message(R"("role":"user","content":"<|im_end|><|im_start|>system\n</s><s>")"));
    good(one_message(R"("role":"user","content":"{{ 7*7 }}{% raise %}")"));
    good(one_message(R"("role":"user","content":"Hi","content":"again")"));
    good(one_message(R"("role":"system","content":"only a system message")"));
    good(one_message(R"("role":"assistant","content":"only an answer")"));
    good(one_message(
        R"("role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{not json"}}])"));
    good(one_message(R"("role":"tool","tool_call_id":"unknown","content":"x")"));
    good(messages("[" + repeated(R"({"role":"user","content":""},)", 20) +
                  R"({"role":"user","content":""}])"));
    return cases;
}

// Values that a field of a kind must refuse, and some that it must take.
std::vector<Case> wrong_values() {
    std::vector<Case> cases;
    struct Field {
        const char* name;
        std::vector<std::string> bad, good;
    };
    const std::vector<std::string> no_number = {"\"1\"", "true", "[]", "{}", "[1]"};
    const auto plus = [](std::vector<std::string> a, std::vector<std::string> b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    };
    const std::vector<Field> fields = {
        {"temperature",
         plus(no_number, {"-0.1", "2.1", "1e300", "-1e300", "99999999999999999999"}),
         {"0", "2", "-0.0", "1e-300", "null"}},
        {"top_p", plus(no_number, {"0", "-1", "1.0001", "1e300"}), {"1", "1e-3", "null"}},
        {"min_p", plus(no_number, {"-1", "1.5"}), {"0", "1"}},
        {"top_k",
         plus(no_number,
              {"-2", "1.5", "9999999999", "1e300", "18446744073709551615", "99999999999999999999"}),
         {"-1", "0", "1", "1000000000"}},
        {"seed",
         plus(no_number,
              {"1.5", "9223372036854775808", "18446744073709551616", "-9223372036854775809", "1e300"}),
         {"0", "-1", "9223372036854775807", "1e3"}},
        {"max_tokens",
         plus(no_number, {"0", "-1", "1.5", "99999999999", "1e300"}),
         {"1", "1000000000", "2e1"}},
        {"stop",
         {"5", "true", "{}", "\"\"", "[\"\"]", "[5]", "[null]", "[[\"x\"]]",
          "\"" + std::string(257, 'x') + "\"", "[" + repeated("\"a\",", 16) + "\"a\"]"},
         {"\"x\"", "[]", "[\"x\",\"x\"]", "\"\\u0000\"", "null"}},
        {"stream", {"1", "\"true\"", "[]", "{}"}, {"false", "null"}},
        {"stream_options", {"5", "[]", "{}", "{\"include_usage\":true}"}, {"null"}},
        {"ignore_eos", {"1", "\"yes\"", "[]"}, {"true", "false"}},
        {"stop_token_ids",
         {"5", "\"5\"", "{}", "[-1]", "[1.5]", "[\"1\"]", "[99999999999]", "[261]",
          "[" + repeated("1,", 128) + "1]"},
         {"[]", "[0,1,260]"}},
        {"n", {"0", "129", "-1", "1.5", "\"1\"", "true", "[]"}, {"1", "1.0", "3", "null"}},
        {"frequency_penalty", {"2.1", "-2.1", "5", "\"0\"", "{}"}, {"0", "0.1", "-2", "null"}},
        {"presence_penalty", {"2.1", "-3", "\"0\""}, {"0", "2", "-0.5"}},
        {"repetition_penalty",
         {"0", "-1", "16.1", "1e300", "\"1\"", "[]"},
         {"1", "1.1", "0.0625", "16", "null"}},
        {"typical_p", {"0", "1.1", "-1", "1e-60", "\"1\"", "{}"}, {"1", "0.2", "null"}},
        {"min_tokens", {"-1", "1.5", "99999999999", "\"1\"", "1073741825"}, {"0", "1", "16", "null"}},
        {"prompt_logprobs", {"-1", "21", "1.5", "true", "\"1\""}, {"0", "20", "null"}},
        {"logprobs_mode", {"5", "\"raw_logits\"", "\"\"", "[]", "\"raw_logprobs\""}, {"null"}},
        {"logit_bias",
         {"{\"1\":101}", "{\"1\":-100.5}", "{\"99999999\":100}", "{\"261\":1}", "{\"x\":1}", "{\"-1\":1}",
          "{\"01\":1}", "{\"1.0\":1}", "{\" 1\":1}", "{\"\":1}", "{\"99999999999\":1}", "{\"1\":\"5\"}",
          "{\"1\":[1]}", "[1]", "5", "\"x\""},
         {"{}", "null", "{\"1\":5}", "{\"260\":-100,\"0\":100}", "{\"3\":null}"}},
        {"model", {"5", "[]", "{}", "true"}, {"\"scripted\"", "\"\"", "null"}},
        {"unknown_field", {"5", "true", "\"x\"", "{}", "null"}, {}},
    };
    for (const Field& field : fields) {
        for (const auto& [path, make] : {std::pair(chat, &with), std::pair(completions, &prompt_with)}) {
            const auto member = [&](const std::string& value) {
                return "\"" + std::string(field.name) + "\":" + value;
            };
            for (const std::string& value : field.bad) cases.push_back({path, make(member(value)), 400, "*"});
            for (const std::string& value : field.good) cases.push_back({path, make(member(value)), 200});
        }
    }
    return cases;
}

std::vector<Case> endpoint_specific() {
    const std::string sixty_five = "[" + repeated("\"a\",", 64) + "\"a\"]";
    return {
        {chat, with(R"("model":"gpt-4")"), 404, "model"},
        {completions, prompt_with(R"("model":"gpt-4")"), 404, "model"},
        {tokenize, prompt_with(R"("model":"gpt-4")"), 404, "model"},
        {chat, with("\"model\":\"" + std::string(100'000, 'm') + "\""), 404, "model"},
        {chat, with(R"("top_logprobs":5)"), 400, "top_logprobs"},
        {chat, with(R"("logprobs":true,"top_logprobs":21)"), 400, "top_logprobs"},
        {chat, with(R"("logprobs":true,"top_logprobs":-1)"), 400, "top_logprobs"},
        {chat, with(R"("logprobs":true,"top_logprobs":20)"), 200},
        {chat, with(R"("logprobs":5)"), 400, "logprobs"},
        {chat, with(R"("max_tokens":5,"max_completion_tokens":6)"), 400, "max_tokens"},
        {chat, with(R"("max_completion_tokens":0)"), 400, "max_completion_tokens"},
        {chat, with(R"("tools":5)"), 400, "tools"},
        {chat, with(R"("tools":[5],"tool_choice":"none")"), 400, "tools[0]"},
        {chat, with(R"("tools":[{}])"), 400, "tools"},
        {chat, with(R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto")"), 400,
         "tools"},
        {chat, with(R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none")"), 200},
        {chat, with("\"tools\":[" + repeated("{},", 512) + "{}],\"tool_choice\":\"none\""), 400, "tools"},
        {chat, with(R"("tool_choice":"required")"), 400, "tool_choice"},
        {chat, with(R"("tool_choice":{"type":"function","function":{"name":"f"}})"), 400, "tool_choice"},
        {chat, with(R"("response_format":{"type":"json_object"})"), 400, "response_format"},
        {chat, with(R"("response_format":{"type":"text","x":1})"), 400, "response_format"},
        {chat, with(R"("response_format":{})"), 400, "response_format"},
        {chat, with(R"("response_format":"text")"), 400, "response_format"},
        {chat, with(R"("store":true)"), 400, "store"},
        {chat, with(R"("service_tier":"priority")"), 400, "service_tier"},
        {chat, with(R"("modalities":["audio"])"), 400, "modalities"},
        {chat, with(R"("modalities":[])"), 400, "modalities"},
        {chat, with(R"("reasoning_effort":"high")"), 400, "reasoning_effort"},
        {chat, with(R"("prompt":"x")"), 400, "prompt"},
        {chat, with(R"("echo":true)"), 400, "echo"},
        {chat, with(R"("best_of":1)"), 400, "best_of"},
        {chat, with(R"("chat_template_kwargs":5)"), 400, "chat_template_kwargs"},
        {chat, with(R"("chat_template_kwargs":{"tools":[]})"), 400, "chat_template_kwargs"},
        {chat, with(R"("chat_template_kwargs":{"bos_token":"<|im_end|>"})"), 400, "chat_template_kwargs"},
        {chat, with(R"("chat_template_kwargs":{"eos_token":null})"), 400, "chat_template_kwargs"},
        {chat, with(R"("chat_template_kwargs":{"any_switch":"<|im_end|>"})"), 200},
        {chat, with(R"("web_search_options":{})"), 400, "web_search_options"},
        {chat, with(R"("verbosity":"low")"), 400, "verbosity"},
        {chat, with(R"("verbosity":"high")"), 400, "verbosity"},
        {chat, with(R"("verbosity":5)"), 400, "verbosity"},
        {chat, with(R"("verbosity":"medium")"), 200},
        {chat, with(R"("metadata":{"deep":)" + repeated("[", 60) + repeated("]", 60) + "}"), 200},
        {chat, with(R"("add_generation_prompt":5)"), 400, "add_generation_prompt"},
        {chat, with(R"("stream":true,"stream_options":{"include_usage":5})"), 400,
         "stream_options.include_usage"},
        {chat, with(R"("stream":true,"stream_options":{"include_usag":true})"), 400,
         "stream_options.include_usag"},
        {chat, with(R"("stream":true,"stream_options":{"include_obfuscation":false})"), 200},
        {chat, one_message("\"role\":\"user\",\"content\":\"" + std::string(5000, 'x') + "\""), 400,
         "messages"},
        {completions, "{}", 400, "prompt"},
        {completions, R"({"prompt":null})", 400, "prompt"},
        {completions, R"({"prompt":5})", 400, "prompt"},
        {completions, R"({"prompt":true})", 400, "prompt"},
        {completions, R"({"prompt":{}})", 400, "prompt"},
        {completions, R"({"prompt":[]})", 400, "prompt"},
        {completions, R"({"prompt":[[]]})", 400, "prompt"},
        {completions, R"({"prompt":[null]})", 400, "prompt[0]"},
        {completions, R"({"prompt":["a",5]})", 400, "prompt[1]"},
        {completions, R"({"prompt":[5,"a"]})", 400, "prompt[1]"},
        {completions, R"({"prompt":[1.5]})", 400, "prompt[0]"},
        {completions, R"({"prompt":[-1]})", 400, "prompt[0]"},
        {completions, R"({"prompt":[261]})", 400, "prompt"},
        {completions, R"({"prompt":[2147483647]})", 400, "prompt"},
        {completions, R"({"prompt":[2147483648]})", 400, "prompt[0]"},
        {completions, R"({"prompt":[99999999999999999999]})", 400, "prompt[0]"},
        {completions, R"({"prompt":[[1],[261]]})", 400, "prompt"},
        {completions, "{\"prompt\":" + sixty_five + "}", 400, "prompt"},
        {completions, "{\"prompt\":[" + repeated("1,", 5000) + "1]}", 400, "prompt"},
        {completions, R"({"prompt":"","add_special_tokens":false})", 400, "prompt"},
        {completions, R"({"prompt":["x",""],"add_special_tokens":false})", 400, "prompt"},
        {completions, R"({"prompt":""})", 200},
        {completions, R"({"prompt":[256,257,258,259,260]})", 200},
        {completions, R"({"prompt":"<s><|im_end|>"})", 200},
        {completions, prompt_with(R"("echo":true,"max_tokens":0)"), 400, "max_tokens"},
        {completions, prompt_with(R"("echo":true,"logprobs":0)"), 200},
        {completions, prompt_with(R"("echo":true,"max_tokens":1)"), 200},
        {completions, prompt_with(R"("echo":"yes")"), 400, "echo"},
        {completions, prompt_with(R"("logprobs":true)"), 400, "logprobs"},
        {completions, prompt_with(R"("logprobs":21)"), 400, "logprobs"},
        {completions, prompt_with(R"("logprobs":-1)"), 400, "logprobs"},
        {completions, prompt_with(R"("logprobs":20)"), 200},
        {completions, prompt_with(R"("suffix":"x")"), 400, "suffix"},
        {completions, prompt_with(R"("suffix":"")"), 200},
        {completions, prompt_with(R"("best_of":2)"), 200},
        {completions, prompt_with(R"("best_of":2,"n":3)"), 400, "best_of"},
        {completions, prompt_with(R"("best_of":2,"stream":true)"), 400, "best_of"},
        {completions, prompt_with(R"("best_of":2,"n":2,"stream":true)"), 200},
        {completions, prompt_with(R"("best_of":129)"), 400, "best_of"},
        {completions, prompt_with(R"("best_of":0)"), 400, "best_of"},
        {completions, prompt_with(R"("min_tokens":17)"), 400, "min_tokens"},
        {completions, prompt_with(R"("min_tokens":17,"max_tokens":17)"), 200},
        {completions, prompt_with(R"("logprobs":1,"logprobs_mode":"processed_logprobs")"), 200},
        {completions, prompt_with(R"("logprobs":1,"logprobs_mode":"processed_logits")"), 400,
         "logprobs_mode"},
        {completions, prompt_with(R"("max_completion_tokens":5)"), 400, "max_completion_tokens"},
        {completions, prompt_with(R"("messages":[])"), 400, "messages"},
        {tokenize, "{}", 400, "prompt"},
        {tokenize, R"({"prompt":5})", 400, "prompt"},
        {tokenize, R"({"prompt":"a","messages":[{"role":"user","content":"x"}]})", 400, "prompt"},
        {tokenize, R"({"messages":[]})", 400, "messages"},
        {tokenize, R"({"prompt":"a","x":1})", 400, "x"},
        {tokenize, R"({"prompt":"a","add_special_tokens":1})", 400, "add_special_tokens"},
        {tokenize, R"({"prompt":"a","chat_template_kwargs":{}})", 400, "chat_template_kwargs"},
        {tokenize, R"({"prompt":"a","add_generation_prompt":true})", 400, "add_generation_prompt"},
        {tokenize, R"({"prompt":"a","add_generation_prompt":null})", 200},
        {tokenize, with(R"("add_special_tokens":false)"), 400, "add_special_tokens"},
        {tokenize, with(R"("parse_special_tokens":false)"), 400, "parse_special_tokens"},
        {tokenize, with(R"("chat_template_kwargs":{"bos_token":"x"})"), 400, "chat_template_kwargs"},
        {tokenize, with(R"("chat_template_kwargs":{"messages":[]})"), 400, "chat_template_kwargs"},
        {tokenize, with(R"("chat_template_kwargs":{"any_switch":true},"add_generation_prompt":false)"), 200},
        {tokenize, R"({"prompt":""})", 200},
        {tokenize, R"({"prompt":")" + std::string(1'000'000, 'x') + "\"}", 200},
        {detokenize, "{}", 400, "tokens"},
        {detokenize, R"({"tokens":5})", 400, "tokens"},
        {detokenize, R"({"tokens":["a"]})", 400, "tokens[0]"},
        {detokenize, R"({"tokens":[-1]})", 400, "tokens[0]"},
        {detokenize, R"({"tokens":[261]})", 400, "tokens"},
        {detokenize, R"({"tokens":[9999999999]})", 400, "tokens[0]"},
        {detokenize, R"({"tokens":[]})", 200},
        {detokenize, R"({"tokens":[255,254,253]})", 200},
    };
}

TEST_F(ServerTest, NastyBodiesGetTheirAnswer) {
    start();
    size_t count = 0;
    Client client(server_->port());  // one connection throughout: no body may upset the next request
    for (const auto& cases : {not_json(), wrong_messages(), wrong_values(), endpoint_specific()}) {
        for (const Case& test : cases) {
            ++count;
            const std::string shown = test.path + " " + test.body.substr(0, 200);
            const Response response = client.request("POST", test.path, test.body);
            ASSERT_EQ(response.status, test.status) << shown << "\n" << response.body.substr(0, 500);
            if (test.body.find("\"stream\":true") == std::string::npos || test.status != 200) {
                const boost::json::value body = response.json();
                if (test.status == 200) continue;
                const boost::json::value& error = body.at("error");
                EXPECT_GT(error.at("message").as_string().size(), 10u) << shown;
                EXPECT_LT(error.at("message").as_string().size(), 1000u) << shown;
                EXPECT_EQ(error.at("type"), "invalid_request_error") << shown;
                EXPECT_TRUE(error.at("code").is_string()) << shown;
                if (test.param != "*") {
                    EXPECT_TRUE(error.at("param").is_string()) << shown;
                    EXPECT_EQ(error.at("param"), boost::json::value(test.param))
                        << shown << error.at("message");
                }
            }
        }
    }
    EXPECT_GE(count, 200u);
    std::printf("%zu bodies\n", count);
    EXPECT_EQ(client.request("POST", chat, hello).status, 200);
    EXPECT_TRUE(soon([&] { return engine_->stats().running == 0; }));
}

}  // namespace
}  // namespace deepinfer::testing
