// Deadlines, priorities, shares and cancelling, from the request to the engine's blocks.
#include "server/hash_server.h"

namespace deepinfer::testing {
namespace {

using namespace std::chrono_literals;

std::string completion(std::string_view fields, std::string_view prompt = "Once upon a time") {
    return R"({"model":"hash","ignore_eos":true,"prompt":")" + std::string(prompt) + R"(",)" +
           std::string(fields) + "}";
}

bool everything_is_back(const HashServer& served) {
    const engine::EngineStats s = served.engine->stats();
    return s.running == 0 && s.waiting == 0 && s.blocks_free == s.blocks_total;
}

Response post(const HashServer& served, std::string_view body, std::string_view headers = {}) {
    Client client(served.server->port());
    return client.request("POST", "/v1/completions", body, headers);
}

TEST(Scheduling, ATimeoutEndsARequestAndItsBlocksComeBack) {
    HashServer served(70, {}, 2ms);
    const Response late = post(served, completion(R"("max_tokens":4000,"timeout":0.05)"));
    EXPECT_EQ(late.status, 504) << late.body;
    EXPECT_NE(late.body.find("deadline_exceeded"), std::string::npos) << late.body;
    const Response stream = post(served, completion(R"("max_tokens":4000,"timeout":0.05,"stream":true)"));
    EXPECT_EQ(stream.status, 200);
    EXPECT_NE(stream.body.find("deadline_exceeded"), std::string::npos) << stream.body;
    EXPECT_EQ(post(served, completion(R"("max_tokens":4,"timeout":60)")).status, 200);
    for (const char* wrong : {R"("timeout":0)", R"("timeout":-1)", R"("timeout":"1")", R"("timeout":1e9)"}) {
        const Response refused = post(served, completion(wrong));
        EXPECT_EQ(refused.status, 400) << wrong;
        EXPECT_NE(refused.body.find("'timeout'"), std::string::npos) << refused.body;
    }
    EXPECT_TRUE(soon([&] { return everything_is_back(served); }));
}

TEST(Scheduling, TheServersTimeoutHoldsForEveryRequest) {
    server::HandlerOptions handler;
    handler.longest_timeout = 0.05;
    HashServer served(70, {}, 2ms, handler);
    EXPECT_EQ(post(served, completion(R"("max_tokens":4000)")).status, 504);
    EXPECT_EQ(post(served, completion(R"("max_tokens":4000,"timeout":60)")).status, 504);
    EXPECT_EQ(post(served, completion(R"("max_tokens":4)")).status, 200);
}

// One place to run in: those that wait go by their priority, not by their arrival.
TEST(Scheduling, UrgentRequestsGoFirst) {
    engine::EngineOptions options;
    options.limits.max_running = 1;
    HashServer served(70, options, 1ms);
    Client first(served.server->port());
    first.send_request("POST", "/v1/completions", completion(R"("max_tokens":2000,"stream":true)"));
    ASSERT_TRUE(first.wait_for("data: "));
    std::vector<std::unique_ptr<Client>> clients;
    for (const int priority : {5, 0, -3}) {
        clients.push_back(std::make_unique<Client>(served.server->port()));
        clients.back()->send_request(
            "POST", "/v1/completions",
            completion(R"("max_tokens":100,"priority":)" + std::to_string(priority)));
        ASSERT_TRUE(soon([&] { return served.engine->stats().waiting == static_cast<int>(clients.size()); }));
    }
    first.close();
    EXPECT_EQ(clients[2]->read_response().status, 200);
    EXPECT_FALSE(clients[1]->receive(20)) << "takes 100 ms more";
    EXPECT_EQ(clients[1]->read_response().status, 200);
    EXPECT_FALSE(clients[0]->receive(20));
    EXPECT_EQ(clients[0]->read_response().status, 200);
    EXPECT_EQ(post(served, completion(R"("priority":0.5)")).status, 400);
    EXPECT_EQ(post(served, completion(R"("priority":1000001)")).status, 400);
}

// Two keys, one of four times the other's weight, both with more than they can have: tokens by weight.
TEST(Scheduling, KeysShareByTheirWeights) {
    const std::string heavy = "heavy", light = "light";
    engine::EngineOptions options;
    options.limits.max_running = 2;
    options.tenant_weights[server::ApiKeys::tenant_name(heavy)] = 4;
    server::HandlerOptions handler;
    handler.keys = server::ApiKeys({heavy, light});
    HashServer served(70, options, 1ms, handler);
    std::atomic<bool> stop{false};
    std::atomic<int> done[2] = {0, 0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 16; ++i)
        clients.emplace_back([&, i] {
            const std::string header = "Authorization: Bearer " + (i % 2 ? light : heavy) + "\r\n";
            while (!stop) done[i % 2] += post(served, completion(R"("max_tokens":4)"), header).status == 200;
        });
    std::this_thread::sleep_for(1500ms);
    stop = true;
    for (std::thread& client : clients) client.join();
    const double ratio = static_cast<double>(done[0]) / done[1];
    EXPECT_GT(ratio, 2.5) << done[0] << " and " << done[1];
    EXPECT_LT(ratio, 6) << done[0] << " and " << done[1];
}

TEST(Scheduling, AFullContextEndsAnAnswerAsLength) {
    HashServer served(70, {}, 0us);
    const std::string prompt(4000, 'a');
    const Response response = post(served, completion(R"("max_tokens":512)", prompt));
    ASSERT_EQ(response.status, 200) << response.body;
    const boost::json::value body = response.json();
    EXPECT_EQ(body.at("choices").at(0).at("finish_reason").as_string(), "length");
    const int64_t completion_tokens = body.at("usage").at("completion_tokens").as_int64();
    EXPECT_EQ(completion_tokens, 4096 - body.at("usage").at("prompt_tokens").as_int64());
}

// Who gives up while others are served takes nothing from them.
TEST(Scheduling, AQueuedClientThatGoesLeavesTheOthersAlone) {
    engine::EngineOptions options;
    options.limits.max_running = 1;
    HashServer served(70, options, 1ms);
    const std::string body = completion(R"("max_tokens":200,"stream":true,"seed":7)");
    const Response alone = post(served, body);
    Client streaming(served.server->port());
    streaming.send_request("POST", "/v1/completions", body);
    ASSERT_TRUE(streaming.wait_for("data: "));
    for (int i = 0; i < 10; ++i) {
        Client queued(served.server->port());
        queued.send_request("POST", "/v1/completions", body);
        ASSERT_TRUE(soon([&] { return served.engine->stats().waiting == 1; }));
        queued.close();
        ASSERT_TRUE(soon([&] { return served.engine->stats().waiting == 0; }));
    }
    const Response beside = streaming.read_response();
    const auto texts = [](const Response& response) {
        std::string text;
        for (const boost::json::value& event : events_of(response.body))
            if (event.is_object()) text += event.at("choices").at(0).at("text").as_string();
        return text;
    };
    EXPECT_FALSE(texts(alone).empty());
    EXPECT_EQ(texts(beside), texts(alone));
    EXPECT_TRUE(soon([&] { return everything_is_back(served); }));
}

}  // namespace
}  // namespace deepinfer::testing
