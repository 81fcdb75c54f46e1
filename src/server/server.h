// The HTTP server: connections, limits, shutdown. Serves a model given by set_model(); may start before there
// is one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "api/limits.h"
#include "base/result.h"
#include "server/handler.h"
#include "server/served_model.h"

namespace deepinfer::server {

struct ServerOptions {
    std::string host = "127.0.0.1";  // an address, or a name
    uint16_t port = 8080;            // 0: any free one, see Server::port()
    HandlerOptions handler;
    int io_threads = 1;    // connections; thousands of streams fit on one
    int work_threads = 2;  // parsing, templates, tokenising: a huge prompt must not hold up a small one
    size_t max_connections = 4096;

    std::chrono::milliseconds keep_alive_comment{15'000};  // of a silent stream
    std::chrono::milliseconds header_timeout{10'000};
    std::chrono::milliseconds idle_timeout{75'000};
    std::chrono::milliseconds body_grace{10'000};     // before the rate is looked at
    size_t min_body_rate = 1024;                      // bytes per second
    std::chrono::milliseconds write_timeout{60'000};  // for a write to make its whole way into the socket
    size_t max_header_bytes = size_t{64} << 10;       // all together
    size_t max_header_field_bytes = size_t{8} << 10;
    size_t max_header_fields = 64;
    size_t max_body_bytes = api::limits::body_bytes;
    // Received by all requests that are being read or parsed; then 503.
    size_t max_total_body_bytes = size_t{512} << 20;
};

class Server {
  public:
    // Listens and answers from now on. Errors: io_error (port in use), invalid_argument (host).
    static Result<std::unique_ptr<Server>> start(ServerOptions options);
    ~Server();  // ends all connections, then joins

    uint16_t port() const;
    void set_model(std::shared_ptr<const ServedModel> model);
    Metrics& metrics();

    // Refuses new work (readiness says so), lets running answers finish, and returns when they have, or after
    // `limit`. Any thread; cancel_drain() from another makes it return at once.
    void drain(std::chrono::milliseconds limit);
    void cancel_drain();

  private:
    struct Impl;
    explicit Server(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace deepinfer::server
