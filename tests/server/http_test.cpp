// HTTP itself: routes, errors, limits, keys, connections.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "server/fixture.h"

namespace deepinfer::testing {
namespace {

using std::chrono::milliseconds;

server::ServerOptions quick() {
    server::ServerOptions options;
    options.keep_alive_comment = milliseconds(50);
    options.header_timeout = milliseconds(200);
    options.idle_timeout = milliseconds(400);
    options.body_grace = milliseconds(200);
    return options;
}

std::string code_of(const Response& response) {
    const boost::json::value body = response.json();
    const boost::json::value& error = body.at("error");
    EXPECT_TRUE(error.at("message").is_string());
    EXPECT_TRUE(error.at("type").is_string());
    EXPECT_TRUE(error.as_object().contains("param"));
    return error.at("code").is_string() ? std::string(error.at("code").as_string()) : "";
}

TEST_F(ServerTest, RoutesAndMethods) {
    start();
    EXPECT_EQ(request("GET", "/health").status, 200);
    EXPECT_EQ(request("GET", "/livez").status, 200);
    EXPECT_EQ(request("GET", "/readyz").status, 200);
    EXPECT_EQ(request("GET", "/health?verbose=1").status, 200);
    EXPECT_EQ(request("GET", "http://test/health").status, 200);
    Response response = request("GET", "/nowhere");
    EXPECT_EQ(response.status, 404);
    EXPECT_EQ(code_of(response), "unknown_url");
    response = request("GET", "/v1/chat/completions");
    EXPECT_EQ(response.status, 405);
    EXPECT_TRUE(response.has("Allow: POST"));
    EXPECT_EQ(code_of(response), "method_not_allowed");
    EXPECT_EQ(request("DELETE", "/v1/models").status, 405);
    EXPECT_EQ(request("POST", "/health", "{}").status, 405);
    EXPECT_EQ(request("POST", "/v1/chat/completions", "{}", "Content-Type: text/plain\r\n").status, 415);
    EXPECT_EQ(request("POST", "/v1/completions", R"({"prompt":"x"})",
                      "Content-Type: application/json; charset=utf-8\r\n")
                  .status,
              200);
    Client client(server_->port());
    client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(client.read_response().status, 411);
    EXPECT_TRUE(request("GET", "/health").has("X-Request-Id: req_"));
}

TEST_F(ServerTest, HeadAndOptions) {
    start();
    Client client(server_->port());
    Response response = client.request("HEAD", "/v1/models");
    EXPECT_EQ(response.status, 200);
    EXPECT_TRUE(response.has("Content-Length: "));
    EXPECT_FALSE(response.has("Content-Length: 0\r"));
    response = client.request("OPTIONS", "/v1/completions");
    EXPECT_EQ(response.status, 204);
    EXPECT_TRUE(response.has("Allow: POST, OPTIONS"));
    EXPECT_FALSE(response.has("Access-Control"));
    EXPECT_EQ(client.request("OPTIONS", "*").status, 204);
    EXPECT_EQ(client.request("GET", "/health").body, R"({"status":"ok"})");  // nothing was left over
}

TEST_F(ServerTest, CrossOriginOnlyIfAllowed) {
    server::ServerOptions options;
    options.handler.cors_origin = "https://chat.example";
    start({}, std::move(options));
    const std::string_view mine = "Origin: https://chat.example\r\n";
    EXPECT_TRUE(
        request("GET", "/v1/models", "", mine).has("Access-Control-Allow-Origin: https://chat.example"));
    EXPECT_FALSE(request("GET", "/v1/models", "", "Origin: https://evil.example\r\n")
                     .has("Access-Control-Allow-Origin"));
    EXPECT_TRUE(request("OPTIONS", "/v1/chat/completions", "", mine)
                    .has("Access-Control-Allow-Headers: Authorization"));
}

TEST_F(ServerTest, EveryRouteButHealthNeedsTheKey) {
    server::ServerOptions options;
    options.handler.keys = server::ApiKeys({"secret-one", "secret-two"});
    options.handler.metrics_key = server::ApiKeys({"scraper"});
    start({}, std::move(options));
    for (const char* path : {"/health", "/livez", "/readyz"})
        EXPECT_EQ(request("GET", path).status, 200) << path;
    for (const char* path :
         {"/v1/models", "/v1/models/scripted", "/metrics", "/nowhere", "/v1/chat/completions", "/"}) {
        for (const char* key :
             {"", "Authorization: Bearer wrong\r\n", "Authorization: Basic c2VjcmV0LW9uZQ==\r\n",
              "Authorization: Bearer\r\n", "Authorization: Bearer secret-on\r\n", "X-Api-Key: no\r\n"}) {
            const Response response = request("GET", path, "", key);
            EXPECT_EQ(response.status, 401) << path << " " << key;
            EXPECT_EQ(code_of(response), "invalid_api_key");
            EXPECT_TRUE(response.has("WWW-Authenticate: Bearer"));
        }
    }
    for (const char* path : {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"})
        EXPECT_EQ(request("POST", path, hello).status, 401) << path;
    EXPECT_EQ(request("GET", "/v1/models", "", "Authorization: Bearer secret-two\r\n").status, 200);
    EXPECT_EQ(request("GET", "/v1/models", "", "authorization: bearer secret-one\r\n").status, 200);
    EXPECT_EQ(request("GET", "/v1/models", "", "X-Api-Key: secret-one\r\n").status, 200);
    EXPECT_EQ(request("GET", "/metrics", "", "Authorization: Bearer scraper\r\n").status, 200);
    EXPECT_EQ(request("GET", "/metrics", "", "Authorization: Bearer secret-one\r\n").status, 200);
    EXPECT_EQ(request("GET", "/v1/models", "", "Authorization: Bearer scraper\r\n").status, 401);

    // A key is a tenant.
    EXPECT_EQ(request("POST", "/v1/chat/completions", hello, "Authorization: Bearer secret-one\r\n").status,
              200);
    const std::string first = engine_->last_request().tenant;
    EXPECT_EQ(request("POST", "/v1/chat/completions", hello, "Authorization: Bearer secret-two\r\n").status,
              200);
    EXPECT_EQ(first.size(), 16u);
    EXPECT_NE(first, engine_->last_request().tenant);
}

TEST_F(ServerTest, KeepAliveAndPipelining) {
    start();
    Client client(server_->port());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(client.request("POST", "/v1/chat/completions", hello).status, 200);
    client.send_request("POST", "/v1/chat/completions", hello_stream);
    client.send_request("GET", "/v1/models");
    client.send_request("POST", "/v1/completions", R"({"prompt":"x"})");
    client.send_request("GET", "/health", "", "Connection: close\r\n");
    EXPECT_NE(client.read_response().body.find("[DONE]"), std::string::npos);
    EXPECT_NE(client.read_response().body.find("\"list\""), std::string::npos);
    EXPECT_NE(client.read_response().body.find("text_completion"), std::string::npos);
    EXPECT_TRUE(client.read_response().has("Connection: close"));
    EXPECT_TRUE(client.is_closed());
}

TEST_F(ServerTest, OldHttpStreamsUntilTheEndOfTheConnection) {
    start();
    Client client(server_->port());
    client.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(hello_stream.size()) + "\r\n\r\n" + std::string(hello_stream));
    const Response response = client.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_FALSE(response.has("Transfer-Encoding"));
    EXPECT_NE(response.body.find("data: [DONE]\n\n"), std::string::npos);
}

TEST_F(ServerTest, ExpectContinue) {
    start();
    Client client(server_->port());
    const std::string head =
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        "Expect: 100-continue\r\nContent-Length: ";
    client.send(head + std::to_string(hello.size()) + "\r\n\r\n");
    EXPECT_EQ(client.read_response().status, 100);
    client.send(hello);
    EXPECT_EQ(client.read_response().status, 200);
    client.send(head + "999999999\r\n\r\n");
    EXPECT_EQ(client.read_response().status, 413);  // before the body is sent
}

TEST_F(ServerTest, ChunkedBodies) {
    start();
    Client client(server_->port());
    client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (size_t i = 0; i < hello.size(); i += 7) {
        const std::string_view part = hello.substr(i, 7);
        client.send("" + std::to_string(part.size()) + "\r\n" + std::string(part) + "\r\n");
    }
    client.send("0\r\n\r\n");
    EXPECT_EQ(client.read_response().status, 200);
}

TEST_F(ServerTest, SizeLimits) {
    server::ServerOptions options;
    options.max_body_bytes = 100'000;
    start({}, std::move(options));
    const std::string big = R"({"prompt":")" + std::string(200'000, 'x') + "\"}";
    Response response = request("POST", "/v1/completions", big);
    EXPECT_EQ(response.status, 413);
    EXPECT_EQ(code_of(response), "request_too_large");
    {
        Client client(server_->port());
        client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        const std::string block(30'000, 'x');
        for (int i = 0; i < 5; ++i) client.send("7530\r\n" + block + "\r\n");
        EXPECT_EQ(client.read_response().status, 413);
    }
    EXPECT_EQ(request("GET", "/" + std::string(9000, 'a')).status, 414);
    EXPECT_EQ(request("GET", "/health", "", "X-Long: " + std::string(9000, 'a') + "\r\n").status, 431);
    std::string many;
    for (int i = 0; i < 70; ++i) many += "X-Field-" + std::to_string(i) + ": 1\r\n";
    EXPECT_EQ(request("GET", "/health", "", many).status, 431);
    EXPECT_EQ(request("GET", "/health", "", "X: " + std::string(70'000, 'a') + "\r\n").status, 431);
    EXPECT_EQ(request("GET", "/health").status, 200);
}

TEST_F(ServerTest, BodiesTogetherHaveALimit) {
    server::ServerOptions options;
    options.max_total_body_bytes = 100'000;
    start({}, std::move(options));
    Client chunked(server_->port());
    const std::string large = R"({"prompt":"x"})" + std::string(80'000, ' ');
    // What is only announced takes nothing from the others.
    std::vector<std::unique_ptr<Client>> announced;
    for (int i = 0; i < 10; ++i) {
        announced.push_back(std::make_unique<Client>(server_->port()));
        announced.back()->send(
            "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n"
            "Expect: 100-continue\r\n\r\n{");
        EXPECT_EQ(announced.back()->read_response().status, 100);
    }
    EXPECT_EQ(request("POST", "/v1/completions", large).status, 200);
    announced.clear();
    // What has been received does. Had the server not read it all yet, the other request would go first.
    std::unique_ptr<Client> first;
    bool refused = false;
    for (int wait = 50; wait <= 1600 && !refused; wait *= 2) {
        first.reset();
        std::this_thread::sleep_for(milliseconds(wait));
        first = std::make_unique<Client>(server_->port());
        first->send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 90001\r\n\r\n" +
                    std::string(90'000, ' '));
        std::this_thread::sleep_for(milliseconds(wait));
        const Response response =
            request("POST", "/v1/completions", R"({"prompt":")" + std::string(20'000, 'x') + "\"}");
        refused = response.status == 503 && response.has("Retry-After");
    }
    EXPECT_TRUE(refused);
    chunked.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4e20\r\n" +
                 std::string(20'000, 'x') + "\r\n");
    EXPECT_EQ(chunked.read_response().status, 503);
    EXPECT_EQ(request("POST", "/v1/completions", R"({"prompt":"x"})").status, 200);
    first.reset();
    EXPECT_TRUE(soon([&] { return request("POST", "/v1/completions", large).status == 200; }));
}

TEST_F(ServerTest, MalformedHttpGetsA4xxOrIsDropped) {
    start({}, quick());
    const std::string lines[] = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET /health\r\n\r\n",
        "GET /health HTTP/9.9\r\nHost: x\r\n\r\n",
        "GET /health HTTP/1.1\r\n\r\n",  // no Host
        "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost x\r\n\r\n",
        "GET  /health HTTP/1.1\r\nHost: x\r\n\r\n",
        "G\x01T /health HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /hea\x01lth HTTP/1.1\r\nHost: x\r\n\r\n",
        std::string("GET /hea\0lth HTTP/1.1\r\nHost: x\r\n\r\n", 34),
        "GET /health HTTP/1.1\r\nHost: x\r\nBad\x01Name: y\r\n\r\n",
        "GET /health HTTP/1.1\r\n: empty\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: "
        "chunked\r\n\r\n0\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
        "chunked\r\n\r\nffffffffffffffffff\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcdefgh\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: magic\r\nContent-Length: 2\r\n\r\n{}",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),  // TLS
        "\xff\xfe\xfd\r\n\r\n",
    };
    for (const std::string& text : lines) {
        Client client(server_->port());
        client.send(text);
        const Response response = client.read_response(3000);
        const bool refused = response.status >= 400 && response.status < 600 && response.status != 500;
        EXPECT_TRUE(response.status == 0 || refused) << response.status << " for " << text;
        if (response.status != 0) code_of(response);
    }
    EXPECT_EQ(request("GET", "/health").status, 200);
}

TEST_F(ServerTest, ALineFeedAloneIsNoVersionOfHttp) {
    start({}, quick());
    for (const char* text :
         {"GET /health HTTP/1.1\nHost: x\n\n", "GET /health HTTP/1.0\n\n", "GET /health HTTP/1.1\n\r\n"}) {
        Client client(server_->port());
        client.send(text);
        const Response response = client.read_response(3000);
        EXPECT_EQ(response.status, 400) << text;
        EXPECT_NE(response.body.find("LF alone"), std::string::npos) << response.body;
    }
    Client client(server_->port());
    client.send("GET /health HTTP/3.0\r\nHost: x\r\n\r\n");
    EXPECT_EQ(client.read_response(3000).status, 505);
}

TEST_F(ServerTest, BodiesAreChunkedOrAsTheyAre) {
    start({}, quick());
    const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n",
                      body = "\r\n10\r\n{\"prompt\":\"abc\"}\r\n0\r\n\r\n";
    for (const char* encoding :
         {"Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
          "Transfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding: identity\r\n"}) {
        Client client(server_->port());
        client.send(head + encoding + body);
        EXPECT_EQ(client.read_response(3000).status, 501) << encoding;
    }
    Client client(server_->port());
    client.send(head + "Transfer-Encoding: Chunked\r\n" + body);
    EXPECT_EQ(client.read_response(3000).status, 200);
}

TEST_F(ServerTest, RandomDamageNeverHangsOrKills) {
    start({}, quick());
    const std::string good =
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        "Content-Length: " +
        std::to_string(hello.size()) + "\r\nConnection: close\r\n\r\n" + std::string(hello);
    uint64_t state = 88172645463325252ull;
    const auto random = [&](size_t bound) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return static_cast<size_t>(state % bound);
    };
    for (int round = 0; round < 500; ++round) {
        std::string text = good;
        for (size_t i = random(4) + 1; i > 0; --i) {
            switch (random(4)) {
                case 0:
                    text[random(text.size())] = static_cast<char>(random(256));
                    break;
                case 1:
                    text.erase(random(text.size()), random(8) + 1);
                    break;
                case 2:
                    text.insert(random(text.size()), 1, static_cast<char>(random(256)));
                    break;
                case 3:
                    text.insert(random(text.size()), text.substr(random(text.size()), random(40)));
                    break;
            }
        }
        Client client(server_->port());
        client.send(text);
        ::shutdown(client.fd(), SHUT_WR);
        EXPECT_TRUE(client.is_closed(4000)) << text;
    }
    EXPECT_EQ(request("GET", "/health").status, 200);
}

TEST_F(ServerTest, SlowHeadersAndBodiesAreCutOff) {
    start({}, quick());
    Client idle(server_->port());
    Client slow_header(server_->port());
    slow_header.send("GET /health HTTP/1.1\r\nHost:");
    EXPECT_TRUE(slow_header.is_closed(2000));
    Client slow_body(server_->port());
    slow_body.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n");
    bool ended = false;
    for (int i = 0; i < 40 && !ended; ++i) {
        slow_body.send("x");
        ended = slow_body.wait_for("408", 50);
    }
    EXPECT_TRUE(ended);
    EXPECT_TRUE(idle.is_closed(2000));
}

TEST_F(ServerTest, SilentStreamsGetComments) {
    start(endless(milliseconds(2), milliseconds(400)), quick());
    Client client(server_->port());
    client.send_request("POST", "/v1/chat/completions", hello_stream);
    EXPECT_TRUE(client.wait_for("data: ", 2000));
    const std::string before = client.buffer().substr(0, client.buffer().find("data: "));
    size_t comments = 0;
    for (size_t at = 0; (at = before.find(": keep-alive\n\n", at)) != std::string::npos; ++at) ++comments;
    EXPECT_GE(comments, 4u);
    EXPECT_LE(comments, 9u);
}

TEST_F(ServerTest, DisconnectCancelsAtEveryStage) {
    ModelOptions model = endless(milliseconds(2), milliseconds(300));
    model.engine.max_running = 1;
    start(std::move(model));
    const auto cancelled = [&](uint64_t count) {
        return soon([&] { return engine_->stats().cancelled_total == count; }, 1000);
    };
    for (const std::string_view body : {hello_stream, hello}) {
        const uint64_t before = engine_->stats().cancelled_total;
        Client streaming(server_->port());
        streaming.send_request("POST", "/v1/chat/completions", body);
        ASSERT_TRUE(soon([&] { return engine_->stats().running == 1; }));
        Client queued(server_->port());
        queued.send_request("POST", "/v1/chat/completions", body);
        ASSERT_TRUE(soon([&] { return engine_->stats().waiting == 1; }));
        queued.close();
        EXPECT_TRUE(cancelled(before + 1)) << "queued";
        EXPECT_EQ(engine_->stats().running, 1) << "the other one must go on";
        streaming.close();  // during prefill
        EXPECT_TRUE(cancelled(before + 2)) << "prefill";

        Client late(server_->port());
        late.send_request("POST", "/v1/chat/completions", body);
        const uint64_t tokens = engine_->stats().generated_tokens_total;
        ASSERT_TRUE(soon([&] { return engine_->stats().generated_tokens_total > tokens + 5; }));
        late.close();
        EXPECT_TRUE(cancelled(before + 3)) << "decode";
    }
    EXPECT_EQ(engine_->stats().running, 0);
    EXPECT_TRUE(soon([&] { return server_->metrics().cancelled_disconnect == 6; }));
    EXPECT_TRUE(soon([&] { return server_->metrics().active_generations == 0; }));
    EXPECT_TRUE(soon([&] { return server_->metrics().connections == 0; }));
}

TEST_F(ServerTest, PipelinedBytesDoNotHideADisconnect) {
    start(endless(milliseconds(2), milliseconds(60'000)));
    Client client(server_->port());
    client.send_request("POST", "/v1/chat/completions", hello_stream);
    client.send_request("GET", "/health");
    ASSERT_TRUE(soon([&] { return engine_->stats().running == 1; }));
    client.close();
    EXPECT_TRUE(soon([&] { return engine_->stats().cancelled_total == 1; }, 1000));
}

TEST_F(ServerTest, AReaderThatStopsReadingIsGivenUp) {
    ModelOptions model =
        endless(milliseconds(1));  // faster, the engine could be done before the server looks
    model.engine.max_running = 8;
    server::ServerOptions options;
    options.handler.max_backlog_tokens = 1000;
    start(std::move(model), std::move(options));
    Client client(server_->port());
    const int small = 4096;
    ::setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    client.send_request("POST", "/v1/completions",
                        R"({"prompt":["a","b","c","d","e","f","g","h"],"max_tokens":500000,"stream":true,
                            "logprobs":20})");
    EXPECT_TRUE(soon([&] { return engine_->stats().cancelled_total == 8; }, 20'000));
    EXPECT_TRUE(soon([&] { return server_->metrics().cancelled_slow_reader > 0; }));
    EXPECT_EQ(server_->metrics().cancelled_disconnect, 0u);
}

TEST_F(ServerTest, FullQueueIs429WithRetryAfter) {
    ModelOptions model = endless();
    model.engine.max_running = 1;
    model.engine.max_queue = 1;
    start(std::move(model));
    Client first(server_->port()), second(server_->port());
    first.send_request("POST", "/v1/chat/completions", hello_stream);
    ASSERT_TRUE(soon([&] { return engine_->stats().running == 1; }));
    second.send_request("POST", "/v1/chat/completions", hello_stream);
    ASSERT_TRUE(soon([&] { return engine_->stats().waiting == 1; }));
    Response response = request("POST", "/v1/chat/completions", hello);
    EXPECT_EQ(response.status, 429);
    EXPECT_TRUE(response.has("Retry-After: "));
    EXPECT_EQ(response.json().at("error").at("type"), "rate_limit_error");
    // Half of a multi-prompt request does not stay behind.
    const uint64_t before = engine_->stats().cancelled_total;
    second.close();
    ASSERT_TRUE(soon([&] { return engine_->stats().waiting == 0; }));
    EXPECT_EQ(request("POST", "/v1/completions", R"({"prompt":["a","b"]})").status, 429);
    EXPECT_TRUE(soon([&] { return engine_->stats().cancelled_total == before + 2; }));
    EXPECT_EQ(engine_->stats().waiting, 0);
}

TEST_F(ServerTest, TooManyConnectionsAre503) {
    server::ServerOptions options;
    options.max_connections = 2;
    start({}, std::move(options));
    Client a(server_->port()), b(server_->port());
    EXPECT_EQ(a.request("GET", "/health").status, 200);
    EXPECT_EQ(b.request("GET", "/health").status, 200);
    EXPECT_EQ(request("GET", "/health").status, 503);
    a.close();
    EXPECT_TRUE(soon([&] { return request("GET", "/health").status == 200; }));
}

TEST_F(ServerTest, RandomDisconnectsLeakNothing) {
    ModelOptions model = endless(milliseconds(1), milliseconds(3));
    model.script = [](const engine::Request& request) {
        return ScriptedEngine::Answer{.tokens = std::vector<TokenId>(40, request.prompt[9]),
                                      .prefill = milliseconds(3),
                                      .per_token = milliseconds(1)};
    };
    model.engine.max_running = 16;
    start(std::move(model));
    uint64_t state = 1234567;
    for (int round = 0; round < 3; ++round) {
        std::vector<std::unique_ptr<Client>> clients;
        for (int i = 0; i < 100; ++i) {
            clients.push_back(std::make_unique<Client>(server_->port()));
            clients.back()->send_request("POST", "/v1/chat/completions", i % 3 ? hello_stream : hello);
        }
        size_t complete = 0;
        for (auto& client : clients) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            if (state >> 63) {
                client->close();
            } else {
                const Response response = client->read_response();
                complete += response.status == 200;
            }
        }
        EXPECT_GT(complete, 20u);
        EXPECT_TRUE(soon([&] { return engine_->stats().running == 0 && engine_->stats().waiting == 0; }));
        EXPECT_TRUE(soon([&] { return server_->metrics().active_generations == 0; }));
        clients.clear();
        EXPECT_TRUE(soon([&] { return server_->metrics().connections == 0; }));
    }
}

TEST_F(ServerTest, MetricsCount) {
    start({.script = [](const engine::Request&) {
        return ScriptedEngine::Answer{.tokens = bytes_of("abc"), .cached_tokens = 4};
    }});
    EXPECT_EQ(request("POST", "/v1/chat/completions", hello).status, 200);
    EXPECT_EQ(request("POST", "/v1/chat/completions", "{").status, 400);
    const Response response = request("GET", "/metrics");
    EXPECT_TRUE(response.has("Content-Type: text/plain; version=0.0.4"));
    for (const char* line :
         {"deepinfer_request_success_total{finished_reason=\"stop\"} 1\n",
          "deepinfer_prompt_tokens_total 22\n", "deepinfer_generation_tokens_total 3\n",
          "deepinfer_num_requests_running 0\n", "deepinfer_num_requests_waiting 0\n",
          "deepinfer_time_to_first_token_seconds_count 1\n", "deepinfer_kv_cache_usage_perc 0\n",
          "deepinfer_inter_token_latency_seconds_count 2\n",
          "deepinfer_e2e_request_latency_seconds_bucket{le=\"+Inf\"} 1\n",
          "deepinfer_http_responses_total{class=\"4xx\"} 1\n"})
        EXPECT_NE(response.body.find(line), std::string::npos) << line << response.body;
    std::ifstream file(std::string(DEEPINFER_TEST_DATA) + "/../docs/http-api.md");
    const std::string page((std::istreambuf_iterator<char>(file)), {});
    for (size_t at = 0; (at = response.body.find("# TYPE deepinfer_", at)) != std::string::npos;) {
        at += std::string_view("# TYPE deepinfer_").size();
        const std::string name = response.body.substr(at, response.body.find(' ', at) - at);
        EXPECT_TRUE(page.find("`" + name + "`") != std::string::npos ||
                    page.find("`" + name + "{") != std::string::npos)
            << name << " is not documented";
    }
}

TEST(KeyFile, SkipsBlanksAndComments) {
    const std::string path = ::testing::TempDir() + "keys.txt";
    {
        FILE* file = std::fopen(path.c_str(), "w");
        std::fputs("# team\nalpha\n\n  beta \r\ngamma\t weight=2.5\n", file);
        std::fclose(file);
    }
    const auto keys = server::read_key_file(path);
    ASSERT_TRUE(keys.ok());
    ASSERT_EQ(keys->size(), 3u);
    EXPECT_EQ((*keys)[0].key + (*keys)[1].key + (*keys)[2].key, "alphabetagamma");
    EXPECT_EQ((*keys)[1].weight, 1);
    EXPECT_EQ((*keys)[2].weight, 2.5);
    for (const char* wrong : {"a wait=2", "a weight=", "a weight=0", "a weight=-1", "a weight=nan",
                              "a weight=2x", "a weight=1e9", "a b"}) {
        FILE* file = std::fopen(path.c_str(), "w");
        std::fputs(wrong, file);
        std::fclose(file);
        const auto refused = server::read_key_file(path);
        ASSERT_FALSE(refused.ok()) << wrong;
        EXPECT_NE(refused.error().message.find("line 1: "), std::string::npos) << refused.error().message;
    }
    EXPECT_FALSE(server::read_key_file(path + ".missing").ok());
    std::remove(path.c_str());
}

}  // namespace
}  // namespace deepinfer::testing
