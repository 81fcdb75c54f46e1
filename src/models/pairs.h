// How many (query, key) pairs attention computes, in closed form. A query at position t - 1 (the t-th token) sees
//   t / ratio        entries, rounded down: of keys that stand for `ratio` tokens each; ratio 1: itself and all before it
//   at most `cap`    of them, if cap > 0: a sliding window (ratio 1), or the entries that an index selects
// Positions and counts up to 2^31; nothing overflows.
#pragma once

#include <algorithm>
#include <cstdint>

namespace deepinfer::models {

// P(n, r) = sum of floor(t / r) over t = 1 .. n: all entries, of the first n queries.
constexpr int64_t all_pairs(int64_t n, int64_t ratio) {
    const int64_t full = n / ratio;
    return full * (n + 1) - ratio * (full * (full + 1) / 2);
}

// C(n, r, c) = sum of min(floor(t / r), c) over t = 1 .. n; c = 0: P(n, r).
constexpr int64_t capped_pairs(int64_t n, int64_t ratio, int64_t cap) {
    if (cap == 0) return all_pairs(n, ratio);
    const int64_t below = std::min(n, ratio * cap);
    return all_pairs(below, ratio) + (n - below) * cap;
}

// Of the queries at positions [begin, end).
constexpr int64_t pairs_of(int64_t begin, int64_t end, int64_t ratio, int64_t cap) {
    return capped_pairs(end, ratio, cap) - capped_pairs(begin, ratio, cap);
}

// Sum of floor((a i + b) / m) over i = 0 .. n - 1, for a, b >= 0, by the Euclidean algorithm.
constexpr int64_t floor_sum(int64_t n, int64_t m, int64_t a, int64_t b) {
    int64_t sum = 0;
    while (n > 0) {
        sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
        a %= m, b %= m;
        const int64_t last = a * n + b;
        if (last < m) break;
        // The lattice points under the line, counted along the other axis.
        n = last / m, b = last % m;
        std::swap(m, a);
    }
    return sum;
}

}  // namespace deepinfer::models
