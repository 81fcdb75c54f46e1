// One client connection: reads requests, writes answers, watches for the client to go away.
//
// Requests of a connection are answered one after another, in order (pipelining is safe). All work of a
// connection runs on its own strand, except what may take long (parsing, templates, tokenising), which runs
// on the work pool.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "server/server.h"

namespace deepinfer::server {

class Connection;

// What the connections of a server share.
struct ConnectionContext {
    explicit ConnectionContext(const ServerOptions& server_options)
        : options(server_options), handler(server_options.handler) {}

    const ServerOptions options;
    Handler handler;
    boost::asio::io_context* work = nullptr;

    std::mutex mutex;
    std::condition_variable changed;       // open or busy shrank
    std::unordered_set<Connection*> open;  // under the mutex
    int64_t busy = 0;                      // requests being answered; under the mutex
    bool drain_cancelled = false;          // under the mutex

    std::atomic<size_t> body_bytes{0};  // received by requests that are being read or parsed
};

// Takes the socket over and serves it until it ends. `context` must outlive the connection.
void serve_connection(boost::asio::ip::tcp::socket socket, ConnectionContext& context);

// Closes every open connection soon. Any thread.
void abort_connections(ConnectionContext& context);

}  // namespace deepinfer::server
