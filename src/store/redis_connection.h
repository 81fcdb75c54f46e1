// Connections to Redis servers: commands in pipelines, within a time. A connection is made when it is needed.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/block_store.h"
#include "store/redis_address.h"

struct redisContext;
struct redisReply;

namespace deepinfer::store {

struct FreeReply {
    void operator()(redisReply* reply) const;
};
using RedisReply =
    std::unique_ptr<redisReply, FreeReply>;  // null: the connection failed, or the time was over
using RedisCommand = std::vector<std::string_view>;

class RedisConnection;
struct RedisPipeline {
    RedisConnection* connection = nullptr;
    std::vector<const RedisCommand*> commands;
    std::vector<RedisReply> replies;  // of the commands; those after the first that failed are null
};

class RedisConnection {
  public:
    // most_reply_bytes: a server that sends more without ending a reply has failed.
    RedisConnection(RedisAddress address, double connect_seconds, size_t most_reply_bytes = size_t{64} << 20)
        : address_(std::move(address)),
          connect_seconds_(connect_seconds),
          most_reply_bytes_(most_reply_bytes) {}
    ~RedisConnection();
    RedisConnection(const RedisConnection&) = delete;
    RedisConnection& operator=(const RedisConnection&) = delete;

    // All pipelines, each of another connection, at the same time: a server that stalls does not hold up what others reply.
    static void run(std::span<RedisPipeline> pipelines, Clock::time_point deadline);
    std::vector<RedisReply> run(std::span<const RedisCommand> commands, Clock::time_point deadline);
    // Whether there is a connection, then; it is made if there was none.
    bool connect(Clock::time_point deadline);
    // Why it failed last, in the words of the system or the server; empty: it has not.
    const std::string& problem() const { return problem_; }
    // It does not answer, or answers with errors of the connection: calls come back at once for a while.
    bool resting() const { return Clock::now() < rest_until_; }

  private:
    static void exchange(std::vector<RedisPipeline*> open, Clock::time_point deadline);
    bool begin(RedisPipeline& pipeline);
    bool advance(RedisPipeline& pipeline, int events);
    bool take(std::string_view bytes, RedisPipeline& pipeline);
    bool done(const RedisPipeline& pipeline) const { return answered_ == pipeline.commands.size(); }
    bool send_some();
    void drop(std::string_view why = {});

    const RedisAddress address_;
    const double connect_seconds_;
    const size_t most_reply_bytes_;
    redisContext* context_ = nullptr;
    int failures_ = 0;
    std::string problem_;
    Clock::time_point rest_until_{};

    // Of the pipeline that is on its way:
    std::string out_;
    size_t sent_ = 0, answered_ = 0;
    size_t received_ = 0;  // bytes since the last whole reply
};

}  // namespace deepinfer::store
