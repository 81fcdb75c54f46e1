// The self-describing record of one block, as every store keeps it: a header, and the block's bytes.
//
// The header names the block (key, parent, tokens) and says what it takes to trust the bytes: the fingerprint of everything
// that they depend on, and a checksum of each section (the keys and values of a layer), so that a reader may use one before
// the others are there. Checksums are XXH3 (64 bits) and guard against accidents; whoever can write to a store is trusted.
// Integers are little-endian. Nothing read is believed before the header's own checksum is right.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "store/block_store.h"

namespace deepinfer::store {

constexpr uint32_t record_version = 1;
constexpr size_t most_sections = 448;  // layers of a model: a header fits into 4 KiB
constexpr uint32_t most_block_bytes = uint32_t{256} << 20;

struct RecordInfo {
    kv::BlockKey key, parent;
    int32_t index = 0;
    float seconds = 0;
    kv::Retention retention = kv::Retention::chat;
    uint64_t tenant = 0;
    int64_t created = 0;  // seconds since 1970
    std::array<TokenId, kv::block_tokens> tokens{};
};

// Of every record of this shape.
size_t record_header_bytes(const BlockShape& shape);
// Error: unsupported, if blocks of this shape cannot be stored.
Status check_shape(const BlockShape& shape);

// Writes the header of `put` into the first record_header_bytes() of `header`. Reads all of put.bytes.
void encode_record(const BlockShape& shape, const Put& put, int64_t created, std::span<uint8_t> header);
// Errors: corrupt_data, which says what differs; unsupported for another version.
Result<RecordInfo> decode_record(const BlockShape& shape, std::span<const uint8_t> header);
// Whether these are the bytes that the header, which decode_record() took, was made for.
bool bytes_intact(const BlockShape& shape, std::span<const uint8_t> header, std::span<const uint8_t> bytes);
// All of it: what get() reports for a record that was read.
Get::Outcome judge_record(const BlockShape& shape, std::span<const uint8_t> header, const Get& item);

}  // namespace deepinfer::store
