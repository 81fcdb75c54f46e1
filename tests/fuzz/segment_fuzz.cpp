// Segments of the disk store. Run: segment_fuzz NEW_INPUTS tests/fuzz/corpus/segment
//
// Input: a byte of flags, then triples (place, 2 bytes; value, 1 byte) that are written over a whole segment of three blocks. Flags
// put checksums right that the change made wrong, so that the checks behind them must not rely on them, and cut the file off at the
// first place.
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/file_descriptor.h"
#include "store/segment.h"

namespace {

using namespace deepinfer;
using namespace deepinfer::store;

enum Flag : uint8_t { right_header = 1, right_records = 2, right_index = 4, right_trailer = 8, cut_off = 16 };
constexpr size_t blocks = 3;

void require(bool condition) {
    if (!condition) std::abort();
}

const BlockShape& shape() {
    static const BlockShape made = [] {
        BlockShape s;
        s.fingerprint.bytes.fill(7);
        s.sections = {3000, 3000};
        s.block_bytes = 6000;
        return s;
    }();
    return made;
}

std::vector<uint8_t> contents_of(int descriptor) {
    std::vector<uint8_t> bytes(static_cast<size_t>(::lseek(descriptor, 0, SEEK_END)));
    require(::pread(descriptor, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    return bytes;
}

std::vector<uint8_t> make_segment() {
    const FileDescriptor file(::memfd_create("segment", 0));
    FileIo io;
    auto page = segment_header(shape(), kv::Retention::chat);
    require(::pwrite(file.get(), page.data(), page.size(), 0) == page_bytes);
    std::vector<SegmentEntry> entries;
    for (size_t i = 0; i < blocks; ++i) {
        const std::vector<uint8_t> bytes(6000, static_cast<uint8_t>(i));
        Put put;
        put.key.bytes.fill(static_cast<uint8_t>(i + 1));
        put.index = static_cast<int32_t>(i);
        put.bytes = bytes;
        std::vector<uint8_t> record(static_cast<size_t>(record_stride(shape())));
        encode_record(shape(), put, 1, record);
        std::memcpy(record.data() + page_bytes, bytes.data(), bytes.size());
        require(::pwrite(file.get(), record.data(), record.size(), record_offset(shape(), i)) > 0);
        entries.push_back(entry_of(*decode_record(shape(), record)));
    }
    require(seal_segment(io, file.get(), shape(), entries).ok());
    return contents_of(file.get());
}

void put_checksum(std::vector<uint8_t>& bytes, size_t from, size_t count, size_t at) {
    if (at + sizeof(uint64_t) > bytes.size()) return;
    const uint64_t sum = XXH3_64bits(bytes.data() + from, count);
    std::memcpy(bytes.data() + at, &sum, sizeof sum);
}

void look(int descriptor, const BlockShape& as) {
    FileIo io;
    const auto contents = read_segment(io, descriptor, as);
    if (!contents) return require(!contents.error().message.empty());
    const off_t bytes = ::lseek(descriptor, 0, SEEK_END);
    require(static_cast<int64_t>(contents->entries.size()) * record_stride(as) <= bytes);
    for (size_t i = 0; i < contents->entries.size() && i < 8; ++i) {
        std::vector<uint8_t> header(page_bytes), block(as.block_bytes);
        if (::pread(descriptor, header.data(), header.size(), record_offset(as, i)) != page_bytes) continue;
        const ssize_t got =
            ::pread(descriptor, block.data(), block.size(), record_offset(as, i) + page_bytes);
        if (got != static_cast<ssize_t>(block.size())) continue;
        const auto info = decode_record(as, header);
        if (!info) continue;
        const Get item{contents->entries[i].key, info->tokens, block};
        const Get::Outcome outcome = judge_record(as, header, item);
        require(outcome == Get::Outcome::damaged || info->key == item.key);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const std::vector<uint8_t> whole = make_segment();
    if (size < 1) return 0;
    const uint8_t flags = data[0];
    std::vector<uint8_t> bytes = whole;
    for (size_t i = 1; i + 3 <= size; i += 3) {
        const size_t at = data[i] | static_cast<size_t>(data[i + 1]) << 8;
        if (i == 1 && flags & cut_off)
            bytes.resize(std::min(bytes.size(), at));
        else if (at < bytes.size())
            bytes[at] = data[i + 2];
    }
    const auto index = static_cast<size_t>(record_offset(shape(), blocks)),
               header = record_header_bytes(shape());
    if (flags & right_header) put_checksum(bytes, 0, page_bytes - 8, page_bytes - 8);
    for (size_t i = 0; flags & right_records && i < blocks; ++i) {
        const auto at = static_cast<size_t>(record_offset(shape(), i));
        put_checksum(bytes, at, header - 8, at + header - 8);
    }
    const size_t trailer = whole.size() - page_bytes;
    if (flags & right_index) put_checksum(bytes, index, blocks * 64, trailer + 24);
    if (flags & right_trailer) put_checksum(bytes, trailer, 32, trailer + 32);
    const FileDescriptor file(::memfd_create("segment", 0));
    require(bytes.empty() ||
            ::pwrite(file.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    look(file.get(), shape());
    FileIo io;
    if (const auto own = read_segment_header(io, file.get())) look(file.get(), own->shape);
    return 0;
}
