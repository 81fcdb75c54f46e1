#include "base/topology.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

namespace deepinfer {

namespace {
constexpr int most_nodes = 64;
}

int Topology::processors() const {
    int n = 0;
    for (const auto& node : nodes) n += static_cast<int>(node.size());
    return n;
}

std::vector<int> parse_processor_list(const std::string& text, int limit) {
    std::vector<int> list;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(',', at), text.size());
        const std::string_view item(text.data() + at, end - at);
        int first = -1, last = -1;
        const auto [rest, error] = std::from_chars(item.data(), item.data() + item.size(), first);
        last = first;
        if (error == std::errc() && rest < item.data() + item.size() && *rest == '-')
            std::from_chars(rest + 1, item.data() + item.size(), last);
        for (int i = std::max(first, 0); first >= 0 && i <= last && static_cast<int>(list.size()) < limit;
             ++i)
            list.push_back(i);
        at = end + 1;
    }
    return list;
}

Topology Topology::read(const std::string& folder, const std::vector<int>& allowed) {
    Topology topology;
    std::vector<int> left = allowed;
    for (int n = 0; n < most_nodes; ++n) {
        std::ifstream file(folder + "/node" + std::to_string(n) + "/cpulist");
        std::string text;
        if (!file || !std::getline(file, text)) continue;
        std::vector<int> node;
        for (int cpu : parse_processor_list(text))
            if (const auto it = std::find(left.begin(), left.end(), cpu); it != left.end()) {
                node.push_back(cpu);
                left.erase(it);
            }
        if (!node.empty()) topology.nodes.push_back(std::move(node));
    }
    if (topology.nodes.empty()) topology.nodes.emplace_back();
    // A processor that no node lists still computes; where it stands is unknown.
    topology.nodes.back().insert(topology.nodes.back().end(), left.begin(), left.end());
    return topology;
}

Topology Topology::of_this_process() {
    cpu_set_t set;
    std::vector<int> allowed;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int i = 0; i < CPU_SETSIZE; ++i)
            if (CPU_ISSET(i, &set)) allowed.push_back(i);
    if (allowed.empty()) allowed.push_back(0);
    return read("/sys/devices/system/node", allowed);
}

}  // namespace deepinfer
