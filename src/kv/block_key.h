// What a cached block is called: a hash of everything that its bytes depend on. Equal keys mean equal bytes.
//
//   root  = H(root domain;  fingerprint, adapter, tenant, salt)
//   key_i = H(block domain; key_{i-1}, i, the block's tokens, the digests of images that it touches)
//
// H is SHA-256 cut to 128 bits: who can send prompts must not be able to make two of them collide. Every field goes in
// with its tag and its length, so that no two lists of fields have the same bytes.
//
// Threads: pure functions.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace deepinfer::kv {

struct BlockKey {
    std::array<uint8_t, 16> bytes{};

    friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
    std::string hex() const;
};

// The bytes of a key are as good as random.
struct BlockKeyHash {
    size_t operator()(const BlockKey& key) const {
        size_t hash;
        std::memcpy(&hash, key.bytes.data(), sizeof hash);
        return hash;
    }
};

// Collects what the bytes of all blocks of a process depend on: the model's weights, types, layout, positions, numerics,
// tokenizer, format. Order counts.
class Fingerprint {
  public:
    Fingerprint& add(std::string_view name, std::string_view value);
    Fingerprint& add(std::string_view name, int64_t value) { return add(name, std::to_string(value)); }
    BlockKey digest() const;

  private:
    std::string fields_;
};

// Who shares blocks with whom.
struct CacheScope {
    BlockKey fingerprint;
    std::string adapter;  // weights on top of the model's
    std::string tenant;   // from the API key, set by the server
    std::string salt;     // from the request
    BlockKey root() const;
};

// Content of a prompt that its tokens do not tell, as of an image: `first` ... `first + tokens - 1` are its places.
struct PromptContent {
    int32_t first = 0, tokens = 0;
    std::array<uint8_t, 32> digest{};
};

// Of block `index`, whose tokens these are. `contents`: of the whole prompt, by increasing place.
BlockKey block_key(const BlockKey& parent, int32_t index, std::span<const TokenId> tokens,
                   std::span<const PromptContent> contents = {});

// Appends the keys of the full blocks of `tokens` that `keys` does not have yet.
void extend_keys(const BlockKey& root, std::span<const TokenId> tokens,
                 std::span<const PromptContent> contents, std::vector<BlockKey>& keys);

}  // namespace deepinfer::kv
