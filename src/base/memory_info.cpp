#include "base/memory_info.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <limits>

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

// Where the memory controller of this process keeps its files; the version-2 hierarchy has one line "0::/path".
std::string group_folder(bool version2) {
    std::ifstream file("/proc/self/cgroup");
    std::string line;
    while (std::getline(file, line)) {
        const std::string start = version2 ? "0::" : ":memory:";
        const size_t at = line.find(start);
        if (at == std::string::npos || (version2 && at != 0)) continue;
        return (version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory") + line.substr(at + start.size());
    }
    return version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
}

struct Group {
    uint64_t limit = 0, used = 0, cache = 0;
};

std::optional<Group> group_of(const std::string& folder, bool version2) {
    const auto limit = number_in(folder + (version2 ? "/memory.max" : "/memory.limit_in_bytes"));
    const auto used = number_in(folder + (version2 ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!limit || !used || *limit >= (uint64_t{1} << 60)) return std::nullopt;  // no limit
    const std::string stat = folder + "/memory.stat", of_all = version2 ? "" : "total_";
    return Group{*limit, *used,
                 entry_in(stat, of_all + "inactive_file") + entry_in(stat, of_all + "active_file")};
}

}  // namespace

std::optional<uint64_t> available_memory() {
    std::optional<uint64_t> available;
    std::ifstream file("/proc/meminfo");
    std::string line;
    while (std::getline(file, line))
        if (uint64_t kib = 0; std::sscanf(line.c_str(), "MemAvailable: %" SCNu64 " kB", &kib) == 1)
            available = kib << 10;
    for (const bool version2 : {true, false})
        // In a container the process's own group is the root of what it sees.
        for (const std::string& folder :
             {group_folder(version2), std::string(version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory")})
            if (const auto group = group_of(folder, version2)) {
                const uint64_t used = group->used - std::min(group->used, group->cache);
                const uint64_t left = group->limit - std::min(group->limit, used);
                available = std::min(available.value_or(left), left);
            }
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
