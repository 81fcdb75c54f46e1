#include "server/connection.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdio>
#include <ctime>
#include <utility>

namespace deepinfer::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::awaitable;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

namespace {

auto to(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

constexpr size_t read_size = 16 << 10;
constexpr size_t max_pipelined_bytes = 64 << 10;  // read ahead while an answer is being made
constexpr size_t max_target_bytes = 8 << 10;

std::string http_date() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char text[64];
    std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
    return text;
}

std::string chunk(std::string_view data) {
    char size[24];
    std::snprintf(size, sizeof size, "%zx\r\n", data.size());
    return std::string(size).append(data).append("\r\n");
}

// "/v1/models?limit=2" and "http://host/v1/models" -> "/v1/models"
std::string path_of(std::string_view target) {
    if (const size_t scheme = target.find("://"); scheme != target.npos && !target.starts_with('/')) {
        const size_t slash = target.find('/', scheme + 3);
        target = slash == target.npos ? std::string_view("/") : target.substr(slash);
    }
    return std::string(target.substr(0, target.find_first_of("?#")));
}

bool same_word(std::string_view a, std::string_view b) {
    return beast::iequals({a.data(), a.size()}, {b.data(), b.size()});
}

using Parser = http::request_parser<http::string_body>;

api::ApiError protocol_error(int status, std::string message, std::string code) {
    return {.status = status, .message = std::move(message), .code = std::move(code)};
}

// The answer to a request that could not be parsed; nothing if the connection is simply gone. `unread`: what came, from
// the request line on if that was not understood.
std::optional<api::ApiError> describe(const error_code& error, const ServerOptions& options,
                                      std::string_view unread) {
    if (error == http::error::end_of_stream) return std::nullopt;
    if (error == http::error::body_limit)
        return protocol_error(413,
                              "The body is larger than " + std::to_string(options.max_body_bytes) + " bytes.",
                              "request_too_large");
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return protocol_error(
            431, "The header is larger than " + std::to_string(options.max_header_bytes) + " bytes.",
            "header_too_large");
    const size_t line = unread.find('\n');
    if (error == http::error::bad_version && line != unread.npos && (line == 0 || unread[line - 1] != '\r'))
        return protocol_error(400, "The request line ends with LF alone; lines of HTTP end with CR LF.",
                              "invalid_http");
    if (error == http::error::bad_version)
        return protocol_error(505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.",
                              "http_version_not_supported");
    if (error == http::error::partial_message ||
        error.category() != http::make_error_code(http::error{}).category())
        return std::nullopt;
    return protocol_error(400, "This is not a valid HTTP request: " + error.message() + ".", "invalid_http");
}

std::optional<api::ApiError> check_header(const Parser& parser, const ServerOptions& options) {
    const auto& message = parser.get();
    if (message.target().size() > max_target_bytes)
        return protocol_error(414, "The URI is longer than " + std::to_string(max_target_bytes) + " bytes.",
                              "uri_too_long");
    size_t fields = 0, hosts = 0;
    for (const auto& field : message) {
        ++fields;
        hosts += field.name() == http::field::host;
        if (field.name_string().size() + field.value().size() > options.max_header_field_bytes)
            return protocol_error(
                431,
                "A header field is larger than " + std::to_string(options.max_header_field_bytes) + " bytes.",
                "header_too_large");
    }
    if (fields > options.max_header_fields)
        return protocol_error(
            431, "There are more than " + std::to_string(options.max_header_fields) + " header fields.",
            "header_too_large");
    if (hosts > 1 || (hosts == 0 && message.version() == 11))
        return protocol_error(400, "The request must have one Host header.", "invalid_http");
    const size_t encodings = message.count(http::field::transfer_encoding);
    if (encodings > 1 ||
        (encodings == 1 && !same_word(std::string_view(message[http::field::transfer_encoding]), "chunked")))
        return protocol_error(501, "Only the transfer encoding 'chunked' is understood.",
                              "unsupported_encoding");
    if (encodings > 0 && message.count(http::field::content_length) > 0)
        return protocol_error(400, "Content-Length and Transfer-Encoding contradict each other.",
                              "invalid_http");
    if (message.count(http::field::content_encoding) > 0 &&
        !same_word(std::string_view(message[http::field::content_encoding]), "identity"))
        return protocol_error(415, "Compressed bodies are not understood; send the body as it is.",
                              "unsupported_media_type");
    if (message.count(http::field::expect) > 0 &&
        !same_word(std::string_view(message[http::field::expect]), "100-continue"))
        return protocol_error(417, "The only expectation that can be met is '100-continue'.",
                              "expectation_failed");
    return std::nullopt;
}

}  // namespace

