#include "store/redis_cluster.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <unordered_map>

namespace deepinfer::store {

namespace {

constexpr int most_redirections = 5;  // of a command
constexpr auto refresh_pause = std::chrono::seconds(1);
constexpr int most_asked = 3;  // nodes, for a map

const RedisCommand asking{"ASKING"}, slots{"CLUSTER", "SLOTS"};

std::string_view error_of(const redisReply& reply) {
    return reply.type == REDIS_REPLY_ERROR ? std::string_view(reply.str, reply.len) : std::string_view();
}

}  // namespace

RedisRouter::RedisRouter(RedisAddress address, double connect_seconds, size_t most_reply_bytes)
    : address_(std::move(address)),
      connect_seconds_(connect_seconds),
      most_reply_bytes_(most_reply_bytes),
      seeds_{address_.path.empty() ? RedisNode{address_.host, address_.port} : RedisNode{address_.path, 0}} {
    seeds_.insert(seeds_.end(), address_.more_nodes.begin(), address_.more_nodes.end());
    stale_ = seeds_.size() > 1;  // so it is a cluster
    for (const RedisNode& seed : seeds_) node(seed);
}

// Null: too many.
RedisRouter::Node* RedisRouter::node(const RedisNode& name) {
    const auto found = nodes_.find(name);
    if (found != nodes_.end()) return &*found;
    if (nodes_.size() >= most_nodes + seeds_.size()) return nullptr;
    RedisAddress address = address_;
    if (name.port != 0) address.path.clear(), address.host = name.host, address.port = name.port;
    return &*nodes_.try_emplace(name, address, connect_seconds_, most_reply_bytes_).first;
}

const std::string& RedisRouter::host_of(const Node& node) const {
    static const std::string here = "127.0.0.1";  // at the other end of a Unix socket
    return node.first.port == 0 ? here : node.first.host;
}

// Whom to ask if nothing is known.
RedisRouter::Node& RedisRouter::home(Clock::time_point deadline) {
    if (answered_) return *answered_;
    if (seeds_.size() == 1) return *node(seeds_[0]);
    for (const RedisNode& seed : seeds_)
        if (Node* found = node(seed); found->second.connect(deadline)) return *found;
    return *node(seeds_[0]);
}

std::vector<RedisReply> RedisRouter::run(std::span<const RedisCommand> commands, Clock::time_point deadline) {
    std::vector<RedisReply> replies(commands.size());
    if (commands.empty() || Clock::now() >= deadline) return replies;
    if (stale_) refresh(deadline);
    std::vector<Way> ways = first_ways(commands, deadline);
    for (int i = 0; i <= most_redirections && !ways.empty(); ++i)
        ways = exchange(commands, ways, replies, deadline);
    return replies;
}

std::vector<RedisRouter::Way> RedisRouter::first_ways(std::span<const RedisCommand> commands,
                                                      Clock::time_point deadline) {
    std::vector<Way> ways;
    Node* otherwise = nullptr;
    for (size_t i = 0; i < commands.size(); ++i) {
        const RedisNode* name = map_ ? map_->node(slot_of_key(commands[i][1])) : nullptr;
        Node* to = name ? node(*name) : nullptr;
        if (!to && !otherwise) otherwise = &home(deadline);
        ways.push_back({i, to ? to : otherwise});
    }
    return ways;
}

// Returns the ways of those that were redirected.
std::vector<RedisRouter::Way> RedisRouter::exchange(std::span<const RedisCommand> commands,
                                                    const std::vector<Way>& ways,
                                                    std::vector<RedisReply>& replies,
                                                    Clock::time_point deadline) {
    std::vector<RedisPipeline> pipelines;
    std::unordered_map<Node*, size_t> pipeline_of;
    std::vector<std::pair<size_t, size_t>> places;  // of each command: its pipeline, its place there
    for (const Way& way : ways) {
        const auto [found, added] = pipeline_of.try_emplace(way.node, pipelines.size());
        if (added) pipelines.push_back({&way.node->second, {}, {}});
        auto& list = pipelines[found->second].commands;
        if (way.asking) list.push_back(&asking);
        places.emplace_back(found->second, list.size());
        list.push_back(&commands[way.command]);
    }
    RedisConnection::run(pipelines, deadline);
    std::vector<Way> again;
    for (size_t i = 0; i < ways.size(); ++i) {
        RedisReply& reply = replies[ways[i].command];
        reply = std::move(pipelines[places[i].first].replies[places[i].second]);
        if (!reply) {
            stale_ = stale_ || map_;
            if (answered_ == ways[i].node) answered_ = nullptr;
        } else if (const std::string_view error = error_of(*reply); error.empty()) {
            answered_ = ways[i].node;
        } else if (const auto way = redirected(ways[i], error)) {
            again.push_back(*way);
        }
    }
    return again;
}

std::optional<RedisRouter::Way> RedisRouter::redirected(const Way& way, std::string_view error) {
    if (error.starts_with("CLUSTERDOWN")) stale_ = true;  // for this node; others may have elected a master
    const auto redirection = parse_redirection(error, host_of(*way.node));
    if (!redirection) return std::nullopt;
    Node* to = node(redirection->node);
    if (redirection->ask) {
        if (way.asked || !to) return std::nullopt;
        return Way{way.command, to, true, true};
    }
    stale_ = true;
    if (!map_) map_.emplace();
    if (!to || !map_->set(redirection->slot, redirection->slot, redirection->node)) return std::nullopt;
    return Way{way.command, to, false, way.asked};
}

void RedisRouter::refresh(Clock::time_point deadline) {
    if (Clock::now() < next_refresh_) return;
    next_refresh_ = Clock::now() + refresh_pause;
    std::vector<Node*> candidates;
    if (answered_) candidates.push_back(answered_);
    for (Node& node : nodes_)
        if (&node != answered_ && !node.second.resting()) candidates.push_back(&node);
    candidates.resize(std::min<size_t>(candidates.size(), most_asked));
    for (Node* teller : candidates) {
        const auto wait =
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(connect_seconds_));
        const auto replies = teller->second.run({&slots, 1}, std::min(deadline, Clock::now() + wait));
        if (!replies[0]) continue;
        if (auto map = parse_slot_map(*replies[0], host_of(*teller))) return adopt(std::move(*map), *teller);
        if (error_of(*replies[0]).find("cluster support disabled") != std::string_view::npos &&
            std::ranges::find(seeds_, teller->first) != seeds_.end()) {
            map_.reset();  // another server in its place
            stale_ = false;
            answered_ = teller;
            return;
        }
    }
}

void RedisRouter::adopt(SlotMap map, const Node& teller) {
    const auto needed = [&](const RedisNode& name) {
        return name == teller.first || std::ranges::find(seeds_, name) != seeds_.end() ||
               std::ranges::find(map.nodes(), name) != map.nodes().end();
    };
    answered_ = node(teller.first);
    std::erase_if(nodes_, [&](const Node& node) { return !needed(node.first); });
    map_ = std::move(map);
    stale_ = false;
}

}  // namespace deepinfer::store
