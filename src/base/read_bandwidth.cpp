#include "base/read_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>

#include "base/memory_info.h"

namespace deepinfer {

namespace {

constexpr size_t piece_bytes = size_t{1} << 20;
constexpr size_t most_cache = size_t{1} << 30;

// Of the largest cache that the first processor uses. The C library's sysconf() is no help: it multiplies by the sharing
// processors that it believes there are, wrongly in virtual machines.
size_t last_level_cache_bytes() {
    size_t largest = 0;
    for (int index = 0; index < 8; ++index) {
        std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
        size_t size = 0;  // "32768K"
        char unit = 0;
        if (!(file >> size)) continue;
        file >> unit;
        largest = std::max(largest, unit == 'M' ? size << 20 : unit == 'K' ? size << 10 : size);
    }
    return largest > 0 ? std::min(largest, most_cache) : size_t{32} << 20;
}

// Eight sums in registers, so that additions wait for memory only. Wider vectors read no faster.
uint64_t sum(const uint8_t* data, size_t bytes) {
    using Words = uint64_t __attribute__((vector_size(16), may_alias));
    constexpr int chains = 8;
    const auto* words = reinterpret_cast<const Words*>(data);
    Words sums[chains] = {};
    for (size_t at = 0; at + chains <= bytes / sizeof(Words); at += chains)
#pragma GCC unroll 8
        for (int i = 0; i < chains; ++i) sums[i] += words[at + static_cast<size_t>(i)];
    uint64_t total = 0;
    for (const Words& s : sums) total += s[0] + s[1];
    return total;
}

}  // namespace

int ReadBandwidth::pieces() const { return static_cast<int>(buffer_.size() / piece_bytes); }

Result<ReadBandwidth> ReadBandwidth::create(ThreadPool& pool, size_t least_bytes) {
    const size_t bytes = std::max(least_bytes, 8 * last_level_cache_bytes()) / piece_bytes * piece_bytes;
    if (const auto available = available_memory(); available && bytes > *available / 2)
        return Error{ErrorCode::resource_exhausted, "measuring the bandwidth of memory needs a buffer of " +
                                                        format_bytes(bytes) + "; " +
                                                        format_bytes(*available) + " are available"};
    auto buffer = HugeBuffer::allocate(bytes);
    if (!buffer) return std::move(buffer).error();
    ReadBandwidth result(pool, std::move(*buffer));
    // Untouched pages would all be one page of zeros. Cut as the reads are, so each thread touches what it will read.
    pool.for_each_guided(result.pieces(), 1, [&](int begin, int end, int) {
        std::memset(result.buffer_.data() + static_cast<size_t>(begin) * piece_bytes, 1,
                    static_cast<size_t>(end - begin) * piece_bytes);
    });
    return result;
}

double ReadBandwidth::measure() {
    std::atomic<uint64_t> total{0};
    const auto start = std::chrono::steady_clock::now();
    pool_->for_each_guided(pieces(), 1, [&](int begin, int end, int) {
        total.fetch_add(sum(buffer_.data() + static_cast<size_t>(begin) * piece_bytes,
                            static_cast<size_t>(end - begin) * piece_bytes),
                        std::memory_order_relaxed);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    // The sum must be wanted, or the compiler may leave out the reads.
    if (total.load() == 0) return 0;
    return static_cast<double>(buffer_.size()) / seconds / 1e9;
}

}  // namespace deepinfer
