// Large zero-filled memory in huge pages where the system allows it: with 4 KiB pages, translation misses
// cost 10-40 % of the memory bandwidth that decoding lives on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace deepinfer {

class HugeBuffer {
  public:
    HugeBuffer() = default;
    // `bytes` plus slack for kernels that read ahead of their data. Pages are committed on first touch.
    static Result<HugeBuffer> allocate(size_t bytes);
    ~HugeBuffer();
    HugeBuffer(HugeBuffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          mapped_(std::exchange(other.mapped_, 0)),
          size_(std::exchange(other.size_, 0)) {}
    HugeBuffer& operator=(HugeBuffer&& other) noexcept;

    uint8_t* data() const { return data_; }  // 2 MiB aligned
    size_t size() const { return size_; }

  private:
    uint8_t* data_ = nullptr;
    size_t mapped_ = 0, size_ = 0;
};

}  // namespace deepinfer