class Connection : public std::enable_shared_from_this<Connection> {
  public:
    Connection(asio::ip::tcp::socket socket, ConnectionContext& context)
        : stream_(std::move(socket)),
          timer_(stream_.get_executor()),
          context_(context),
          options_(context.options) {
        Metrics& metrics = context_.handler.metrics();
        metrics.connections.fetch_add(1);
        metrics.connections_total.fetch_add(1);
        const std::lock_guard lock(context_.mutex);
        context_.open.insert(this);
    }

    ~Connection() {
        context_.handler.metrics().connections.fetch_sub(1);
        // Notified under the lock: afterwards the context may go.
        const std::lock_guard lock(context_.mutex);
        context_.open.erase(this);
        context_.changed.notify_all();
    }

    asio::any_io_executor executor() { return stream_.get_executor(); }

    awaitable<void> run() {
        try {
            while (!aborted_ && co_await serve_one()) {
            }
        } catch (const std::exception&) {
            // Out of memory or the like: this connection ends, the server goes on.
        }
        error_code ignored;
        stream_.socket().close(ignored);
    }

    void abort() {
        aborted_ = true;
        timer_.cancel();
        error_code ignored;
        stream_.socket().close(ignored);
    }

  private:
    // Marks a request as being answered, for draining.
    class Busy {
      public:
        explicit Busy(ConnectionContext& context) : context_(context) {
            const std::lock_guard lock(context_.mutex);
            ++context_.busy;
        }
        ~Busy() {
            const std::lock_guard lock(context_.mutex);
            --context_.busy;
            context_.changed.notify_all();
        }
        Busy(const Busy&) = delete;

      private:
        ConnectionContext& context_;
    };

    // A share of the memory for bodies. Grows with what has arrived: what is only announced costs nothing,
    // and must not shut others out.
    class BodyBudget {
      public:
        explicit BodyBudget(ConnectionContext& context) : context_(context) {}
        ~BodyBudget() { context_.body_bytes -= held_; }
        BodyBudget(const BodyBudget&) = delete;
        // Makes the share at least so large. False: there is not enough; nothing changed.
        bool grow(size_t bytes) {
            if (bytes <= held_) return true;
            const size_t more = bytes - held_;
            if (context_.body_bytes.fetch_add(more) + more > context_.options.max_total_body_bytes) {
                context_.body_bytes -= more;
                return false;
            }
            held_ = bytes;
            return true;
        }

      private:
        ConnectionContext& context_;
        size_t held_ = 0;
    };

    // One request and its answer. False: the connection is over.
    awaitable<bool> serve_one() {
        error_code error;
        if (buffer_.size() == 0) {
            stream_.expires_after(options_.idle_timeout);
            buffer_.commit(co_await stream_.async_read_some(buffer_.prepare(read_size), to(error)));
            if (error) co_return false;
        }
        Parser parser;
        parser.header_limit(static_cast<uint32_t>(options_.max_header_bytes));
        parser.body_limit(options_.max_body_bytes);
        stream_.expires_after(options_.header_timeout);
        co_await http::async_read_header(stream_, buffer_, parser, to(error));
        const Busy busy(context_);
        head_ = {};
        keep_alive_ = false;
        http_1_0_ = false;
        if (error) {
            const std::optional<api::ApiError> refusal = describe(error, options_, unread());
            if (refusal) co_await refuse(error_response(*refusal));
            co_return false;
        }
        read_head(parser);
        if (const auto refusal = check_header(parser, options_)) {
            co_await refuse(error_response(*refusal));
            co_return false;
        }
        if (std::optional<HttpResponse> answer = context_.handler.check(head_)) {
            if (!parser.is_done()) {
                co_await refuse(std::move(*answer));
                co_return false;
            }
            co_return co_await respond(std::move(*answer));
        }
        Reply reply;
        {
            BodyBudget budget(context_);
            if (!parser.is_done() && !co_await read_body(parser, budget)) co_return false;
            const std::string body = std::move(parser.get().body());
            if (Handler::may_take_long(head_))
                reply = co_await on_work_pool(body);
            else
                reply = context_.handler.handle(head_, body, {});
        }
        if (auto* response = std::get_if<HttpResponse>(&reply))
            co_return co_await respond(std::move(*response));
        generation_ = std::move(std::get<std::unique_ptr<Generation>>(reply));
        const bool go_on = co_await generate();
        generation_.reset();
        co_return go_on;
    }

    std::string_view unread() const {
        return {static_cast<const char*>(buffer_.data().data()), buffer_.data().size()};
    }

