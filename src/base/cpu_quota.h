// How much processor time the control group of this process may use.
#pragma once

#include <optional>
#include <string>

namespace deepinfer {

// In processors, such as 1.5: the least quota of the process's group and the groups above it, as far as they are seen, in
// version 2 (cpu.max) and 1 (cpu.cfs_quota_us, cpu.cfs_period_us). Nothing if there is none. `root`: where /proc and /sys are.
std::optional<double> cpu_quota(const std::string& root = "");

// Threads that a quota and so many processors can keep busy: more would be stopped together for the rest of each period.
int threads_within(int processors, std::optional<double> quota);

}  // namespace deepinfer
