#include "cli/json_difference.h"

#include <algorithm>
#include <cmath>

#include "base/quote.h"

namespace deepinfer::cli {
namespace {

namespace json = boost::json;

bool same_number(const json::value& a, const json::value& b) {
    const double x = a.to_number<double>(), y = b.to_number<double>();
    return x == y || std::abs(x - y) <= 1e-6 * std::max(std::abs(x), std::abs(y));
}

std::string in_words(std::string_view what, const json::value& ours, const json::value& expected) {
    return std::string(what) + ": ours " + json::serialize(ours).substr(0, 300) + ", expected " +
           json::serialize(expected).substr(0, 300);
}

}  // namespace

std::string difference(std::string_view what, std::string_view ours, std::string_view expected) {
    if (ours == expected) return {};
    size_t at = 0;
    while (at < ours.size() && at < expected.size() && ours[at] == expected[at]) ++at;
    const auto around = [at](std::string_view text) {
        const size_t begin = at > 20 ? at - 20 : 0;
        return to_valid_utf8(std::string(text.substr(std::min(begin, text.size()), 80)));
    };
    return std::string(what) + " differs at byte " + std::to_string(at) + ": ours ..." + around(ours) +
           "... expected ..." + around(expected) + "...";
}

std::string difference(std::string_view what, const json::value& ours, const json::value& expected) {
    if (ours.is_number() && expected.is_number())
        return same_number(ours, expected) ? "" : in_words(what, ours, expected);
    if (ours.kind() != expected.kind()) return in_words(what, ours, expected);
    if (const json::array* items = ours.if_array()) {
        const json::array& others = expected.get_array();
        for (size_t i = 0; i < std::min(items->size(), others.size()); ++i)
            if (auto found =
                    difference(std::string(what) + "[" + std::to_string(i) + "]", (*items)[i], others[i]);
                !found.empty())
                return found;
        return items->size() == others.size() ? "" : in_words(what, ours, expected);
    }
    if (const json::object* members = ours.if_object()) {
        const json::object& others = expected.get_object();
        for (const auto& member : *members) {
            const std::string path = std::string(what) + "." + std::string(member.key());
            const json::value* other = others.if_contains(member.key());
            if (!other) return path + " is not expected: " + json::serialize(member.value()).substr(0, 300);
            if (auto found = difference(path, member.value(), *other); !found.empty()) return found;
        }
        for (const auto& member : others)
            if (!members->contains(member.key()))
                return std::string(what) + "." + std::string(member.key()) + " is missing: expected " +
                       json::serialize(member.value()).substr(0, 300);
        return {};
    }
    return ours == expected ? "" : in_words(what, ours, expected);
}

}  // namespace deepinfer::cli
