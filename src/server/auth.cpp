#include "server/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <fstream>

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
    constexpr char hex[] = "0123456789abcdef";
    std::string name;
    for (size_t i = 0; i < 8; ++i) {
        name += hex[given[i] >> 4];
        name += hex[given[i] & 15];
    }
    return name;
}

Result<std::vector<std::string>> read_key_file(const std::string& path) {
    std::ifstream file(path);
    if (!file) return Error{ErrorCode::not_found, "cannot read the API key file " + path};
    std::vector<std::string> keys;
    for (std::string line; std::getline(file, line);) {
        const size_t first = line.find_first_not_of(" \t\r");
        if (first == std::string::npos || line[first] == '#') continue;
        keys.push_back(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
    }
    if (file.bad()) return Error{ErrorCode::io_error, "reading the API key file " + path + " failed"};
    if (keys.empty())
        return Error{ErrorCode::invalid_argument, "the API key file " + path + " contains no key"};
    return keys;
}

}  // namespace deepinfer::server
