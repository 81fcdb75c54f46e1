#include "store/redis_connection.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>

#include "store/redis_slots.h"

namespace deepinfer::store {

namespace {

constexpr int failures_before_rest = 3;
constexpr int most_reads = 64;  // of one connection in a row
constexpr auto rest = std::chrono::seconds(1);

timeval until(Clock::time_point deadline, double most_seconds) {
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    const double seconds = std::clamp(left, 0.001, most_seconds);
    return {static_cast<time_t>(seconds),
            static_cast<suseconds_t>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e6)};
}

void encode(const RedisCommand& command, std::string& out) {
    out += '*' + std::to_string(command.size()) + "\r\n";
    for (const std::string_view word : command) {
        out += '$' + std::to_string(word.size()) + "\r\n";
        out += word;
        out += "\r\n";
    }
}

bool for_a_moment(ssize_t result) { return result < 0 && (errno == EAGAIN || errno == EINTR); }

}  // namespace

void FreeReply::operator()(redisReply* reply) const { freeReplyObject(reply); }

RedisConnection::~RedisConnection() {
    if (context_) redisFree(context_);
}

// After a failure nothing is known of what the server still sends: the connection ends.
void RedisConnection::drop(std::string_view why) {
    if (!why.empty())
        problem_ = why;
    else if (context_ && context_->err)
        problem_ = context_->errstr;
    else
        problem_ = "no answer in time, or the connection was closed";
    if (context_) redisFree(context_);
    context_ = nullptr;
    std::string().swap(out_);
    if (++failures_ >= failures_before_rest) rest_until_ = Clock::now() + rest;
}

bool RedisConnection::connect(Clock::time_point deadline) {
    if (context_) return true;
    if (resting() || Clock::now() >= deadline) return false;
    const timeval time = until(deadline, connect_seconds_);
    context_ = address_.path.empty() ? redisConnectWithTimeout(address_.host.c_str(), address_.port, time)
                                     : redisConnectUnixWithTimeout(address_.path.c_str(), time);
    if (!context_ || context_->err) return drop(), false;
    limit_arrays(*context_->reader);
    const std::string database = std::to_string(address_.database);
    std::vector<RedisCommand> hello;
    if (!address_.user.empty())
        hello.push_back({"AUTH", address_.user, address_.password});
    else if (!address_.password.empty())
        hello.push_back({"AUTH", address_.password});
    if (address_.database != 0) hello.push_back({"SELECT", database});
    if (hello.empty()) return true;
    RedisPipeline pipeline{this, {}, {}};
    for (const RedisCommand& command : hello) pipeline.commands.push_back(&command);
    if (begin(pipeline)) exchange({&pipeline}, deadline);
    const bool accepted = context_ && std::ranges::all_of(pipeline.replies, [](const RedisReply& reply) {
                              return reply && reply->type != REDIS_REPLY_ERROR;
                          });
    if (context_ && !accepted) {
        const auto refusal = std::ranges::find_if(
            pipeline.replies, [](const RedisReply& r) { return r && r->type == REDIS_REPLY_ERROR; });
        drop(refusal != pipeline.replies.end() ? std::string_view((*refusal)->str, (*refusal)->len)
                                               : std::string_view());
    }
    return accepted;
}

// False: the connection has failed.
bool RedisConnection::begin(RedisPipeline& pipeline) {
    pipeline.replies = std::vector<RedisReply>(pipeline.commands.size());
    size_t bytes = 0;
    for (const RedisCommand* command : pipeline.commands)
        for (const std::string_view word : *command) bytes += word.size() + 32;
    out_.clear();
    out_.reserve(bytes);
    for (const RedisCommand* command : pipeline.commands) encode(*command, out_);
    sent_ = answered_ = received_ = 0;
    return send_some() || (drop(), false);
}

bool RedisConnection::send_some() {
    const ssize_t count =
        ::send(context_->fd, out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) sent_ += static_cast<size_t>(count);
    if (sent_ == out_.size()) std::string().swap(out_), sent_ = 0;  // it may be large
    return count >= 0 || for_a_moment(count);
}

