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

class ApiKeys {
  public:
    ApiKeys() = default;
    explicit ApiKeys(const std::vector<std::string>& keys);

    bool required() const { return !digests_.empty(); }
    // The tenant of a key: the first 16 hexadecimal digits of its digest. Nothing if the key is not known.
    // Without keys everybody is the tenant "".
    std::optional<std::string> tenant(std::string_view key) const;

  private:
    using Digest = std::array<unsigned char, 32>;
    static Digest digest(std::string_view key);
    std::vector<Digest> digests_;
};

// One key per line; blank lines and lines that begin with # are skipped.
Result<std::vector<std::string>> read_key_file(const std::string& path);

}  // namespace deepinfer::server
