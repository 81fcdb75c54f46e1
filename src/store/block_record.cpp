#include "store/block_record.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace deepinfer::store {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<char, 8> magic{'D', 'I', 'B', 'L', 'O', 'C', 'K', '\n'};

struct Header {
    std::array<char, 8> magic;
    uint32_t version, sections;
    kv::BlockKey fingerprint, key, parent;
    int32_t index;
    float seconds;
    uint32_t retention, block_bytes;
    uint64_t tenant;
    int64_t created;
    std::array<TokenId, kv::block_tokens> tokens;
    // sections checksums of 8 bytes follow, then that of all before it
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 352);

uint64_t checksum(std::span<const uint8_t> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

uint64_t number_at(std::span<const uint8_t> bytes, size_t at) {
    uint64_t value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

Error damaged(const char* what) { return {ErrorCode::corrupt_data, std::string("a stored block: ") + what}; }

}  // namespace

size_t record_header_bytes(const BlockShape& shape) {
    return sizeof(Header) + sizeof(uint64_t) * (shape.sections.size() + 1);
}

Status check_shape(const BlockShape& shape) {
    uint64_t sum = 0;
    for (const uint32_t bytes : shape.sections) sum += bytes;
    if (shape.sections.empty() || shape.sections.size() > most_sections || sum != shape.block_bytes ||
        sum > most_block_bytes)
        return Error{ErrorCode::unsupported, "blocks of " + std::to_string(sum) + " bytes in " +
                                                 std::to_string(shape.sections.size()) +
                                                 " sections cannot be stored; at most " +
                                                 std::to_string(most_block_bytes) + " bytes in 1 to " +
                                                 std::to_string(most_sections) + " can"};
    return {};
}

void encode_record(const BlockShape& shape, const Put& put, int64_t created, std::span<uint8_t> header) {
    const Header h{magic,
                   record_version,
                   static_cast<uint32_t>(shape.sections.size()),
                   shape.fingerprint,
                   put.key,
                   put.parent,
                   put.index,
                   put.seconds,
                   static_cast<uint32_t>(put.retention),
                   shape.block_bytes,
                   put.tenant,
                   created,
                   put.tokens};
    std::memcpy(header.data(), &h, sizeof h);
    size_t at = sizeof h, from = 0;
    const auto append = [&](uint64_t value) {
        std::memcpy(header.data() + at, &value, sizeof value);
        at += sizeof value;
    };
    for (const uint32_t bytes : shape.sections) {
        append(checksum(put.bytes.subspan(from, bytes)));
        from += bytes;
    }
    append(checksum(header.first(at)));
}

Result<RecordInfo> decode_record(const BlockShape& shape, std::span<const uint8_t> header) {
    const size_t size = record_header_bytes(shape);
    Header h;
    if (header.size() < size) return damaged("it ends inside its header");
    std::memcpy(&h, header.data(), sizeof h);
    if (h.magic != magic) return damaged("it does not begin as one");
    if (h.version != record_version)
        return Error{ErrorCode::unsupported, "a stored block: of format " + std::to_string(h.version) +
                                                 "; this program knows " + std::to_string(record_version)};
    if (h.sections != shape.sections.size() || h.block_bytes != shape.block_bytes)
        return damaged("of another shape");
    if (checksum(header.first(size - sizeof(uint64_t))) != number_at(header, size - sizeof(uint64_t)))
        return damaged("its header's checksum is wrong");
    if (h.fingerprint != shape.fingerprint) return damaged("of another model");
    if (h.index < 0 || !std::isfinite(h.seconds) || h.seconds < 0) return damaged("a number is out of range");
    if (h.retention > static_cast<uint32_t>(kv::Retention::chat))
        return damaged("of an unknown retention class");
    return RecordInfo{h.key,    h.parent,  h.index, h.seconds, static_cast<kv::Retention>(h.retention),
                      h.tenant, h.created, h.tokens};
}

bool bytes_intact(const BlockShape& shape, std::span<const uint8_t> header, std::span<const uint8_t> bytes) {
    size_t at = sizeof(Header), from = 0;
    for (const uint32_t section : shape.sections) {
        if (checksum(bytes.subspan(from, section)) != number_at(header, at)) return false;
        at += sizeof(uint64_t);
        from += section;
    }
    return true;
}

Get::Outcome judge_record(const BlockShape& shape, std::span<const uint8_t> header, const Get& item) {
    const Result<RecordInfo> info = decode_record(shape, header);
    const bool good = info && info->key == item.key && std::ranges::equal(info->tokens, item.tokens) &&
                      bytes_intact(shape, header, item.bytes);
    return good ? Get::Outcome::ok : Get::Outcome::damaged;
}

}  // namespace deepinfer::store
