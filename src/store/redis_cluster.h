// Commands to a Redis server, or to the nodes of a cluster that serve their keys. Which of both it is shows by itself: a server that
// replies MOVED is a node of a cluster. Then its slot map is kept up to date by further MOVED and, at most once a second, by CLUSTER
// SLOTS from a node that answers.
//
// A node says where other nodes are, and they are given the same user and password: whoever can answer as a node can ask for them.
//
// Threads: one at a time.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "store/redis_connection.h"
#include "store/redis_slots.h"

namespace deepinfer::store {

class RedisRouter {
  public:
    RedisRouter(RedisAddress address, double connect_seconds, size_t most_reply_bytes);

    // Commands whose second word is their key. Replies are in the order of the commands, which is kept for each node only. Null: its
    // node failed, or the time was over. Redirections are followed, a few times: one that is left is an error like others.
    std::vector<RedisReply> run(std::span<const RedisCommand> commands, Clock::time_point deadline);

    // Why a node failed last; empty: none has.
    std::string problem() const {
        for (const auto& [name, connection] : nodes_)
            if (!connection.problem().empty()) return connection.problem();
        return {};
    }

  private:
    using Node = std::map<RedisNode, RedisConnection>::value_type;
    struct Way {  // of a command
        size_t command = 0;
        Node* node = nullptr;
        bool asking = false;  // ASKING goes before it
        bool asked = false;   // has followed an ASK
    };

    Node* node(const RedisNode& name);
    Node& home(Clock::time_point deadline);
    std::vector<Way> first_ways(std::span<const RedisCommand> commands, Clock::time_point deadline);
    std::vector<Way> exchange(std::span<const RedisCommand> commands, const std::vector<Way>& ways,
                              std::vector<RedisReply>& replies, Clock::time_point deadline);
    std::optional<Way> redirected(const Way& way, std::string_view error);
    const std::string& host_of(const Node& node) const;
    void refresh(Clock::time_point deadline);
    void adopt(SlotMap map, const Node& teller);

    const RedisAddress address_;
    const double connect_seconds_;
    const size_t most_reply_bytes_;
    std::vector<RedisNode> seeds_;  // one with port 0: the Unix socket
    std::map<RedisNode, RedisConnection> nodes_;
    std::optional<SlotMap> map_;  // none: no cluster, as far as known
    bool stale_ = false;          // the map may be wrong
    Node* answered_ = nullptr;    // the last one that answered without an error
    Clock::time_point next_refresh_{};
};

}  // namespace deepinfer::store
