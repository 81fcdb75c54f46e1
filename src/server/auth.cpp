#include "server/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/hex.h"

namespace deepinfer::server {

ApiKeys::Digest ApiKeys::digest(std::string_view key) {
    Digest result;
    SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), result.data());
    return result;
}

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) digests_.push_back(digest(key));
}

std::optional<std::string> ApiKeys::tenant(std::string_view key) const {
    if (!required()) return std::string();
    const Digest given = digest(key);
    int found = 0;
    for (const Digest& known : digests_)
        found |= CRYPTO_memcmp(known.data(), given.data(), given.size()) == 0;
    if (!found) return std::nullopt;
    return name(given);
}

std::string ApiKeys::tenant_name(std::string_view key) { return name(digest(key)); }

std::string ApiKeys::name(const Digest& digest) { return hex(std::span(digest).first(8)); }

namespace {

constexpr double least_weight = 0.001, most_weight = 1000;

// "KEY" or "KEY weight=N"; `line` has no white space around it.
Result<ApiKey> read_key_line(std::string_view line, const std::string& where) {
    ApiKey result;
    const size_t end = line.find_first_of(" \t");
    result.key = line.substr(0, end);
    if (end == std::string_view::npos) return result;
    std::string_view rest = line.substr(line.find_first_not_of(" \t", end));
    constexpr std::string_view name = "weight=";
    const char* first = rest.data() + std::min(name.size(), rest.size());
    const char* last = rest.data() + rest.size();
    const auto [stop, error] = std::from_chars(first, last, result.weight);
    if (!rest.starts_with(name) || error != std::errc() || stop != last || !(result.weight >= least_weight) ||
        !(result.weight <= most_weight))
        return Error{ErrorCode::invalid_argument,
                     where + ": after the key only weight=N may stand, N from 0.001 to 1000"};
    return result;
}

}  // namespace

Result<std::vector<ApiKey>> read_key_file(const std::string& path) {
    std::ifstream file(path);
    if (!file) return Error{ErrorCode::not_found, "cannot read the API key file " + path};
    std::vector<ApiKey> keys;
    int number = 0;
    for (std::string line; std::getline(file, line);) {
        ++number;
        const size_t first = line.find_first_not_of(" \t\r");
        if (first == std::string::npos || line[first] == '#') continue;
        const std::string_view text =
            std::string_view(line).substr(first, line.find_last_not_of(" \t\r") - first + 1);
        Result<ApiKey> key =
            read_key_line(text, "the API key file " + path + ", line " + std::to_string(number));
        if (!key) return std::move(key).error();
        keys.push_back(std::move(*key));
    }
    if (file.bad()) return Error{ErrorCode::io_error, "reading the API key file " + path + " failed"};
    if (keys.empty())
        return Error{ErrorCode::invalid_argument, "the API key file " + path + " contains no key"};
    return keys;
}

}  // namespace deepinfer::server
