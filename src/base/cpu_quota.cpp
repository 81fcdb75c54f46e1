#include "base/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <vector>

namespace deepinfer {

namespace {

// The groups of this process that have a processor controller: lines "0::/a/b" (version 2) and "4:cpu,cpuacct:/a/b".
struct Group {
    bool version2 = false;
    std::string controllers, path;
};
std::vector<Group> groups_of(const std::string& file_name) {
    std::vector<Group> groups;
    std::ifstream file(file_name);
    for (std::string line; std::getline(file, line);) {
        const size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const bool version2 = controllers.empty() && line.starts_with("0:");
        if (version2 || ("," + controllers + ",").find(",cpu,") != std::string::npos)
            groups.push_back({version2, controllers, line.substr(second + 1)});
    }
    return groups;
}

std::optional<double> quota_in(const std::string& folder, bool version2) {
    double quota = 0, period = 0;
    if (version2) {
        std::ifstream file(folder + "/cpu.max");  // "max 100000" or "150000 100000"
        if (!(file >> quota >> period)) return std::nullopt;
    } else {
        std::ifstream quota_file(folder + "/cpu.cfs_quota_us"), period_file(folder + "/cpu.cfs_period_us");
        if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
    }
    if (quota <= 0 || period <= 0) return std::nullopt;  // -1: none
    return quota / period;
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root) {
    std::optional<double> least;
    const auto look = [&](const std::string& folder, bool version2) {
        if (const auto quota = quota_in(folder, version2)) least = std::min(least.value_or(*quota), *quota);
    };
    for (const Group& group : groups_of(root + "/proc/self/cgroup")) {
        std::vector<std::string> mounts = {root + "/sys/fs/cgroup"};
        if (!group.version2)
            mounts = {root + "/sys/fs/cgroup/" + group.controllers, root + "/sys/fs/cgroup/cpu"};
        for (const std::string& mount : mounts) {
            // In a container the process's own group may be the root of what it sees, under a path that it does not.
            for (std::string path = group.path; !path.empty() && path != "/";
                 path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/')))
                look(mount + path, group.version2);
            look(mount, group.version2);
        }
    }
    return least;
}

int threads_within(int processors, std::optional<double> quota) {
    if (!quota || *quota >= processors) return processors;
    return std::max(1, static_cast<int>(*quota));
}

}  // namespace deepinfer
