#include <xxhash.h>

#include <cstdio>

#include "api/answer_events.h"

namespace deepinfer::api {
namespace {

constexpr size_t check_digits = 4;

std::string checksum(std::string_view id) {
    std::string hashed;
    for (const char c : id)
        if (c != '_') hashed += c;
    char digits[8];
    std::snprintf(digits, sizeof digits, "%04u",
                  static_cast<unsigned>(XXH3_64bits(hashed.data(), hashed.size()) % 10'000));
    return digits;
}

}  // namespace

std::string tool_call_id(size_t index, bool unthought, const std::string& random) {
    char number[24];
    std::snprintf(number, sizeof number, "call_%02zu_", index);
    const std::string id = std::string(number) + (unthought ? "ET_" : "") + random;
    return id + checksum(id);
}

bool is_tool_call_id(const std::string& id) {
    if (id.size() <= check_digits || !id.starts_with("call_")) return false;
    const std::string_view all = id;
    return checksum(all.substr(0, all.size() - check_digits)) == all.substr(all.size() - check_digits);
}

}  // namespace deepinfer::api
