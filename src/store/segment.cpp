#include "store/segment.h"

#include <sys/file.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace deepinfer::store {

namespace {

constexpr uint32_t segment_version = 1;
constexpr std::array<char, 8> header_magic{'D', 'I', 'S', 'E', 'G', 'M', 'T', '\n'};
constexpr std::array<char, 8> trailer_magic{'D', 'I', 'I', 'N', 'D', 'E', 'X', '\n'};

using Page = std::array<uint8_t, page_bytes>;

// The bytes of each section follow, and the page's last 8 bytes are the checksum of all before them.
struct Header {
    std::array<char, 8> magic;
    uint32_t version, retention;
    kv::BlockKey fingerprint;
    uint32_t block_bytes, sections;
};
static_assert(sizeof(Header) + 4 * most_sections + 8 <= page_bytes);
constexpr size_t checked_bytes = page_bytes - sizeof(uint64_t);

struct StoredEntry {
    kv::BlockKey key, parent;
    int32_t index;
    float seconds;
    uint64_t tenant;
    int64_t created;
    uint64_t unused;
};
static_assert(sizeof(StoredEntry) == 64 && std::is_trivially_copyable_v<StoredEntry>);

struct Trailer {
    std::array<char, 8> magic;
    uint32_t version, unused;
    uint64_t records, index_checksum;
    uint64_t checksum;  // of all before it
};

template <class T>
uint64_t checksum_of(const T& value) {
    return XXH3_64bits(&value, offsetof(T, checksum));
}

template <class T>
T parse(const Page& page) {
    T value;
    std::memcpy(&value, page.data(), sizeof value);
    return value;
}

template <class T>
Page page_of(const T& value) {
    Page page{};
    std::memcpy(page.data(), &value, sizeof value);
    return page;
}

Error damaged(const char* what) { return {ErrorCode::corrupt_data, std::string("a segment: ") + what}; }
Error io_failed(const char* what) {
    return {ErrorCode::io_error, std::string("a segment: ") + what + ": " + std::strerror(errno)};
}

bool read_page(FileIo& io, int descriptor, int64_t offset, Page& page) {
    iovec part{page.data(), page.size()};
    return read_all(io, descriptor, {&part, 1}, offset);
}

int64_t index_bytes(size_t records) {
    return whole_pages(static_cast<int64_t>(records * sizeof(StoredEntry)));
}

// Nothing if there is no trailer, or it is not whole.
std::vector<SegmentEntry> read_index(FileIo& io, int descriptor, const BlockShape& shape,
                                     int64_t file_bytes) {
    Page last;
    if (file_bytes % page_bytes != 0 || !read_page(io, descriptor, file_bytes - page_bytes, last)) return {};
    const auto trailer = parse<Trailer>(last);
    if (trailer.magic != trailer_magic || trailer.version != segment_version ||
        trailer.checksum != checksum_of(trailer) || trailer.records == 0 || trailer.records > most_records)
        return {};
    const auto count = static_cast<size_t>(trailer.records);
    const int64_t at = record_offset(shape, count);
    if (sealed_bytes(shape, count) != file_bytes) return {};
    std::vector<StoredEntry> stored(count);
    iovec part{stored.data(), count * sizeof(StoredEntry)};
    if (!read_all(io, descriptor, {&part, 1}, at) ||
        XXH3_64bits(stored.data(), count * sizeof(StoredEntry)) != trailer.index_checksum)
        return {};
    std::vector<SegmentEntry> entries;
    entries.reserve(count);
    for (const StoredEntry& e : stored)
        entries.push_back({e.key, e.parent, e.index, e.seconds, e.tenant, e.created});
    return entries;
}

}  // namespace

int64_t sealed_bytes(const BlockShape& shape, size_t records) {
    return record_offset(shape, records) + index_bytes(records) + page_bytes;
}

SegmentEntry entry_of(const RecordInfo& info) {
    return {info.key, info.parent, info.index, info.seconds, info.tenant, info.created};
}

