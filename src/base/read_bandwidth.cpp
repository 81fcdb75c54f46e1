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

constexpr size_t cache_line = 64;
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

// Sixteen sums side by side, so that additions wait for memory only.
uint64_t sum(const uint8_t* data, size_t bytes) {
    uint64_t sums[16] = {};
    for (size_t at = 0; at + 128 <= bytes; at += 128) {
        uint64_t words[16];
        std::memcpy(words, data + at, sizeof words);
        for (int i = 0; i < 16; ++i) sums[i] += words[i];
    }
    uint64_t total = 0;
    for (const uint64_t s : sums) total += s;
    return total;
}

}  // namespace

Result<ReadBandwidth> ReadBandwidth::create(ThreadPool& pool, size_t least_bytes) {
    const size_t bytes = std::max(least_bytes, 8 * last_level_cache_bytes()) / cache_line * cache_line;
    if (const auto available = available_memory(); available && bytes > *available / 2)
        return Error{ErrorCode::resource_exhausted, "measuring the bandwidth of memory needs a buffer of " +
                                                        format_bytes(bytes) + "; " +
                                                        format_bytes(*available) + " are available"};
    auto buffer = HugeBuffer::allocate(bytes);
    if (!buffer) return std::move(buffer).error();
    ReadBandwidth result(pool, std::move(*buffer));
    // Untouched pages would all be one page of zeros. Each thread touches what it will read.
    const int64_t lines = static_cast<int64_t>(bytes / cache_line);
    pool.run([&](int thread) {
        const size_t begin = static_cast<size_t>(lines * thread / pool.threads()) * cache_line,
                     end = static_cast<size_t>(lines * (thread + 1) / pool.threads()) * cache_line;
        std::memset(result.buffer_.data() + begin, 1, end - begin);
    });
    return result;
}

double ReadBandwidth::measure() {
    const int64_t lines = static_cast<int64_t>(buffer_.size() / cache_line);
    std::atomic<uint64_t> total{0};
    const auto start = std::chrono::steady_clock::now();
    pool_->run([&](int thread) {
        const size_t begin = static_cast<size_t>(lines * thread / pool_->threads()) * cache_line,
                     end = static_cast<size_t>(lines * (thread + 1) / pool_->threads()) * cache_line;
        total.fetch_add(sum(buffer_.data() + begin, end - begin), std::memory_order_relaxed);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    // The sum must be wanted, or the compiler may leave out the reads.
    if (total.load() == 0) return 0;
    return static_cast<double>(buffer_.size()) / seconds / 1e9;
}

}  // namespace deepinfer
