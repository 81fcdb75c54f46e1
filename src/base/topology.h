// Processors this process may run on, grouped by the memory node they are near to.
#pragma once

#include <string>
#include <vector>

namespace deepinfer {

struct Topology {
    std::vector<std::vector<int>> nodes;  // processor numbers, increasing; at least one node, none empty

    int processors() const;

    // From the affinity mask of the calling thread and /sys/devices/system/node; one node if that is absent.
    static Topology of_this_process();
    // `allowed` processors grouped by the files node<N>/cpulist under `folder`.
    static Topology read(const std::string& folder, const std::vector<int>& allowed);
};

// A list like "0-3,8,10-11", as the kernel writes it; what cannot be read is left out. At most `limit` numbers.
std::vector<int> parse_processor_list(const std::string& text, int limit = 4096);

}  // namespace deepinfer
