// What must hold for every checkpoint that a parser accepts, whatever the bytes were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "checkpoint/checkpoint.h"

namespace deepinfer::checkpoint {

inline void require(bool condition) {
    if (!condition) std::abort();
}

// An error is for people: it has text, printable and bounded.
inline void check_error(const Error& error) {
    require(!error.message.empty() && error.message.size() < 2000);
    for (const char c : error.message) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    require(error.code != ErrorCode::internal);
}

inline void check_invariants(const Result<std::unique_ptr<Checkpoint>>& opened,
                             std::span<const std::byte> file) {
    if (!opened) {
        check_error(opened.error());
        return;
    }
    const Checkpoint& checkpoint = **opened;
    uint64_t bytes = 0, checksum = 0;
    for (const Tensor& tensor : checkpoint.tensors()) {
        require(tensor.data.data() >= file.data());
        require(tensor.data.data() + tensor.data.size() <= file.data() + file.size());
        require(tensor.data.size() == row_bytes(tensor.type, static_cast<size_t>(tensor.values())));
        require(tensor.rows() * tensor.columns() == tensor.values());
        require(checkpoint.find(tensor.name) == &tensor);
        bytes += tensor.data.size();
        checksum += static_cast<uint64_t>(tensor.data.front()) + static_cast<uint64_t>(tensor.data.back());
    }
    require(bytes <= file.size());  // they do not overlap
    for (const auto& [key, value] : checkpoint.metadata().values) {
        require(checkpoint.metadata().find(key) == &value);
        if (const MetadataArray* array = checkpoint.metadata().array(key)) {
            if (const auto* strings = std::get_if<std::vector<std::string_view>>(&array->values)) {
                for (const std::string_view text : *strings) {
                    for (const char c : text) checksum += static_cast<unsigned char>(c);
                }
            }
        }
    }
    volatile uint64_t sink = checksum;  // keeps the reads above
    (void)sink;
}

}  // namespace deepinfer::checkpoint
