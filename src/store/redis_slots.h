// Who serves which slot of a Redis Cluster, as its nodes tell it: the slot of a key, the redirections MOVED and ASK, the reply of
// CLUSTER SLOTS (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/). All that is parsed here comes from
// outside: what is malformed or beyond the limits is refused as a whole.
//
// Threads: the functions keep no state; a map is one thread's at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis_address.h"

struct redisReader;
struct redisReply;

namespace deepinfer::store {

constexpr uint16_t slot_count = 16'384;
constexpr size_t most_nodes = 1024;
constexpr size_t most_host_bytes = 255;
constexpr int most_elements = slot_count;  // of an array in a reply: every slot a range of its own

uint16_t crc16(std::string_view bytes);      // XMODEM
uint16_t slot_of_key(std::string_view key);  // of its hash tag {...}, if it has one that is not empty

struct Redirection {
    bool ask = false;  // this once, after ASKING; otherwise MOVED: from now on
    uint16_t slot = 0;
    RedisNode node;
};
// Of the text of an error. `from` is the host that said it: an empty one means the same. nullopt: it is none, or malformed.
std::optional<Redirection> parse_redirection(std::string_view error, const std::string& from);

class SlotMap {
  public:
    // Null: not known.
    const RedisNode* node(uint16_t slot) const {
        return place_[slot] == 0 ? nullptr : &nodes_[place_[slot] - size_t{1}];
    }
    // False, and nothing changed: the map has most_nodes others. Order: first <= last < slot_count.
    bool set(uint16_t first, uint16_t last, const RedisNode& node);
    const std::vector<RedisNode>& nodes() const { return nodes_; }

  private:
    std::vector<RedisNode> nodes_;
    std::array<uint16_t, slot_count> place_{};  // in nodes_, from 1; 0: not known
};
// Of the reply of CLUSTER SLOTS; only masters are taken. nullopt: malformed, or no slot is served.
std::optional<SlotMap> parse_slot_map(const redisReply& reply, const std::string& from);

// A reader that refuses arrays of more than most_elements, before it makes room for them.
void limit_arrays(redisReader& reader);

}  // namespace deepinfer::store
