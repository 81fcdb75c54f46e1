#include "base/control_group.h"

#include <fstream>
#include <string_view>

namespace deepinfer {

namespace {

// A line of /proc/self/cgroup: "0::/a/b" (version 2) or "4:cpu,cpuacct:/a/b".
struct Membership {
    bool version2 = false;
    std::string controllers, path;
};

std::vector<Membership> memberships(const std::string& file_name) {
    std::vector<Membership> all;
    std::ifstream file(file_name);
    for (std::string line; std::getline(file, line);) {
        const size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        all.push_back({controllers.empty() && line.starts_with("0:"), controllers, line.substr(second + 1)});
    }
    return all;
}

bool names(std::string_view controllers, std::string_view controller) {
    const auto commas = [](std::string_view text) { return "," + std::string(text) + ","; };
    return commas(controllers).find(commas(controller)) != std::string::npos;
}

}  // namespace

std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root) {
    const std::string mount = root + "/sys/fs/cgroup";
    std::vector<ControlGroup> groups;
    const auto add_upwards = [&groups](const std::string& top, std::string path, bool version2) {
        while (!path.empty() && path != "/") {
            groups.push_back({top + path, version2});
            const size_t slash = path.rfind('/');
            path.resize(slash == std::string::npos ? 0 : slash);
        }
        // In a container the process's own group may be the root of what it sees, under a path that it does not.
        groups.push_back({top, version2});
    };
    bool found[2] = {};  // by version
    for (const Membership& m : memberships(root + "/proc/self/cgroup")) {
        if (!m.version2 && !names(m.controllers, controller)) continue;
        found[m.version2] = true;
        if (m.version2) {
            add_upwards(mount, m.path, true);
        } else {
            add_upwards(mount + "/" + controller, m.path, false);
            if (m.controllers != controller) add_upwards(mount + "/" + m.controllers, m.path, false);
        }
    }
    // Limits bind whether or not /proc says whose they are.
    if (!found[true]) add_upwards(mount, "", true);
    if (!found[false]) add_upwards(mount + "/" + controller, "", false);
    return groups;
}

}  // namespace deepinfer
