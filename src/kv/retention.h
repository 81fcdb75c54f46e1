// How long a computed block is worth keeping on storage after its last use.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace deepinfer::kv {

enum class Retention : uint8_t {
    none,   // never stored; found again only while it is in the pool
    agent,  // 3 days: tools calling in a loop
    chat,   // 7 days: people who come back
};
constexpr std::array<Retention, 2> stored_classes{Retention::agent, Retention::chat};

constexpr std::string_view to_string(Retention retention) {
    switch (retention) {
        case Retention::none:
            return "none";
        case Retention::agent:
            return "agent";
        case Retention::chat:
            return "chat";
    }
    return "";
}
constexpr std::optional<Retention> parse_retention(std::string_view name) {
    for (Retention r : {Retention::none, Retention::agent, Retention::chat})
        if (to_string(r) == name) return r;
    return std::nullopt;
}
constexpr std::chrono::seconds lifetime(Retention retention) {
    using std::chrono::hours;
    switch (retention) {
        case Retention::none:
            return hours(0);
        case Retention::agent:
            return hours(3 * 24);
        case Retention::chat:
            return hours(7 * 24);
    }
    return hours(0);
}

}  // namespace deepinfer::kv
