// What the nodes of a Redis Cluster say: redirections, slot maps. Run: redis_slots_fuzz NEW_INPUTS tests/fuzz/corpus/redis_slots
//
// Input: the text of an error, and, the same bytes, what a server sends.
#include <hiredis/hiredis.h>

#include <cstdlib>

#include "store/redis_connection.h"
#include "store/redis_slots.h"

namespace {

using namespace deepinfer::store;

void require(bool condition) {
    if (!condition) std::abort();
}
void check(const RedisNode& node) {
    require(!node.host.empty() && node.host.size() <= most_host_bytes &&
            node.host.find_first_of("? /@") == std::string::npos);
    require(node.port >= 1 && node.port <= 65'535);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    if (const auto redirection = parse_redirection(text, "from")) {
        require(redirection->slot < slot_count);
        check(redirection->node);
    }
    require(slot_of_key(text) < slot_count);

    redisReader* reader = redisReaderCreate();
    limit_arrays(*reader);
    void* got = nullptr;
    if (redisReaderFeed(reader, text.data(), text.size()) == REDIS_OK &&
        redisReaderGetReply(reader, &got) == REDIS_OK && got) {
        const RedisReply reply(static_cast<redisReply*>(got));
        if (const auto map = parse_slot_map(*reply, "from")) {
            require(!map->nodes().empty() && map->nodes().size() <= most_nodes);
            for (const RedisNode& node : map->nodes()) check(node);
            size_t served = 0;
            for (uint16_t slot = 0; slot < slot_count; ++slot) served += map->node(slot) != nullptr;
            require(served > 0);
        }
    }
    redisReaderFree(reader);
    return 0;
}
