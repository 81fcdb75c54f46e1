// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <string>

namespace deepinfer {

// Bytes available without swapping: the kernel's estimate, or what the control group leaves if that is less.
// 0 if it cannot be determined.
uint64_t available_memory();

std::string format_bytes(uint64_t bytes);  // "1.4 GiB"

}  // namespace deepinfer