bool has_writer(int descriptor) {
    if (::flock(descriptor, LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
    ::flock(descriptor, LOCK_UN);
    return false;
}

std::array<uint8_t, page_bytes> segment_header(const BlockShape& shape, kv::Retention retention) {
    Page page =
        page_of(Header{header_magic, segment_version, static_cast<uint32_t>(retention), shape.fingerprint,
                       shape.block_bytes, static_cast<uint32_t>(shape.sections.size())});
    std::memcpy(page.data() + sizeof(Header), shape.sections.data(), 4 * shape.sections.size());
    const uint64_t checksum = XXH3_64bits(page.data(), checked_bytes);
    std::memcpy(page.data() + checked_bytes, &checksum, sizeof checksum);
    return page;
}

Result<SegmentHeader> read_segment_header(FileIo& io, int descriptor) {
    struct stat status{};
    if (::fstat(descriptor, &status) != 0) return io_failed("cannot be looked at");
    if (status.st_size < page_bytes) return damaged("it ends inside its header");
    Page page;
    if (!read_page(io, descriptor, 0, page)) return io_failed("cannot be read");
    const auto header = parse<Header>(page);
    uint64_t checksum;
    std::memcpy(&checksum, page.data() + checked_bytes, sizeof checksum);
    if (header.magic != header_magic) return damaged("it does not begin as one");
    if (header.version != segment_version)
        return Error{ErrorCode::unsupported, "a segment: of format " + std::to_string(header.version)};
    if (checksum != XXH3_64bits(page.data(), checked_bytes)) return damaged("its header's checksum is wrong");
    if (header.retention > static_cast<uint32_t>(kv::Retention::chat))
        return damaged("of an unknown retention class");
    if (header.sections == 0 || header.sections > most_sections) return damaged("a number is out of range");
    SegmentHeader result{{header.fingerprint, header.block_bytes, std::vector<uint32_t>(header.sections)},
                         static_cast<kv::Retention>(header.retention)};
    std::memcpy(result.shape.sections.data(), page.data() + sizeof(Header), 4 * size_t{header.sections});
    if (!check_shape(result.shape)) return damaged("its sections are not its block");
    return result;
}

Status seal_segment(FileIo& io, int descriptor, const BlockShape& shape,
                    std::span<const SegmentEntry> entries) {
    std::vector<StoredEntry> stored;
    stored.reserve(entries.size());
    for (const SegmentEntry& e : entries)
        stored.push_back({e.key, e.parent, e.index, e.seconds, e.tenant, e.created, 0});
    stored.resize(static_cast<size_t>(index_bytes(entries.size())) / sizeof(StoredEntry));
    Trailer trailer{trailer_magic,
                    segment_version,
                    0,
                    entries.size(),
                    XXH3_64bits(stored.data(), entries.size() * sizeof(StoredEntry)),
                    0};
    trailer.checksum = checksum_of(trailer);
    Page last = page_of(trailer);
    std::array<iovec, 2> parts{
        {{stored.data(), stored.size() * sizeof(StoredEntry)}, {last.data(), last.size()}}};
    const int64_t at = record_offset(shape, entries.size());
    if (io.truncate(descriptor, at) != 0 || !write_all(io, descriptor, parts, at) ||
        io.fdatasync(descriptor) != 0)
        return io_failed("cannot be sealed");
    return {};
}

Result<SegmentContents> read_segment(FileIo& io, int descriptor, const BlockShape& shape,
                                     std::vector<SegmentEntry> known) {
    const Result<SegmentHeader> header = read_segment_header(io, descriptor);
    if (!header) return header.error();
    if (header->shape.fingerprint != shape.fingerprint || header->shape.sections != shape.sections)
        return Error{ErrorCode::not_found, "a segment: of another model"};
    struct stat status{};
    if (::fstat(descriptor, &status) != 0) return io_failed("cannot be looked at");
    Page page;
    SegmentContents contents{header->retention, {}, true};
    contents.entries = read_index(io, descriptor, shape, status.st_size);
    if (!contents.entries.empty()) return contents;
    contents.sealed = false;
    contents.entries = std::move(known);
    while (contents.entries.size() < most_records) {
        const int64_t at = record_offset(shape, contents.entries.size());
        if (at + record_stride(shape) > status.st_size || !read_page(io, descriptor, at, page)) break;
        const Result<RecordInfo> info = decode_record(shape, page);
        if (!info) break;
        contents.entries.push_back(entry_of(*info));
    }
    return contents;
}

}  // namespace deepinfer::store
