// Blocks in a Redis or Valkey server, which any number of machines may share.
//
// A block is a value of its own: "deepinfer:1:<key>" holds its record (block_record.h), set if it is not there (SET NX) with the time to
// live of its class. The server's memory limit and eviction policy are its owner's affair: a value that is gone is a miss, and a server
// that is full stores nothing more.
//
// A server that cannot be reached is a miss, too, now and at the start: calls fail, after three in a row without trying, for a second;
// then it is tried again. No call takes longer than its deadline, but for the time that connecting takes at most.
//
// The server may be a node of a Redis Cluster, which is found out by itself: then each block lies in the node that serves its slot
// (redis_cluster.h), a node that is gone is a miss for its blocks only, and a fail-over is followed. A cluster has database 0 only:
// with another one in the address every call fails.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "store/block_store.h"
#include "store/redis_address.h"

namespace deepinfer::store {

struct RedisStoreOptions {
    RedisAddress address;
    BlockShape shape;
    std::string name = "redis";
    double connect_seconds = 0.5;
};
// Error: unsupported for the shape.
Result<std::unique_ptr<BlockStore>> open_redis_store(const RedisStoreOptions& options);

}  // namespace deepinfer::store
