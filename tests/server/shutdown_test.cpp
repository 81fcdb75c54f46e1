// A server before its model is there, while it drains, and at its end.
#include <gtest/gtest.h>

#include "server/fixture.h"
#include "support/few_threads.h"

namespace deepinfer::testing {
namespace {

using std::chrono::milliseconds;

TEST_F(ServerTest, NotReadyBeforeTheModelIsLoaded) {
    server::ServerOptions options;
    options.port = 0;
    server_ = std::move(*server::Server::start(std::move(options)));
    EXPECT_EQ(request("GET", "/health").status, 200);
    EXPECT_EQ(request("GET", "/readyz").status, 503);
    EXPECT_EQ(request("GET", "/metrics").status, 200);
    const Response response = request("POST", "/v1/chat/completions", hello);
    EXPECT_EQ(response.status, 503);
    EXPECT_TRUE(response.has("Retry-After"));
    server_->set_model(make_model({}, &engine_));
    EXPECT_EQ(request("GET", "/readyz").status, 200);
    EXPECT_EQ(request("POST", "/v1/chat/completions", hello).status, 200);
}

TEST(ServerStart, ThreadsThatTheSystemDoesNotGiveAreAnError) {
    for (unsigned more : {0u, 1u, 2u}) {  // with some started, those must end
        const auto start = [more] {
            allow_threads(more);
            server::ServerOptions options;
            options.port = 0;
            exit_with(server::Server::start(options));
        };
        EXPECT_EXIT(start(), ::testing::ExitedWithCode(0), "cannot start thread . of 3 of the server");
    }
}

TEST_F(ServerTest, DrainFinishesRunningAnswersAndRefusesNewOnes) {
    ModelOptions model;
    model.script = [](const engine::Request&) {
        return ScriptedEngine::Answer{.tokens = bytes_of(std::string(100, 'y')),
                                      .per_token = milliseconds(5)};
    };
    start(std::move(model));
    std::vector<std::unique_ptr<Client>> streams;
    for (int i = 0; i < 20; ++i) {
        streams.push_back(std::make_unique<Client>(server_->port()));
        streams.back()->send_request("POST", "/v1/chat/completions", hello_stream);
    }
    ASSERT_TRUE(soon([&] { return engine_->stats().running == 20; }));
    Client open(server_->port());
    EXPECT_EQ(open.request("GET", "/health").status, 200);
    std::thread drain([&] { server_->drain(std::chrono::seconds(30)); });
    EXPECT_TRUE(soon([&] { return request("GET", "/readyz").status == 503; }, 500));
    EXPECT_EQ(open.request("POST", "/v1/chat/completions", hello).status, 503);
    for (auto& stream : streams) {
        const Response response = stream->read_response();
        EXPECT_NE(response.body.find("data: [DONE]"), std::string::npos);
    }
    drain.join();
    EXPECT_EQ(engine_->stats().cancelled_total, 0u);
}

TEST_F(ServerTest, WhoIsCutOffByTheEndOfDrainingIsTold) {
    start(endless());
    Client stream(server_->port()), whole(server_->port());
    stream.send_request("POST", "/v1/chat/completions", hello_stream);
    whole.send_request("POST", "/v1/chat/completions", hello);
    ASSERT_TRUE(soon([&] { return engine_->stats().running == 2; }));
    server_->drain(milliseconds(50));
    EXPECT_NE(stream.read_response().body.find("shutting down"), std::string::npos);
    const Response refused = whole.read_response();
    EXPECT_EQ(refused.status, 503);
    EXPECT_NE(refused.body.find("shutting down"), std::string::npos);
}

TEST_F(ServerTest, DestructionWithRunningStreamsIsQuick) {
    start(endless());
    std::vector<std::unique_ptr<Client>> streams;
    for (int i = 0; i < 20; ++i) {
        streams.push_back(std::make_unique<Client>(server_->port()));
        streams.back()->send_request("POST", "/v1/chat/completions", i % 2 ? hello_stream : hello);
    }
    ASSERT_TRUE(soon([&] { return engine_->stats().running == 20; }));
    const auto start_time = std::chrono::steady_clock::now();
    server_->drain(milliseconds(50));
    server_.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - start_time, std::chrono::seconds(2));
    for (auto& stream : streams) {
        stream->read_response();  // what it was told
        EXPECT_TRUE(stream->is_closed(1000));
    }
}

}  // namespace
}  // namespace deepinfer::testing
