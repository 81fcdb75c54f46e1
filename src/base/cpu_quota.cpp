#include "base/cpu_quota.h"

#include <algorithm>
#include <fstream>

#include "base/control_group.h"

namespace deepinfer {

namespace {

std::optional<double> quota_in(const ControlGroup& group) {
    double quota = 0, period = 0;
    if (group.version2) {
        std::ifstream file(group.folder + "/cpu.max");  // "max 100000" or "150000 100000"
        if (!(file >> quota >> period)) return std::nullopt;
    } else {
        std::ifstream quota_file(group.folder + "/cpu.cfs_quota_us"),
            period_file(group.folder + "/cpu.cfs_period_us");
        if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
    }
    if (quota <= 0 || period <= 0) return std::nullopt;  // -1: none
    return quota / period;
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root) {
    std::optional<double> least;
    for (const ControlGroup& group : control_groups("cpu", root))
        if (const auto quota = quota_in(group)) least = std::min(least.value_or(*quota), *quota);
    return least;
}

int threads_within(int processors, std::optional<double> quota) {
    if (!quota || *quota >= processors) return processors;
    return std::max(1, static_cast<int>(*quota));
}

}  // namespace deepinfer
