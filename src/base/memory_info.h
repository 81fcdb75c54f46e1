// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace deepinfer {

// Bytes available without swapping: the kernel's estimate, or the least that the process's control group and those above it
// leave if that is less.
// Either way cached pages of files on disks count as available, whoever maps them: they are given back under pressure.
// Pages of memory file systems (tmpfs, hugetlbfs) do not. Nothing if it cannot be determined. `root`: where /proc and /sys are.
std::optional<uint64_t> available_memory(const std::string& root = "");

std::string format_bytes(uint64_t bytes);  // "1.4 GiB"

}  // namespace deepinfer
