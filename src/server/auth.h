// API keys. Keys are kept as SHA-256 digests and compared in constant time. A key is a tenant.
//
// Threads: immutable after construction.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace deepinfer::server {

struct ApiKey {
    std::string key;
    double weight = 1;  // its share of the compute against the other keys' when all want some
};

class ApiKeys {
  public:
    ApiKeys() = default;
    explicit ApiKeys(const std::vector<std::string>& keys);

    // The tenant that a key is, whether it is known or not.
    static std::string tenant_name(std::string_view key);

    bool required() const { return !digests_.empty(); }
    // The tenant of a key: the first 16 hexadecimal digits of its digest. Nothing if the key is not known.
    // Without keys everybody is the tenant "".
    std::optional<std::string> tenant(std::string_view key) const;

  private:
    using Digest = std::array<unsigned char, 32>;
    static Digest digest(std::string_view key);
    static std::string name(const Digest& digest);
    std::vector<Digest> digests_;
};

// One key per line, and after it, if it is not 1, its weight: "sk-team-a weight=4". Blank lines and lines that begin with #
// are skipped. Errors name the line.
Result<std::vector<ApiKey>> read_key_file(const std::string& path);

}  // namespace deepinfer::server
