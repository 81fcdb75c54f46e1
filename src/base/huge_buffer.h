// Large memory in huge pages where the system allows it, private or of a file: with 4 KiB pages, translation
// misses cost 10-40 % of the memory bandwidth that decoding lives on.
//
// Ownership: the object owns the mapping, not the file descriptor. Threads: none of its own; data() may be
// used from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace deepinfer {

class HugeBuffer {
  public:
    HugeBuffer() = default;
    static constexpr size_t read_ahead = 16384;  // what the kernels' prefetches may touch behind the data
    static constexpr size_t huge_page = size_t{2} << 20;

    // Private, zero-filled, `bytes` plus read_ahead. Pages are committed on first touch.
    static Result<HugeBuffer> allocate(size_t bytes);
    // The first `bytes` of a file, shared with everybody who maps it. `alignment`: a power of two, at least
    // the file system's page size; a multiple of huge_page lets the system use huge pages. A file system of
    // huge pages that has too few of them says so here (resource_exhausted); elsewhere memory or disk space
    // that is missing at the first touch kills the process, so both must be reserved before.
    static Result<HugeBuffer> map_file(int descriptor, size_t bytes, size_t alignment, bool writable);
    ~HugeBuffer();
    HugeBuffer(HugeBuffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          mapped_(std::exchange(other.mapped_, 0)),
          size_(std::exchange(other.size_, 0)) {}
    HugeBuffer& operator=(HugeBuffer&& other) noexcept;

    uint8_t* data() const { return data_; }  // 2 MiB aligned, or as asked for
    size_t size() const { return size_; }
    Status make_read_only();

  private:
    HugeBuffer(void* data, size_t mapped, size_t size)
        : data_(static_cast<uint8_t*>(data)), mapped_(mapped), size_(size) {}

    uint8_t* data_ = nullptr;
    size_t mapped_ = 0, size_ = 0;
};

}  // namespace deepinfer