    void read_head(const Parser& parser) {
        const auto& message = parser.get();
        const auto field = [&](auto name) { return std::string(message[name]); };
        head_.method = std::string(message.method_string());
        head_.path = path_of(std::string_view(message.target()));
        head_.authorization = field(http::field::authorization);
        head_.api_key = field("x-api-key");
        head_.content_type = field(http::field::content_type);
        head_.origin = field(http::field::origin);
        head_.has_body = parser.chunked() || parser.content_length().has_value();
        expects_continue_ = message.version() == 11 && message.count(http::field::expect) > 0;
        http_1_0_ = message.version() == 10;
        keep_alive_ = message.keep_alive();
    }

    awaitable<bool> read_body(Parser& parser, BodyBudget& budget) {
        error_code error;
        const auto too_much = api::unavailable("The server is busy with other large requests.");
        if (expects_continue_) {
            co_await write("HTTP/1.1 100 Continue\r\n\r\n", error);
            if (error) co_return false;
        }
        const Clock::time_point start = Clock::now();
        size_t received = 0;
        while (!parser.is_done()) {
            stream_.expires_after(options_.body_grace);
            received += co_await http::async_read_some(stream_, buffer_, parser, to(error));
            if (error) {
                if (const auto refusal = describe(error, options_, {}))
                    co_await refuse(error_response(*refusal));
                co_return false;
            }
            if (!budget.grow(parser.get().body().size())) {
                co_await refuse(error_response(too_much));
                co_return false;
            }
            const auto late =
                std::chrono::duration<double>(Clock::now() - start - options_.body_grace).count();
            if (late > 0 &&
                static_cast<double>(received) < late * static_cast<double>(options_.min_body_rate)) {
                co_await refuse(error_response(protocol_error(408,
                                                              "The body arrives too slowly: fewer than " +
                                                                  std::to_string(options_.min_body_rate) +
                                                                  " bytes per second.",
                                                              "request_timeout")));
                co_return false;
            }
        }
        co_return true;
    }

    awaitable<Reply> on_work_pool(const std::string& body) {
        Wake wake = [weak = weak_from_this()] {
            if (std::shared_ptr<Connection> self = weak.lock()) {
                asio::any_io_executor strand = self->executor();
                asio::post(strand, [self = std::move(self)] { self->on_wake(); });
            }
        };
        woken_ = false;
        co_return co_await asio::co_spawn(
            context_.work->get_executor(),
            [this, &body, &wake]() -> awaitable<Reply> {
                co_return context_.handler.handle(head_, body, std::move(wake));
            },
            asio::use_awaitable);
    }

    void on_wake() {
        woken_ = true;
        if (writing_ && generation_ && generation_->backlog() >= options_.handler.max_backlog_tokens) {
            generation_->give_up(&Metrics::cancelled_slow_reader);
            abort();
        }
        timer_.cancel();
    }

    // Runs generation_ to its end, or until the client is gone.
    awaitable<bool> generate() {
        const bool streams = generation_->streams();
        disconnected_ = false;
        watching_ = true;
        stop_watching_ = false;
        stream_.expires_never();
        asio::co_spawn(
            executor(), [self = shared_from_this()] { return self->watch_client(); }, asio::detached);
        bool ended = streams ? co_await generate_stream() : co_await wait_for_end();
        // The watcher must have left before anybody else reads. Its read may have completed already, so that
        // there is nothing to cancel; the flag keeps it from starting another.
        stop_watching_ = true;
        while (watching_) {
            if (stream_.socket().is_open()) stream_.cancel();
            timer_.expires_after(std::chrono::milliseconds(100));
            error_code ignored;
            co_await timer_.async_wait(to(ignored));
        }
        ended = ended && !aborted_ && !disconnected_;
        if (ended && !streams) co_return co_await respond(generation_->response());
        co_return ended&& keep_alive_;
    }

    // Reads ahead, mainly to notice the end of the connection. A client that has shut down its sending side
    // counts as gone: it looks the same as one that has closed.
    awaitable<void> watch_client() {
        error_code error;
        while (!error && !stop_watching_ && buffer_.size() < max_pipelined_bytes) {
            const size_t size = co_await stream_.async_read_some(buffer_.prepare(read_size), to(error));
            buffer_.commit(size);
        }
        if (error && error != asio::error::operation_aborted) disconnected_ = true;
        watching_ = false;
        timer_.cancel();
    }

    bool client_is_gone() const { return disconnected_ || aborted_; }

    // Until the generation has something, or the time is over. False: time over.
    awaitable<bool> wait_for_wake(Clock::time_point until) {
        while (!woken_ && !client_is_gone()) {
            if (Clock::now() >= until) co_return false;
            timer_.expires_at(until);
            error_code ignored;
            co_await timer_.async_wait(to(ignored));
        }
        woken_ = false;
        co_return true;
    }

