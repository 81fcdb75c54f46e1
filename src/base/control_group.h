// The control groups that limit this process.
#pragma once

#include <string>
#include <vector>

namespace deepinfer {

struct ControlGroup {
    std::string folder;  // of the group's files; need not exist
    bool version2 = false;
};

// The groups of this process under `controller` ("cpu", "memory"): its own first, then each above it up to the mount, in version 2
// and version 1, for every place where the controller may be mounted ("memory,hugetlb" and "memory"). `root`: where /proc and /sys are.
std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root = "");

}  // namespace deepinfer
