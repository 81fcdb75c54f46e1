// What clients see of the prefix cache: how much was cached, and that it never matters for the answer.
#include "server/hash_server.h"

namespace deepinfer::testing {
namespace {

using namespace std::chrono_literals;

// Of `n` characters, each a token.
std::string text(size_t n, unsigned seed) {
    std::string result;
    for (size_t i = 0; i < n; ++i) {
        seed = seed * 1664525 + 1013904223;
        result += static_cast<char>('a' + (seed >> 16) % 26);
    }
    return result;
}

std::string completion(const std::string& prompt, const std::string& fields = R"("max_tokens":4)") {
    return R"({"model":"hash","ignore_eos":true,"temperature":0,"add_special_tokens":false,"logprobs":1,"prompt":")" +
           prompt + R"(",)" + fields + "}";
}

struct Answer {
    int64_t prompt = 0, cached = 0;
    std::string choices;  // everything but ids and usage
};
Answer ask(const HashServer& served, const std::string& body, std::string_view headers = {}) {
    Client client(served.server->port());
    const Response response = client.request("POST", "/v1/completions", body, headers);
    EXPECT_EQ(response.status, 200) << response.body;
    const auto json = response.json();
    const auto& usage = json.at("usage");
    return {usage.at("prompt_tokens").to_number<int64_t>(),
            usage.at("prompt_tokens_details").at("cached_tokens").to_number<int64_t>(),
            boost::json::serialize(json.at("choices"))};
}

double metric(const HashServer& served, const std::string& name) {
    Client client(served.server->port());
    const std::string body = client.request("GET", "/metrics", "").body;
    const size_t at = body.find("\ndeepinfer_" + name + " ");
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? -1 : std::stod(body.substr(at + name.size() + 12));
}

// K18: two conversations by turns, in a pool with room for both several times: neither loses its blocks to the other.
TEST(PrefixCache, TwoConversationsByTurnsKeepTheirBlocks) {
    HashServer served(120, {}, 0ms);
    std::string a = text(1000, 1), b = text(1000, 2);
    for (int turn = 0; turn < 3; ++turn)
        for (std::string* conversation : {&a, &b}) {
            const Answer answer = ask(served, completion(*conversation));
            if (turn > 0) {
                EXPECT_GE(answer.cached + 64, answer.prompt - 200)
                    << turn;  // but for what is new, and a part of a block
            }
            *conversation += text(200, static_cast<unsigned>(turn));
        }
}

// K21: what one key has sent cannot be told from the times or counts that another one sees, unless sharing is on.
TEST(PrefixCache, KeysDoNotSeeEachOthersPrompts) {
    server::HandlerOptions handler;
    handler.keys = server::ApiKeys({"one", "two"});
    const std::string one = "Authorization: Bearer one\r\n", two = "Authorization: Bearer two\r\n";
    const std::string body = completion(text(700, 3));
    {
        HashServer served(100, {}, 0ms, handler);
        EXPECT_EQ(ask(served, body, one).cached, 0);
        EXPECT_EQ(ask(served, body, two).cached, 0);
        EXPECT_EQ(ask(served, body, one).cached, 640);
        // Nor by naming the other's salt: the key always counts.
        const std::string salted = completion(text(700, 3), R"("max_tokens":4,"cache_salt":"one")");
        EXPECT_EQ(ask(served, salted, two).cached, 0);
        EXPECT_EQ(ask(served, salted, two).cached, 640);
        EXPECT_EQ(ask(served, salted, one).cached, 0);
    }
    engine::EngineOptions sharing;
    sharing.share_between_tenants = true;
    HashServer served(100, sharing, 0ms, handler);
    EXPECT_EQ(ask(served, body, one).cached, 0);
    EXPECT_EQ(ask(served, body, two).cached, 640);
}

