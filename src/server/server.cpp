#include "server/server.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>
#include <vector>

#include "base/start_thread.h"
#include "server/connection.h"

namespace deepinfer::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

struct Server::Impl {
    explicit Impl(const ServerOptions& server_options)
        : context(server_options), keep_working(work.get_executor()), acceptor(io) {
        context.work = &work;
    }
    // After an error at the start as well: threads that wait for work must not be waited for.
    ~Impl() {
        io.stop();
        keep_working.reset();
        threads.clear();
    }

    Status listen();
    asio::awaitable<void> accept();
    Status run_threads();
    void stop();

    ConnectionContext context;
    asio::io_context work, io;
    asio::executor_work_guard<asio::io_context::executor_type> keep_working;  // in `work`
    tcp::acceptor acceptor;
    std::vector<std::jthread> threads;
};

Status Server::Impl::listen() {
    const ServerOptions& options = context.options;
    const std::string where = options.host + ":" + std::to_string(options.port);
    error_code error;
    tcp::resolver resolver(io);
    const auto found =
        resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
    if (error || found.empty())
        return Error{ErrorCode::invalid_argument,
                     "cannot find the address " + where + ": " + error.message()};
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) return Error{ErrorCode::io_error, "cannot listen on " + where + ": " + error.message()};
    return {};
}

asio::awaitable<void> Server::Impl::accept() {
    for (;;) {
        error_code error;
        tcp::socket socket = co_await acceptor.async_accept(asio::make_strand(io),
                                                            asio::redirect_error(asio::use_awaitable, error));
        if (error == asio::error::operation_aborted || !acceptor.is_open()) co_return;
        if (error) {
            // Out of file descriptors, or a client that was gone at once: others can still be served, a
            // little later.
            asio::steady_timer pause(io, std::chrono::milliseconds(50));
            co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
            continue;
        }
        if (context.handler.metrics().connections.load() >=
            static_cast<int64_t>(context.options.max_connections)) {
            const std::string body = api::to_json(api::unavailable("The server has too many connections."));
            const std::string answer =
                "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
                "Connection: close\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body;
            socket.non_blocking(true, error);
            if (!error) socket.write_some(asio::buffer(answer), error);
            continue;
        }
        serve_connection(std::move(socket), context);
    }
}

Status Server::Impl::run_threads() {
    asio::co_spawn(io, accept(), asio::detached);
    const int on_connections = std::max(1, context.options.io_threads),
              wanted = on_connections + std::max(1, context.options.work_threads);
    try {
        while (static_cast<int>(threads.size()) < wanted) {
            asio::io_context& runs = static_cast<int>(threads.size()) < on_connections ? io : work;
            threads.emplace_back([&runs] { runs.run(); });
        }
    } catch (const std::system_error& error) {
        return thread_error("of the server", static_cast<int>(threads.size()), wanted, error);
    }
    return {};
}

// For error events and 503 answers to reach the clients whose time is up.
constexpr std::chrono::seconds farewell_time{1};

void Server::Impl::stop() {
    asio::post(io, [this] {
        error_code ignored;
        acceptor.close(ignored);
    });
    // Connections must be gone before what they use is.
    for (;;) {
        abort_connections(context);
        std::unique_lock lock(context.mutex);
        if (context.changed.wait_for(lock, std::chrono::milliseconds(100),
                                     [&] { return context.open.empty(); }))
            break;
    }
}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
    try {
        auto impl = std::make_unique<Impl>(options);
        if (Status listening = impl->listen(); !listening) return std::move(listening).error();
        if (Status running = impl->run_threads(); !running) return std::move(running).error();
        return std::unique_ptr<Server>(new Server(std::move(impl)));
    } catch (const std::exception& error) {
        return Error{ErrorCode::io_error, std::string("cannot start the server: ") + error.what()};
    }
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { impl_->stop(); }

uint16_t Server::port() const {
    error_code ignored;
    return impl_->acceptor.local_endpoint(ignored).port();
}

void Server::set_model(std::shared_ptr<const ServedModel> model) {
    impl_->context.handler.set_model(std::move(model));
}

Metrics& Server::metrics() { return impl_->context.handler.metrics(); }

void Server::drain(std::chrono::milliseconds limit) {
    ConnectionContext& context = impl_->context;
    context.handler.begin_drain();
    std::unique_lock lock(context.mutex);
    const auto done = [&] { return context.busy == 0 || context.drain_cancelled; };
    if (context.changed.wait_for(lock, limit, done)) return;
    lock.unlock();
    context.handler.cancel_all();
    lock.lock();
    context.changed.wait_for(lock, farewell_time, done);
}

void Server::cancel_drain() {
    const std::lock_guard lock(impl_->context.mutex);
    impl_->context.drain_cancelled = true;
    impl_->context.changed.notify_all();
}

}  // namespace deepinfer::server
