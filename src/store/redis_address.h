// Where a Redis or Valkey server is, or several nodes of a cluster, and who asks.
//
// Threads: values and a function without state.
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace deepinfer::store {

struct RedisNode {
    std::string host;
    int port = 6379;
    auto operator<=>(const RedisNode&) const = default;
};
struct RedisAddress {
    std::string host;
    int port = 6379;
    std::vector<RedisNode> more_nodes;  // of the same cluster, asked where the first one does not answer
    std::string path;                   // of a Unix socket, instead of host and port
    std::string user, password;
    int database = 0;
};
constexpr size_t most_url_bytes = 1024;
// redis://[[user]:password@]host[:port][,host[:port]]...[/database] (or valkey://, the same) or unix:///path. User and
// password are percent-decoded. Several hosts are nodes of a cluster, which has
// no database but 0. Error: invalid_argument, which says what is wrong; it does not repeat the password.
Result<RedisAddress> parse_redis_url(const std::string& url);

}  // namespace deepinfer::store
