#include "base/memory_info.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "base/control_group.h"

namespace deepinfer {

namespace {

std::optional<uint64_t> number_in(
    const std::string& path) {  // nothing for "max", or if there is no such file
    std::ifstream file(path);
    uint64_t value = 0;
    if (file >> value) return value;
    return std::nullopt;
}

// The value of `key` in a file of "key value" lines; 0 if there is none.
uint64_t entry_in(const std::string& path, const std::string& key) {
    std::ifstream file(path);
    std::string name;
    uint64_t value = 0;
    while (file >> name >> value)
        if (name == key) return value;
    return 0;
}

// What a group leaves, if it has a limit.
std::optional<uint64_t> left_by(const ControlGroup& group) {
    const bool v2 = group.version2;
    const auto limit = number_in(group.folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    const auto used = number_in(group.folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!limit || !used || *limit >= (uint64_t{1} << 60)) return std::nullopt;  // no limit
    const std::string stat = group.folder + "/memory.stat", of_all = v2 ? "" : "total_";
    const uint64_t cache = entry_in(stat, of_all + "inactive_file") + entry_in(stat, of_all + "active_file");
    return *limit - std::min(*limit, *used - std::min(*used, cache));
}

}  // namespace

std::optional<uint64_t> available_memory(const std::string& root) {
    std::optional<uint64_t> available;
    std::ifstream file(root + "/proc/meminfo");
    std::string line;
    while (std::getline(file, line))
        if (uint64_t kib = 0; std::sscanf(line.c_str(), "MemAvailable: %" SCNu64 " kB", &kib) == 1)
            available = kib << 10;
    for (const ControlGroup& group : control_groups("memory", root))
        if (const auto left = left_by(group)) available = std::min(available.value_or(*left), *left);
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
