// Counts of durations, from a quarter of a second to a week. Threads: none of its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace deepinfer {

struct DurationHistogram {
    static constexpr std::array<double, 12> bounds{0.25, 1,    5,     15,    60,     300,
                                                   900,  3600, 14400, 86400, 259200, 604800};  // seconds

    std::array<uint64_t, bounds.size() + 1> counts{};  // [i]: at most bounds[i], and more than the one before
    double sum = 0;

    void add(double seconds) {
        const auto at = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
        ++counts[static_cast<size_t>(at)];
        sum += seconds;
    }
};

}  // namespace deepinfer
