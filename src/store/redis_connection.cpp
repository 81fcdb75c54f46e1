#include "store/redis_connection.h"

#include <hiredis/hiredis.h>
#include <sys/time.h>

#include <algorithm>

namespace deepinfer::store {

namespace {

constexpr int failures_before_rest = 3;
constexpr auto rest = std::chrono::seconds(1);

timeval until(Clock::time_point deadline, double most_seconds) {
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    const double seconds = std::clamp(left, 0.001, most_seconds);
    return {static_cast<time_t>(seconds),
            static_cast<suseconds_t>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e6)};
}

}  // namespace

void FreeReply::operator()(redisReply* reply) const { freeReplyObject(reply); }

RedisConnection::~RedisConnection() {
    if (context_) redisFree(context_);
}

void RedisConnection::drop(bool failed) {
    if (context_) redisFree(context_);
    context_ = nullptr;
    if (failed && ++failures_ >= failures_before_rest) rest_until_ = Clock::now() + rest;
}

// What is left of the time, for the next exchange.
bool RedisConnection::allow(Clock::time_point deadline) {
    return Clock::now() < deadline && redisSetTimeout(context_, until(deadline, 60)) == REDIS_OK;
}

bool RedisConnection::connect(Clock::time_point deadline) {
    if (context_) return true;
    if (resting() || Clock::now() >= deadline) return false;
    const timeval time = until(deadline, connect_seconds_);
    context_ = address_.path.empty() ? redisConnectWithTimeout(address_.host.c_str(), address_.port, time)
                                     : redisConnectUnixWithTimeout(address_.path.c_str(), time);
    if (!context_ || context_->err || !allow(deadline)) return drop(true), false;
    const auto accepted = [this](auto... words) {
        const char* argv[] = {words...};
        const RedisReply reply(
            static_cast<redisReply*>(redisCommandArgv(context_, sizeof...(words), argv, nullptr)));
        return reply && reply->type != REDIS_REPLY_ERROR;
    };
    bool good = true;
    if (!address_.user.empty())
        good = accepted("AUTH", address_.user.c_str(), address_.password.c_str());
    else if (!address_.password.empty())
        good = accepted("AUTH", address_.password.c_str());
    if (good && address_.database != 0) good = accepted("SELECT", std::to_string(address_.database).c_str());
    if (!good) drop(true);
    return good;
}

std::vector<RedisReply> RedisConnection::run(std::span<const std::vector<std::string_view>> commands,
                                             Clock::time_point deadline) {
    std::vector<RedisReply> replies(commands.size());
    if (!connect(deadline)) return replies;
    for (const std::vector<std::string_view>& words : commands) {
        std::vector<const char*> argv;
        std::vector<size_t> lengths;
        for (const std::string_view word : words) argv.push_back(word.data()), lengths.push_back(word.size());
        if (redisAppendCommandArgv(context_, static_cast<int>(argv.size()), argv.data(), lengths.data()) !=
            REDIS_OK)
            return drop(true), std::move(replies);
    }
    for (RedisReply& reply : replies) {
        void* answer = nullptr;
        // After a failure nothing is known of what the server still sends: the connection ends.
        if (!allow(deadline) || redisGetReply(context_, &answer) != REDIS_OK) {
            drop(true);
            return replies;
        }
        reply.reset(static_cast<redisReply*>(answer));
    }
    failures_ = 0;
    return replies;
}

}  // namespace deepinfer::store
