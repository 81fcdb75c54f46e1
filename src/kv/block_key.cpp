#include "kv/block_key.h"

#include <openssl/sha.h>

#include <algorithm>

#include "base/hex.h"
#include "kv/layout.h"

namespace deepinfer::kv {
namespace {

void append_number(std::string& out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

void append_field(std::string& out, char tag, std::string_view value) {
    out += tag;
    append_number(out, value.size(), 8);
    out += value;
}

std::string_view view(const BlockKey& key) {
    return {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()};
}

BlockKey hash(std::string_view message) {
    std::array<uint8_t, SHA256_DIGEST_LENGTH> digest;
    SHA256(reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data());
    BlockKey key;
    std::copy_n(digest.begin(), key.bytes.size(), key.bytes.begin());
    return key;
}

}  // namespace

std::string BlockKey::hex() const { return deepinfer::hex(bytes); }

Fingerprint& Fingerprint::add(std::string_view name, std::string_view value) {
    append_field(fields_, 'n', name);
    append_field(fields_, 'v', value);
    return *this;
}

BlockKey Fingerprint::digest() const {
    std::string message = "deepinfer kv fingerprint 1";
    append_field(message, 'f', fields_);
    return hash(message);
}

BlockKey CacheScope::root() const {
    std::string message = "deepinfer kv root 1";
    append_field(message, 'f', view(fingerprint));
    append_field(message, 'a', adapter);
    append_field(message, 't', tenant);
    append_field(message, 's', salt);
    return hash(message);
}

BlockKey block_key(const BlockKey& parent, int32_t index, std::span<const TokenId> tokens,
                   std::span<const PromptContent> contents) {
    std::string message = "deepinfer kv block 1";
    message.reserve(128 + 4 * tokens.size());
    append_field(message, 'p', view(parent));
    std::string field;
    append_number(field, static_cast<uint32_t>(index), 4);
    append_field(message, 'i', field);
    field.clear();
    for (const TokenId token : tokens) append_number(field, static_cast<uint32_t>(token), 4);
    append_field(message, 't', field);
    const int64_t begin = int64_t{index} * block_tokens, end = begin + static_cast<int64_t>(tokens.size());
    for (const PromptContent& content : contents) {
        if (content.first >= end || int64_t{content.first} + content.tokens <= begin) continue;
        field.assign(reinterpret_cast<const char*>(content.digest.data()), content.digest.size());
        append_number(field, static_cast<uint64_t>(content.first - begin), 8);
        append_number(field, static_cast<uint32_t>(content.tokens), 4);
        append_field(message, 'c', field);
    }
    return hash(message);
}

void extend_keys(const BlockKey& root, std::span<const TokenId> tokens,
                 std::span<const PromptContent> contents, std::vector<BlockKey>& keys) {
    const size_t full = tokens.size() / block_tokens;
    for (size_t i = keys.size(); i < full; ++i)
        keys.push_back(block_key(i == 0 ? root : keys[i - 1], static_cast<int32_t>(i),
                                 tokens.subspan(i * block_tokens, block_tokens), contents));
}

}  // namespace deepinfer::kv