// D03: who hangs up in the middle of a long prompt and asks again finds what was computed, and gets the right answer.
TEST(PrefixCache, WhatWasComputedBeforeTheClientLeftIsFound) {
    engine::EngineOptions options;
    options.limits.max_rows = 64;
    const std::string body = completion(text(3000, 4));
    const Answer undisturbed = ask(HashServer(100, options, 0ms), body);
    HashServer served(100, options, 5ms);  // 47 steps
    Client client(served.server->port());
    client.send_request("POST", "/v1/completions",
                        completion(text(3000, 4), R"("max_tokens":4,"stream":true)"));
    ASSERT_TRUE(soon([&] { return served.engine->stats().steps_total >= 10; }));
    client.close();
    ASSERT_TRUE(soon([&] { return served.engine->stats().running == 0; }));
    const uint64_t steps = served.engine->stats().steps_total;
    EXPECT_LT(steps, 47u);
    const Answer answer = ask(served, body);
    EXPECT_GE(answer.cached, 9 * 64);
    EXPECT_EQ(answer.choices, undisturbed.choices);
}

// M01: what the answers say and what the metrics say is the same.
TEST(PrefixCache, MetricsAreTheSumOfTheAnswers) {
    HashServer served(60, {}, 0ms);  // too few for all, so some are evicted
    int64_t prompt = 0, cached = 0;
    for (unsigned i = 0; i < 40; ++i) {
        const Answer answer = ask(served, completion(text(100 + 37 * (i % 20), i % 7)));
        prompt += answer.prompt;
        cached += answer.cached;
        EXPECT_LT(answer.cached, answer.prompt);
    }
    ASSERT_TRUE(soon([&] { return metric(served, "kv_cache_usage_perc") == 0; }));
    int64_t missed = 0;
    for (const uint64_t tokens : served.engine->stats().cache_misses_total)
        missed += static_cast<int64_t>(tokens);
    EXPECT_EQ(missed, prompt - cached);
    EXPECT_GT(metric(served, "prefix_cache_misses_total{reason=\"evicted\"}"), 0);
    EXPECT_EQ(metric(served, "prefix_cache_queries_total"), static_cast<double>(prompt));
    EXPECT_EQ(metric(served, "prefix_cache_hits_total"), static_cast<double>(cached));
    EXPECT_EQ(metric(served, "prompt_tokens_total"), static_cast<double>(prompt));
    EXPECT_GT(cached, 0);
}

// K04: whatever names a conversation changes nothing of what is found.
TEST(PrefixCache, HintsDoNotLowerWhatIsFound) {
    HashServer served(100, {}, 0ms);
    ask(served, completion(text(700, 9)));
    for (const char* hint : {R"("max_tokens":4,"user":"somebody")", R"("max_tokens":4,"seed":3)",
                             R"("max_tokens":4,"prompt_cache_retention":"agent")",
                             R"("max_tokens":4,"prompt_cache_retention":"none")"})
        EXPECT_EQ(ask(served, completion(text(700, 9), hint)).cached, 640) << hint;
}

TEST(PrefixCache, AHeaderSaysWhatWasFoundAndWhyTheRestWasNot) {
    HashServer served(100, {}, 0ms);
    Client client(served.server->port());
    for (const char* status : {"fwd=miss; prompt=200; new=192; partial_block=8",
                               "fwd=partial; prompt=200; memory=192; partial_block=8"}) {
        const Response response = client.request("POST", "/v1/completions", completion(text(200, 11)));
        EXPECT_TRUE(response.has(std::string("\r\nCache-Status: deepinfer; ") + status + "\r\n"))
            << response.head;
    }
}

TEST(PrefixCache, FieldsOfRequestsAreChecked) {
    HashServer served(60, {}, 0ms);
    for (const char* good :
         {R"("prompt_cache_retention":"24h")", R"("prompt_cache_retention":"in_memory")",
          R"("prompt_cache_retention":"agent")", R"("prompt_cache_retention":null)", R"("cache_salt":"x")"})
        ask(served, completion("abc", good));
    for (const auto& [bad, name] : std::vector<std::pair<std::string, std::string>>{
             {R"("prompt_cache_retention":"25h")", "prompt_cache_retention"},
             {R"("prompt_cache_retention":1)", "prompt_cache_retention"},
             {R"("cache_salt":7)", "cache_salt"},
             {R"("cache_salt":")" + std::string(300, 'x') + "\"", "cache_salt"}}) {
        Client client(served.server->port());
        const Response response = client.request("POST", "/v1/completions", completion("abc", bad));
        EXPECT_EQ(response.status, 400) << bad;
        EXPECT_NE(response.body.find(name), std::string::npos) << response.body;
    }
}

}  // namespace
}  // namespace deepinfer::testing
