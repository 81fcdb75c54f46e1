#include "store/redis_address.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace deepinfer::store {

namespace {

template <class T>
bool parse_number(std::string_view text, T& value, T least, T most) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
}

// One host[:port] from the front of a list, with the comma behind it. Returns what is wrong with it.
std::string take_node(std::string_view& list, RedisNode& node) {
    size_t end = 0;
    if (list.starts_with("[")) {
        end = list.find(']');
        if (end == std::string_view::npos) return "has a '[' without a ']'";
        node.host = list.substr(1, end - 1);
        list.remove_prefix(end + 1);
    } else {
        end = std::min(list.find_first_of(":,"), list.size());
        node.host = list.substr(0, end);
        list.remove_prefix(end);
    }
    if (node.host.empty()) return "has no host";
    end = std::min(list.find(','), list.size());
    const std::string_view port = list.substr(0, end);
    if (!port.empty() && (port[0] != ':' || !parse_number(port.substr(1), node.port, 1, 65'535)))
        return "has a port that is no number from 1 to 65535";
    if (end + 1 == list.size()) return "ends with a comma";
    list.remove_prefix(std::min(end + 1, list.size()));
    return {};
}

// nullopt: a '%' that is not followed by the number of a byte other than 0.
std::optional<std::string> percent_decoded(std::string_view text) {
    std::string result;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            result += text[i];
            continue;
        }
        unsigned byte = 0;
        const std::string_view digits = text.substr(i + 1, 2);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
        if (digits.size() < 2 || error != std::errc() || end != digits.data() + 2 || byte == 0)
            return std::nullopt;
        result += static_cast<char>(byte);
        i += 2;
    }
    return result;
}

}  // namespace

Result<RedisAddress> parse_redis_url(const std::string& url) {
    const auto wrong = [](const std::string& why) {
        return Error{ErrorCode::invalid_argument,
                     "the address of a Redis server " + why +
                         "; it is redis://[[user]:password@]host[:port][,host[:port]]...[/database] or "
                         "unix:///path"};
    };
    if (url.size() > most_url_bytes)
        return wrong("has more than " + std::to_string(most_url_bytes) + " bytes");
    if (url.find('\0') != std::string::npos) return wrong("has a zero byte in it");
    RedisAddress address;
    if (url.starts_with("unix://")) {
        address.path = url.substr(7);
        return address.path.starts_with("/") ? Result<RedisAddress>(address)
                                             : wrong("names no absolute path");
    }
    if (url.starts_with("rediss://"))
        return Error{ErrorCode::unsupported, "TLS (rediss://) is not supported: use a tunnel"};
    if (!url.starts_with("redis://") && !url.starts_with("valkey://"))
        return wrong("does not begin with redis://, valkey:// or unix://");
    std::string_view rest = std::string_view(url).substr(url.find("//") + 2);
    if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
        const std::string_view who = rest.substr(0, at);
        const size_t colon = who.find(':');
        if (colon == std::string_view::npos) return wrong("has a user without a password");
        const auto user = percent_decoded(who.substr(0, colon)),
                   password = percent_decoded(who.substr(colon + 1));
        if (!user || !password)
            return wrong(
                "has a user or password with a '%' that two hexadecimal digits do not follow (%25 is '%')");
        address.user = *user;
        address.password = *password;
        rest.remove_prefix(at + 1);
    }
    if (const size_t slash = rest.find('/'); slash != std::string_view::npos) {
        if (slash + 1 < rest.size() && !parse_number(rest.substr(slash + 1), address.database, 0, 65'535))
            return wrong("has a database that is no number from 0 to 65535");
        rest = rest.substr(0, slash);
    }
    for (bool first = true; first || !rest.empty(); first = false) {
        RedisNode node;
        if (const std::string why = take_node(rest, node); !why.empty()) return wrong(why);
        if (first)
            address.host = node.host, address.port = node.port;
        else
            address.more_nodes.push_back(node);
    }
    if (!address.more_nodes.empty() && address.database != 0)
        return wrong(
            "has several hosts, which is a cluster, and a database other than 0, which no cluster has");
    return address;
}

}  // namespace deepinfer::store
