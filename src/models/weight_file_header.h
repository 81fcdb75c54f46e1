// The first page of a file of packed weights: whose weights they are, and how they were packed.
//
// The file: this header, then the packed matrices one behind the other as Weights lays them out, then zeros (room to
// read ahead in, and up to the file system's page size). The header says enough to tell whether the packed
// bytes are those that packing the checkpoint now would give; where each matrix lies follows from the
// checkpoint. Whatever the packed bytes are, kernels compute numbers from them, never addresses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace deepinfer::models {

struct Digest {
    uint64_t high = 0, low = 0;
    bool operator==(const Digest&) const = default;
};
Digest digest(std::string_view text);  // XXH3, 128 bits

// Everything that the packed bytes depend on.
struct WeightIdentity {
    uint32_t pack_version = 0;  // kernels::pack_version
    uint32_t compute = 0;       // kernels::Compute
    uint64_t matrices = 0, data_bytes = 0;
    Digest files;   // of the checkpoint's files: sizes and modification times
    Digest layout;  // names, types, shapes, packed layouts and places of all matrices, in order
    bool operator==(const WeightIdentity&) const = default;
};

// Why weights of identity `found` are not those of `wanted`, for people; empty if they are.
std::string difference(const WeightIdentity& found, const WeightIdentity& wanted);

struct WeightFileHeader {
    WeightIdentity identity;
    uint64_t file_bytes = 0;
    uint64_t data_checksum = 0;  // of the packed matrices, as weight_file.cpp computes it
    bool operator==(const WeightFileHeader&) const = default;
};

constexpr size_t weight_header_bytes = 4096;  // the packed matrices start behind it
constexpr std::string_view weight_file_magic = "DIWEIGHT";
constexpr uint64_t max_weight_matrices = 1'000'000;
constexpr uint64_t max_weight_file_bytes = uint64_t{1} << 46;

std::array<std::byte, weight_header_bytes> make_weight_header(const WeightFileHeader& header);
// `start`: the file's first bytes, weight_header_bytes of them if it has as many. `file_bytes`: its length. Every
// field is checked. Error: corrupt_data, which says what is wrong.
Result<WeightFileHeader> parse_weight_header(std::span<const std::byte> start, uint64_t file_bytes);

}  // namespace deepinfer::models