    awaitable<bool> wait_for_end() {
        std::string unused;
        while (!client_is_gone()) {
            if (generation_->poll(unused)) co_return true;
            co_await wait_for_wake(Clock::now() + std::chrono::hours(1));
        }
        co_return false;
    }

    awaitable<bool> generate_stream() {
        HttpResponse response{.content_type = "text/event-stream; charset=utf-8"};
        response.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
        if (!http_1_0_) response.headers.emplace_back("Transfer-Encoding", "chunked");
        keep_alive_ = keep_alive_ && !http_1_0_ && !context_.handler.draining();
        error_code error;
        co_await write(header_text(response, std::nullopt), error);
        Clock::time_point last_sent = Clock::now();
        bool ended = false;
        while (!ended && !error && !client_is_gone()) {
            std::string events;
            ended = generation_->poll(events);
            if (events.empty() && !ended) {
                if (co_await wait_for_wake(last_sent + options_.keep_alive_comment)) continue;
                events = ": keep-alive\n\n";
            }
            std::string out = http_1_0_ ? events : events.empty() ? std::string() : chunk(events);
            if (ended && !http_1_0_) out += "0\r\n\r\n";
            co_await write(out, error);
            last_sent = Clock::now();
        }
        if (error == beast::error::timeout) generation_->give_up(&Metrics::cancelled_slow_reader);
        co_return ended && !error;
    }

    awaitable<void> write(std::string_view data, error_code& error) {
        writing_ = true;
        stream_.expires_after(options_.write_timeout);
        co_await asio::async_write(stream_, asio::buffer(data.data(), data.size()), to(error));
        writing_ = false;
    }

    std::string header_text(HttpResponse& response, std::optional<size_t> body_size) {
        context_.handler.add_common_headers(head_, response);
        context_.handler.metrics().responses[static_cast<size_t>(response.status / 100)].fetch_add(1);
        std::string text =
            "HTTP/1.1 " + std::to_string(response.status) + " " + reason_phrase(response.status) + "\r\n";
        const auto add = [&](std::string_view name, std::string_view value) {
            text.append(name).append(": ").append(value).append("\r\n");
        };
        add("Date", http_date());
        add("Server", "deepinfer");
        add("X-Request-Id", context_.handler.new_id("req_"));
        if (!response.content_type.empty()) add("Content-Type", response.content_type);
        if (body_size && response.status != 204) add("Content-Length", std::to_string(*body_size));
        for (const auto& [name, value] : response.headers) add(name, value);
        add("Connection", keep_alive_ ? "keep-alive" : "close");
        return text + "\r\n";
    }

    awaitable<bool> respond(HttpResponse response) {
        keep_alive_ = keep_alive_ && !context_.handler.draining();
        std::string text = header_text(response, response.body.size());
        if (head_.method != "HEAD") text += response.body;
        error_code error;
        co_await write(text, error);
        if (error || !keep_alive_) {
            if (!error) stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
            co_return false;
        }
        co_return true;
    }

    // Answers although the request was not read to its end. The rest is swallowed for a moment: closing at
    // once would make the client's kernel throw the answer away.
    awaitable<void> refuse(HttpResponse response) {
        keep_alive_ = false;
        co_await respond(std::move(response));
        error_code error;
        size_t swallowed = 0;
        stream_.expires_after(std::chrono::seconds(2));
        while (!error && swallowed < options_.max_body_bytes) {
            buffer_.clear();
            swallowed += co_await stream_.async_read_some(buffer_.prepare(read_size), to(error));
        }
    }

    beast::tcp_stream stream_;
    asio::steady_timer timer_;
    ConnectionContext& context_;
    const ServerOptions& options_;
    beast::flat_buffer buffer_;
    RequestHead head_;
    std::unique_ptr<Generation> generation_;
    bool keep_alive_ = false, http_1_0_ = false, expects_continue_ = false;
    bool watching_ = false, stop_watching_ = false;
    bool woken_ = false, writing_ = false, disconnected_ = false, aborted_ = false;
};

void serve_connection(asio::ip::tcp::socket socket, ConnectionContext& context) {
    error_code ignored;
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    auto connection = std::make_shared<Connection>(std::move(socket), context);
    asio::any_io_executor executor = connection->executor();
    asio::co_spawn(
        executor, [connection = std::move(connection)] { return connection->run(); }, asio::detached);
}

void abort_connections(ConnectionContext& context) {
    const std::lock_guard lock(context.mutex);
    for (Connection* connection : context.open) {
        std::shared_ptr<Connection> self = connection->weak_from_this().lock();
        if (!self) continue;  // ends by itself, and waits for the lock
        asio::any_io_executor executor = self->executor();
        asio::post(executor, [self = std::move(self)] { self->abort(); });
    }
}

}  // namespace deepinfer::server
