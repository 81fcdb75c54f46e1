// How fast the threads of a pool read memory: the yardstick for everything that reads weights once per token.
#pragma once

#include "base/huge_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace deepinfer {

// A buffer in huge pages, much larger than the last-level cache, that is read from end to end: pieces are
// handed out as a matrix product hands out its weights, the access pattern that decoding has. One caller at a time.
class ReadBandwidth {
  public:
    // At least `least_bytes`; more if the cache asks for it. Error: resource_exhausted without that much memory.
    static Result<ReadBandwidth> create(ThreadPool& pool, size_t least_bytes = size_t{512} << 20);

    // One pass; 10^9 bytes per second.
    double measure();
    size_t bytes() const { return buffer_.size(); }

  private:
    ReadBandwidth(ThreadPool& pool, HugeBuffer buffer) : pool_(&pool), buffer_(std::move(buffer)) {}
    int pieces() const;

    ThreadPool* pool_;
    HugeBuffer buffer_;
};

}  // namespace deepinfer
