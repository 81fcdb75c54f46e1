// The header of weight files. Run: weight_file_header_fuzz NEW_INPUTS tests/fuzz/corpus/weight_file_header
//
// Input: 8 bytes, the length of the file, then its start. Mutations do not survive the checksum, so the input is also
// read with the checksum put right: the checks behind it must not rely on it.
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "checkpoint_invariants.h"
#include "models/weight_file_header.h"

namespace {

using namespace deepinfer;
using checkpoint::require;

constexpr size_t checksum_at = 88;

void check(std::span<const std::byte> start, uint64_t file_bytes) {
    const auto header = models::parse_weight_header(start, file_bytes);
    if (!header) {
        checkpoint::check_error(header.error());
        require(header.error().code == ErrorCode::corrupt_data);
        return;
    }
    // What will be mapped lies inside the file, and the header means what it says.
    require(header->file_bytes == file_bytes && file_bytes <= models::max_weight_file_bytes);
    require(header->identity.data_bytes <= file_bytes);
    require(models::weight_header_bytes + header->identity.data_bytes <= file_bytes);
    require(header->identity.matrices <= models::max_weight_matrices);
    const auto again = models::make_weight_header(*header);
    require(std::equal(again.begin(), again.end(), start.begin()));
    require(models::difference(header->identity, header->identity).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    uint64_t file_bytes = 0;
    if (size < sizeof file_bytes) return 0;
    std::memcpy(&file_bytes, data, sizeof file_bytes);
    const auto* bytes = reinterpret_cast<const std::byte*>(data) + sizeof file_bytes;
    std::vector<std::byte> start(bytes,
                                 bytes + std::min(size - sizeof file_bytes, models::weight_header_bytes));
    check(start, file_bytes);
    if (start.size() < checksum_at + sizeof(uint64_t)) return 0;
    const uint64_t sum = XXH3_64bits(start.data(), checksum_at);
    std::memcpy(start.data() + checksum_at, &sum, sizeof sum);
    start.resize(models::weight_header_bytes);  // most inputs are shorter
    check(start, file_bytes);
    return 0;
}
