#include "models/weight_file_header.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace deepinfer::models {

namespace {

static_assert(std::endian::native == std::endian::little, "the file holds numbers as they lie in memory");

constexpr uint32_t format_version = 2;

struct Stored {
    char magic[8];
    uint32_t format_version, pack_version, compute, reserved;
    uint64_t matrices, data_bytes, file_bytes;
    uint64_t files[2], layout[2];
    uint64_t data_checksum;
    uint64_t checksum;  // XXH3 of all before it
};
static_assert(sizeof(Stored) == 96 && std::has_unique_object_representations_v<Stored>);
static_assert(weight_file_magic.size() == sizeof Stored::magic);

uint64_t checksum(const Stored& s) { return XXH3_64bits(&s, offsetof(Stored, checksum)); }

Error damaged(const std::string& what) { return {ErrorCode::corrupt_data, what}; }

}  // namespace

Digest digest(std::string_view text) {
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    return {hash.high64, hash.low64};
}

std::string difference(const WeightIdentity& found, const WeightIdentity& wanted) {
    if (found == wanted) return {};
    if (found.pack_version != wanted.pack_version) return "it was packed by another version of the program";
    if (found.compute != wanted.compute) return "it was packed for another --compute mode";
    if (found.layout != wanted.layout || found.matrices != wanted.matrices ||
        found.data_bytes != wanted.data_bytes)
        return "it holds another model";
    return "the model's files have changed since it was built";
}

std::array<std::byte, weight_header_bytes> make_weight_header(const WeightFileHeader& header) {
    const WeightIdentity& id = header.identity;
    Stored s{};
    std::memcpy(s.magic, weight_file_magic.data(), sizeof s.magic);
    s.format_version = format_version;
    s.pack_version = id.pack_version;
    s.compute = id.compute;
    s.matrices = id.matrices;
    s.data_bytes = id.data_bytes;
    s.file_bytes = header.file_bytes;
    s.files[0] = id.files.high, s.files[1] = id.files.low;
    s.layout[0] = id.layout.high, s.layout[1] = id.layout.low;
    s.data_checksum = header.data_checksum;
    s.checksum = checksum(s);
    std::array<std::byte, weight_header_bytes> page{};
    std::memcpy(page.data(), &s, sizeof s);
    return page;
}

Result<WeightFileHeader> parse_weight_header(std::span<const std::byte> start, uint64_t file_bytes) {
    Stored s;
    if (start.size() < weight_header_bytes)
        return damaged("it ends inside its header, after " + std::to_string(start.size()) + " bytes");
    std::memcpy(&s, start.data(), sizeof s);
    if (std::memcmp(s.magic, weight_file_magic.data(), sizeof s.magic) != 0)
        return damaged("it does not start with \"" + std::string(weight_file_magic) + "\"");
    if (s.format_version != format_version)
        return damaged("its format is version " + std::to_string(s.format_version) + ", not " +
                       std::to_string(format_version));
    if (s.checksum != checksum(s)) return damaged("its header is damaged");
    const auto rest = start.subspan(sizeof s, weight_header_bytes - sizeof s);
    if (s.reserved != 0 ||
        std::any_of(rest.begin(), rest.end(), [](std::byte b) { return b != std::byte{0}; }))
        return damaged("its header has something in reserved places");
    if (s.matrices > max_weight_matrices || s.file_bytes > max_weight_file_bytes)
        return damaged("its header names " + std::to_string(s.matrices) + " matrices and " +
                       std::to_string(s.file_bytes) + " bytes, more than is accepted");
    if (s.file_bytes < weight_header_bytes || s.data_bytes > s.file_bytes - weight_header_bytes)
        return damaged("its header names more packed bytes than the file has");
    if (s.file_bytes != file_bytes)
        return damaged("it has " + std::to_string(file_bytes) + " bytes instead of " +
                       std::to_string(s.file_bytes));
    WeightFileHeader header;
    header.identity = {s.pack_version,
                       s.compute,
                       s.matrices,
                       s.data_bytes,
                       {s.files[0], s.files[1]},
                       {s.layout[0], s.layout[1]}};
    header.file_bytes = s.file_bytes;
    header.data_checksum = s.data_checksum;
    return header;
}

}  // namespace deepinfer::models
