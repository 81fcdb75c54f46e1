// A server over a scripted engine, and a plain blocking HTTP client, for tests.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <memory>
#include <string>

#include "base/json.h"
#include "server/server.h"
#include "support/byte_tokenizer.h"
#include "support/scripted_engine.h"

namespace deepinfer::testing {

inline std::vector<TokenId> bytes_of(std::string_view text) {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
}

struct ModelOptions {
    ScriptedEngine::Options engine = {};
    ScriptedEngine::Script script = [](const engine::Request&) {
        return ScriptedEngine::Answer{.tokens = bytes_of("Hello, world!")};
    };
    bool chat_template = true;
};

// Answers that do not end by themselves.
inline ModelOptions endless(std::chrono::milliseconds per_token = std::chrono::milliseconds(2),
                            std::chrono::milliseconds prefill = std::chrono::milliseconds(0)) {
    ModelOptions model;
    model.engine.context_length = 1 << 20;
    model.script = [=](const engine::Request&) {
        return ScriptedEngine::Answer{
            .tokens = std::vector<TokenId>(500'000, 'x'), .prefill = prefill, .per_token = per_token};
    };
    return model;
}

// `engine` receives a pointer for the test to look at.
inline std::shared_ptr<server::ServedModel> make_model(ModelOptions options, ScriptedEngine** engine) {
    auto model = std::make_shared<server::ServedModel>();
    model->name = "scripted";
    model->created = 1'700'000'000;
    model->tokenizer = std::make_unique<ByteTokenizer>();
    if (options.chat_template) {
        auto format = recipe::ChatFormat::create(*model->tokenizer, model->tokenizer->chat_template());
        if (!format) ADD_FAILURE() << format.error().message;
        model->chat_format = std::move(*format);
    }
    auto scripted = std::make_unique<ScriptedEngine>(options.engine, std::move(options.script));
    *engine = scripted.get();
    model->engine = std::move(scripted);
    return model;
}

struct Response {
    int status = 0;  // 0: no answer
    std::string head;
    std::string body;  // chunks joined
    boost::json::value json() const {
        auto value = parse_json(body, "body");
        EXPECT_TRUE(value.ok()) << body;
        return value ? *value : boost::json::value();
    }
    bool has(std::string_view text) const { return head.find(text) != std::string::npos; }
};

class Client {
  public:
    explicit Client(uint16_t port) {
        fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            ADD_FAILURE() << "connect";
    }
    ~Client() { close(); }
    Client(const Client&) = delete;

    void close() {
        if (fd_ >= 0) ::close(fd_);
        fd_ = -1;
    }
    int fd() const { return fd_; }

    void send(std::string_view data) {
        while (!data.empty()) {
            const ssize_t n = ::send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
            if (n <= 0) return;
            data.remove_prefix(static_cast<size_t>(n));
        }
    }

    // More bytes into the buffer; false at the end of the connection or after `timeout_ms`.
    bool receive(int timeout_ms = 5000) {
        pollfd waiting{fd_, POLLIN, 0};
        if (::poll(&waiting, 1, timeout_ms) <= 0) return false;
        char data[65536];
        const ssize_t n = ::recv(fd_, data, sizeof data, 0);
        if (n <= 0) return false;
        buffer_.append(data, static_cast<size_t>(n));
        return true;
    }
    bool is_closed(int timeout_ms = 5000) {
        while (receive(timeout_ms)) {
        }
        pollfd waiting{fd_, POLLIN, 0};
        char byte;
        return ::poll(&waiting, 1, 0) > 0 && ::recv(fd_, &byte, 1, 0) <= 0;
    }
    bool wait_for(std::string_view text, int timeout_ms = 5000) {
        while (buffer_.find(text) == std::string::npos)
            if (!receive(timeout_ms)) return false;
        return true;
    }
    const std::string& buffer() const { return buffer_; }

    Response read_response(int timeout_ms = 10000, bool head_only = false) {
        Response response;
        size_t end;
        while ((end = buffer_.find("\r\n\r\n")) == std::string::npos)
            if (!receive(timeout_ms)) return response;
        response.head = buffer_.substr(0, end + 2);
        buffer_.erase(0, end + 4);
        response.status = std::atoi(response.head.c_str() + std::strlen("HTTP/1.1 "));
        if (response.status == 100) return response;
        if (head_only) return response;
        if (response.has("Transfer-Encoding: chunked")) {
            read_chunks(response, timeout_ms);
        } else if (const size_t at = response.head.find("Content-Length: "); at != std::string::npos) {
            const size_t size = std::strtoull(response.head.c_str() + at + 16, nullptr, 10);
            while (buffer_.size() < size)
                if (!receive(timeout_ms)) break;
            response.body = buffer_.substr(0, size);
            buffer_.erase(0, std::min(size, buffer_.size()));
        } else if (response.status != 204) {
            while (receive(timeout_ms)) {
            }
            response.body = std::exchange(buffer_, {});
        }
        return response;
    }

    Response request(std::string_view method, std::string_view path, std::string_view body = {},
                     std::string_view headers = {}) {
        send_request(method, path, body, headers);
        return read_response(10000, method == "HEAD");
    }
    void send_request(std::string_view method, std::string_view path, std::string_view body = {},
                      std::string_view headers = {}) {
        std::string text = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n";
        if (method == "POST") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
        if (method == "POST" && headers.find("Content-Type") == headers.npos)
            text += "Content-Type: application/json\r\n";
        send(text + std::string(headers) + "\r\n" + std::string(body));
    }

  private:
    void read_chunks(Response& response, int timeout_ms) {
        for (;;) {
            size_t line;
            while ((line = buffer_.find("\r\n")) == std::string::npos)
                if (!receive(timeout_ms)) return;
            const size_t size = std::strtoull(buffer_.c_str(), nullptr, 16);
            while (buffer_.size() < line + 2 + size + 2)
                if (!receive(timeout_ms)) return;
            response.body += buffer_.substr(line + 2, size);
            buffer_.erase(0, line + 2 + size + 2);
            if (size == 0) return;
        }
    }

    int fd_ = -1;
    std::string buffer_;
};

// The JSON of each "data:" event; "[DONE]" as a string.
inline std::vector<boost::json::value> events_of(const std::string& stream) {
    std::vector<boost::json::value> events;
    for (size_t at = 0; (at = stream.find("data: ", at)) != std::string::npos;) {
        const size_t end = stream.find("\n\n", at);
        const std::string data = stream.substr(at + 6, end - at - 6);
        if (data == "[DONE]") {
            events.emplace_back("[DONE]");
        } else {
            auto value = parse_json(data, "event");
            EXPECT_TRUE(value.ok()) << data;
            if (value) events.push_back(*value);
        }
        at = end == std::string::npos ? stream.size() : end;
    }
    return events;
}

class ServerTest : public ::testing::Test {
  protected:
    void start(ModelOptions model = {}, server::ServerOptions options = {}) {
        options.port = 0;
        auto started = server::Server::start(std::move(options));
        ASSERT_TRUE(started.ok()) << started.error().message;
        server_ = std::move(*started);
        server_->set_model(make_model(std::move(model), &engine_));
    }
    Response request(std::string_view method, std::string_view path, std::string_view body = {},
                     std::string_view headers = {}) {
        Client client(server_->port());
        return client.request(method, path, body, headers);
    }
    // Waits for a condition that another thread brings about.
    template <class Condition>
    static bool soon(Condition condition, int milliseconds = 2000) {
        for (int i = 0; i < milliseconds / 2; ++i) {
            if (condition()) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        return condition();
    }

    ScriptedEngine* engine_ = nullptr;
    std::unique_ptr<server::Server> server_;
};

constexpr std::string_view hello = R"({"model":"scripted","messages":[{"role":"user","content":"Hi"}]})";
constexpr std::string_view hello_stream =
    R"({"model":"scripted","messages":[{"role":"user","content":"Hi"}],"stream":true})";

}  // namespace deepinfer::testing
