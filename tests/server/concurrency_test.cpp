// What goes wrong only when things happen at the same time: the end of one request and the start of the next,
// slow requests beside quick ones, the model's arrival.
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "server/fixture.h"
#include "server/handler.h"

namespace deepinfer::testing {
namespace {

using std::chrono::milliseconds;

// What the client sends while an answer ends may arrive at any point of its end.
TEST_F(ServerTest, NextRequestMayArriveWhileAnAnswerEnds) {
    for (const int io_threads : {1, 2}) {
        server::ServerOptions options;
        options.io_threads = io_threads;
        start({}, std::move(options));
        Client client(server_->port());
        const int on = 1;
        ::setsockopt(client.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        for (int round = 0; round < 300; ++round) {
            client.send_request("POST", "/v1/chat/completions", round % 4 ? hello_stream : hello);
            if (round % 2) {  // the next one in small pieces, while the answer is being made
                client.send("GET /v1/models HTTP/1.1\r\nHost: test\r\n");
                for (int i = 0; i < 60; ++i) client.send("X-" + std::to_string(i) + ": 1\r\n");
                client.send("\r\n");
                ASSERT_EQ(client.read_response(3000).status, 200) << round;
            } else {  // the next one at once after the last byte
                ASSERT_EQ(client.read_response(3000).status, 200) << round;
                client.send_request("GET", "/v1/models");
            }
            ASSERT_EQ(client.read_response(3000).status, 200) << round;
        }
        client.close();
        server_.reset();
    }
}

// A request that is refused since there was no model is refused, even if there is one a moment later.
TEST(HandlerTest, RaceWithSetModelNeverAnswersForAnotherRoute) {
    ScriptedEngine* engine = nullptr;
    const std::shared_ptr<const server::ServedModel> model = make_model({}, &engine);
    server::Handler handler({});
    std::atomic<bool> stop{false};
    std::thread toggle([&] {
        while (!stop) {
            handler.set_model(model);
            handler.set_model(nullptr);
        }
    });
    server::RequestHead head;
    head.method = "POST";
    head.path = "/tokenize";
    std::map<int, int> seen;
    for (int i = 0; i < 1'000'000 && (i < 50'000 || seen.size() < 2); ++i) {
        const server::Reply reply = handler.handle(head, R"({"prompt":"x"})", {});
        const auto& response = std::get<server::HttpResponse>(reply);
        ++seen[response.status];
        if (response.status == 200 && response.body.find("tokens") == std::string::npos) {
            ADD_FAILURE() << response.body;
            break;
        }
    }
    stop = true;
    toggle.join();
    EXPECT_EQ(seen.size(), 2u) << "there was no race";
}

class BlockingTokenizer : public ByteTokenizer {
  public:
    explicit BlockingTokenizer(std::shared_future<void> go_on) : go_on_(std::move(go_on)) {}
    std::vector<TokenId> encode(std::string_view text, tokenizer::Special special) const override {
        ++waiting;
        go_on_.wait();
        return ByteTokenizer::encode(text, special);
    }
    mutable std::atomic<int> waiting{0};

  private:
    std::shared_future<void> go_on_;
};

TEST_F(ServerTest, SlowPromptsDoNotHoldUpHealth) {
    start();
    std::promise<void> go_on;
    auto model = make_model({.chat_template = false}, &engine_);
    auto tokenizer = std::make_unique<BlockingTokenizer>(go_on.get_future().share());
    const BlockingTokenizer& blocking = *tokenizer;
    model->tokenizer = std::move(tokenizer);
    server_->set_model(model);
    Client a(server_->port()), b(server_->port()), other(server_->port());
    for (Client* client : {&a, &b}) client->send_request("POST", "/tokenize", R"({"prompt":"x"})");
    EXPECT_TRUE(soon([&] { return blocking.waiting == 2; }));  // as many as the pool has threads
    for (const char* path :
         {"/health", "/livez", "/readyz", "/metrics", "/v1/models", "/v1/models/scripted"}) {
        other.send_request("GET", path);
        EXPECT_EQ(other.read_response(1000).status, 200) << path;
    }
    go_on.set_value();
    EXPECT_EQ(a.read_response().status, 200);
    EXPECT_EQ(b.read_response().status, 200);
}

}  // namespace
}  // namespace deepinfer::testing
