// A segment: an append-only file of blocks, written by one process, read by any.
//
//   page 0            header: fingerprint, shape, retention class
//   records           all of one length: the block's header (block_record.h), its bytes, each padded to whole pages. Record i
//                     is where arithmetic says, so that reading some in a row is one call, and a damaged one costs no other.
//   index, trailer    once it is sealed: an entry for each record, so that opening reads two pieces instead of every header;
//                     the trailer is the file's last page and says where the index is
//
// A page has 4 KiB, so that everything may be read and written directly. A segment without a trailer was left by a process
// that died, or is being written: it is walked, header after header, up to the first that is not whole. What lies there of
// a record that was being written is written over, or cut off. Nothing here says that the bytes of a block are right: each
// record does.
//
// Parsers of outside bytes: tests/fuzz/segment_fuzz.cpp. Threads: functions without state.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "store/block_record.h"
#include "store/file_io.h"

namespace deepinfer::store {

constexpr int64_t page_bytes = 4096;
constexpr size_t most_records = 1 << 20;  // of a segment

struct SegmentEntry {
    kv::BlockKey key, parent;
    int32_t index = 0;
    float seconds = 0;
    uint64_t tenant = 0;
    int64_t created = 0;
    friend bool operator==(const SegmentEntry&, const SegmentEntry&) = default;
};
SegmentEntry entry_of(const RecordInfo& info);

struct SegmentContents {
    kv::Retention retention = kv::Retention::chat;
    std::vector<SegmentEntry> entries;  // entries[i] is of record i
    bool sealed = false;
};

// Where record i begins, and how long records are.
constexpr int64_t whole_pages(int64_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }
inline int64_t record_stride(const BlockShape& shape) { return page_bytes + whole_pages(shape.block_bytes); }
inline int64_t record_offset(const BlockShape& shape, size_t i) {
    return page_bytes + static_cast<int64_t>(i) * record_stride(shape);
}

// Of a file with so many records, index and trailer.
int64_t sealed_bytes(const BlockShape& shape, size_t records);

// Whether a process holds the lock that a segment's writer takes; false where the file system has no locks.
bool has_writer(int descriptor);
std::array<uint8_t, page_bytes> segment_header(const BlockShape& shape, kv::Retention retention);
// What a segment's first page says. Errors: corrupt_data, unsupported (another version), io_error.
struct SegmentHeader {
    BlockShape shape;
    kv::Retention retention = kv::Retention::chat;
};
Result<SegmentHeader> read_segment_header(FileIo& io, int descriptor);
// Writes index and trailer behind the records, and cuts off what is behind them. Error: io_error.
Status seal_segment(FileIo& io, int descriptor, const BlockShape& shape,
                    std::span<const SegmentEntry> entries);
// `known`: entries read before, of a segment that is not sealed; only what comes after them is read. Errors: those of
// read_segment_header(); not_found (of another model).
Result<SegmentContents> read_segment(FileIo& io, int descriptor, const BlockShape& shape,
                                     std::vector<SegmentEntry> known = {});

}  // namespace deepinfer::store
