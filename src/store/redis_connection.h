// One connection to a Redis server: commands in a pipeline, within a time. Connects when it has to.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis_store.h"

struct redisContext;
struct redisReply;

namespace deepinfer::store {

struct FreeReply {
    void operator()(redisReply* reply) const;
};
using RedisReply =
    std::unique_ptr<redisReply, FreeReply>;  // null: the connection failed, or the time was over

class RedisConnection {
  public:
    RedisConnection(RedisAddress address, double connect_seconds)
        : address_(std::move(address)), connect_seconds_(connect_seconds) {}
    ~RedisConnection();
    RedisConnection(const RedisConnection&) = delete;
    RedisConnection& operator=(const RedisConnection&) = delete;

    // Sends all commands, then reads their replies. Those after the first that failed are null.
    std::vector<RedisReply> run(std::span<const std::vector<std::string_view>> commands,
                                Clock::time_point deadline);
    // It does not answer, or answers with errors of the connection: calls come back at once for a while.
    bool resting() const { return Clock::now() < rest_until_; }

  private:
    bool connect(Clock::time_point deadline);
    bool allow(Clock::time_point deadline);
    void drop(bool failed);

    const RedisAddress address_;
    const double connect_seconds_;
    redisContext* context_ = nullptr;
    int failures_ = 0;
    Clock::time_point rest_until_{};
};

}  // namespace deepinfer::store
