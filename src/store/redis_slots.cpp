#include "store/redis_slots.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <charconv>
#include <span>

namespace deepinfer::store {

namespace {

constexpr std::array<uint16_t, 256> crc_table = [] {
    std::array<uint16_t, 256> table{};
    for (size_t i = 0; i < table.size(); ++i) {
        auto crc = static_cast<uint16_t>(i << 8);
        for (int bit = 0; bit < 8; ++bit)
            crc = static_cast<uint16_t>((crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021 : 0));
        table[i] = crc;
    }
    return table;
}();

std::optional<uint16_t> number(std::string_view text, uint16_t least, uint16_t most) {
    uint16_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
        return std::nullopt;
    return value;
}

bool is_host(std::string_view text) {
    return !text.empty() && text.size() <= most_host_bytes && std::ranges::all_of(text, [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
               c == '-' || c == '_' || c == ':' || c == '%';
    });
}

// A host that is not known is told as "?".
struct Master {
    bool known = true;
    RedisNode node;
};
std::optional<Master> parse_master(const redisReply& reply, const std::string& from) {
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements < 2) return std::nullopt;
    const redisReply &host = *reply.element[0], &port = *reply.element[1];
    if (port.type != REDIS_REPLY_INTEGER || port.integer < 1 || port.integer > 65'535) return std::nullopt;
    const bool text = host.type == REDIS_REPLY_STRING || host.type == REDIS_REPLY_STATUS;
    if (!text && host.type != REDIS_REPLY_NIL) return std::nullopt;
    std::string_view name = from;
    if (text && host.len > 0) name = {host.str, host.len};
    if (name == "?") return Master{false, {}};
    if (!is_host(name)) return std::nullopt;
    return Master{true, {std::string(name), static_cast<int>(port.integer)}};
}

}  // namespace

uint16_t crc16(std::string_view bytes) {
    uint16_t crc = 0;
    for (const char c : bytes)
        crc = static_cast<uint16_t>((crc << 8) ^ crc_table[(crc >> 8) ^ static_cast<uint8_t>(c)]);
    return crc;
}

uint16_t slot_of_key(std::string_view key) {
    if (const size_t open = key.find('{'); open != std::string_view::npos)
        if (const size_t close = key.find('}', open + 1); close != std::string_view::npos && close > open + 1)
            key = key.substr(open + 1, close - open - 1);
    return crc16(key) % slot_count;
}

std::optional<Redirection> parse_redirection(std::string_view error, const std::string& from) {
    Redirection redirection;
    if (error.starts_with("ASK "))
        redirection.ask = true;
    else if (!error.starts_with("MOVED "))
        return std::nullopt;
    error.remove_prefix(error.find(' ') + 1);
    const size_t space = std::min(error.find(' '), error.size());
    const auto slot = number(error.substr(0, space), 0, slot_count - 1);
    error.remove_prefix(std::min(space + 1, error.size()));
    const size_t colon = error.rfind(':');  // IPv6 addresses have colons, too
    if (!slot || colon == std::string_view::npos) return std::nullopt;
    const auto port = number(error.substr(colon + 1), 1, 65'535);
    std::string_view host = error.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    if (host.empty()) host = from;
    if (!port || !is_host(host)) return std::nullopt;
    redirection.slot = *slot;
    redirection.node = {std::string(host), *port};
    return redirection;
}

bool SlotMap::set(uint16_t first, uint16_t last, const RedisNode& node) {
    const auto place = static_cast<size_t>(std::ranges::find(nodes_, node) - nodes_.begin());
    if (place == nodes_.size()) {
        if (nodes_.size() >= most_nodes) return false;
        nodes_.push_back(node);
    }
    std::fill(place_.begin() + first, place_.begin() + last + 1, static_cast<uint16_t>(place + 1));
    return true;
}

std::optional<SlotMap> parse_slot_map(const redisReply& reply, const std::string& from) {
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements > slot_count) return std::nullopt;
    SlotMap map;
    int64_t total = 0;  // ranges that overlap are malformed
    for (const redisReply* range : std::span(reply.element, reply.elements)) {
        if (range->type != REDIS_REPLY_ARRAY || range->elements < 3) return std::nullopt;
        const redisReply &first = *range->element[0], &last = *range->element[1];
        if (first.type != REDIS_REPLY_INTEGER || last.type != REDIS_REPLY_INTEGER || first.integer < 0 ||
            last.integer < first.integer || last.integer >= slot_count)
            return std::nullopt;
        total += last.integer - first.integer + 1;
        const auto master = parse_master(*range->element[2], from);
        if (total > slot_count || !master) return std::nullopt;
        if (master->known &&
            !map.set(static_cast<uint16_t>(first.integer), static_cast<uint16_t>(last.integer), master->node))
            return std::nullopt;
    }
    if (map.nodes().empty()) return std::nullopt;
    return map;
}

void limit_arrays(redisReader& reader) {
    static const redisReplyObjectFunctions usual = *reader.fn;  // hiredis has one set for all
    static redisReplyObjectFunctions limited = [] {
        redisReplyObjectFunctions functions = usual;
        // `auto`: later versions of hiredis count in size_t.
        functions.createArray = [](const redisReadTask* task, auto elements) -> void* {
            return elements > decltype(elements){most_elements} ? nullptr : usual.createArray(task, elements);
        };
        return functions;
    }();
    reader.fn = &limited;
}

}  // namespace deepinfer::store