// Sends and receives what can be without waiting, not for long: others have their turn. False: the connection has failed.
bool RedisConnection::advance(RedisPipeline& pipeline, int events) {
    if (!out_.empty() && (events & POLLOUT) != 0 && !send_some()) return false;
    if ((events & ~POLLOUT) == 0) return true;
    std::array<char, size_t{16} << 10> buffer;
    for (int turn = 0; turn < most_reads && !done(pipeline); ++turn) {
        const ssize_t count = ::recv(context_->fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (count <= 0) return for_a_moment(count);
        if (!take({buffer.data(), static_cast<size_t>(count)}, pipeline)) return false;
    }
    return true;
}

bool RedisConnection::take(std::string_view bytes, RedisPipeline& pipeline) {
    received_ += bytes.size();
    redisReader* reader = context_->reader;
    if (redisReaderFeed(reader, bytes.data(), bytes.size()) != REDIS_OK) return false;
    while (!done(pipeline)) {
        void* reply = nullptr;
        if (redisReaderGetReply(reader, &reply) != REDIS_OK) return false;
        if (!reply) return received_ <= most_reply_bytes_;
        pipeline.replies[answered_++].reset(static_cast<redisReply*>(reply));
        received_ = 0;
    }
    return reader->pos == reader->len;  // more replies than commands: whose are they?
}

// Until each is done or has failed. After the deadline there is one more look at what has arrived.
void RedisConnection::exchange(std::vector<RedisPipeline*> open, Clock::time_point deadline) {
    std::vector<pollfd> sockets;
    while (!open.empty()) {
        sockets.clear();
        for (const RedisPipeline* pipeline : open) {
            const RedisConnection& connection = *pipeline->connection;
            const int events = connection.out_.empty() ? POLLIN : POLLIN | POLLOUT;
            sockets.push_back({connection.context_->fd, static_cast<short>(events), 0});
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        const bool last = left <= 0;
        ::poll(sockets.data(), sockets.size(), static_cast<int>(std::clamp<int64_t>(left, 0, 60'000)));
        std::vector<RedisPipeline*> still;
        for (size_t i = 0; i < open.size(); ++i) {
            RedisConnection& connection = *open[i]->connection;
            const int events = sockets[i].revents;
            if (events != 0 && !connection.advance(*open[i], events))
                connection.drop();
            else if (!connection.done(*open[i])) {
                if (last)
                    connection.drop();
                else
                    still.push_back(open[i]);
            }
        }
        open = std::move(still);
    }
}

void RedisConnection::run(std::span<RedisPipeline> pipelines, Clock::time_point deadline) {
    for (RedisPipeline& pipeline : pipelines)
        pipeline.replies = std::vector<RedisReply>(pipeline.commands.size());
    if (Clock::now() >= deadline) return;
    // Servers that are connected work while others are connected to.
    std::vector<RedisPipeline*> open, unconnected;
    for (RedisPipeline& pipeline : pipelines) {
        if (pipeline.commands.empty()) continue;
        if (!pipeline.connection->context_)
            unconnected.push_back(&pipeline);
        else if (pipeline.connection->begin(pipeline))
            open.push_back(&pipeline);
    }
    for (RedisPipeline* pipeline : unconnected)
        if (pipeline->connection->connect(deadline) && pipeline->connection->begin(*pipeline))
            open.push_back(pipeline);
    exchange(open, deadline);
    for (const RedisPipeline* pipeline : open)
        if (pipeline->connection->context_) pipeline->connection->failures_ = 0;
}

std::vector<RedisReply> RedisConnection::run(std::span<const RedisCommand> commands,
                                             Clock::time_point deadline) {
    RedisPipeline pipeline{this, {}, {}};
    for (const RedisCommand& command : commands) pipeline.commands.push_back(&command);
    run({&pipeline, 1}, deadline);
    return std::move(pipeline.replies);
}

}  // namespace deepinfer::store
