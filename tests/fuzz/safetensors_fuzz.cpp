// Safetensors headers. Run: safetensors_fuzz -max_total_time=60 NEW_INPUTS tests/fuzz/corpus/safetensors
//
// The input is the JSON header, a newline, and the tensor data: the length field in front, which every change
// of the header would break, is added here. An input without a newline is used as it is.
#include <cstring>
#include <vector>

#include "checkpoint_invariants.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace deepinfer::checkpoint;
    std::vector<uint8_t> bytes;
    const void* newline = size > 0 ? std::memchr(data, '\n', size) : nullptr;
    if (newline) {
        const auto header = static_cast<uint64_t>(static_cast<const uint8_t*>(newline) - data);
        bytes.resize(sizeof header);
        std::memcpy(bytes.data(), &header, sizeof header);
        bytes.insert(bytes.end(), data, data + header);
        bytes.insert(bytes.end(), data + header + 1, data + size);
    } else {
        bytes.assign(data, data + size);
    }
    const auto file = std::as_bytes(std::span(bytes));
    check_invariants(Checkpoint::parse_safetensors(file), file);
    return 0;
}
