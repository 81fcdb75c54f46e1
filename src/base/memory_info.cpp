#include "base/memory_info.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <limits>

namespace deepinfer {

namespace {

uint64_t number_in(const char* path) {  // 0 if there is none ("max", or no such file)
    std::ifstream file(path);
    uint64_t value = 0;
    return file >> value ? value : 0;
}

}  // namespace

uint64_t available_memory() {
    std::ifstream file("/proc/meminfo");
    std::string line;
    uint64_t available = 0;
    while (std::getline(file, line))
        if (uint64_t kib = 0; std::sscanf(line.c_str(), "MemAvailable: %" SCNu64 " kB", &kib) == 1)
            available = kib << 10;
    uint64_t limit = number_in("/sys/fs/cgroup/memory.max"),
             used = number_in("/sys/fs/cgroup/memory.current");
    if (limit == 0) {
        limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
        used = number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes");
    }
    if (limit != 0 && limit < (uint64_t{1} << 60))
        available = std::min(available, limit > used ? limit - used : 0);
    return available;
}

std::string format_bytes(uint64_t bytes) {
    static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < units.size()) value /= 1024, ++unit;
    char text[32];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

}  // namespace deepinfer
