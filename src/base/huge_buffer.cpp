#include "base/huge_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace deepinfer {

namespace {
constexpr size_t huge_page = size_t{2} << 20;
constexpr size_t read_ahead = 16384;  // what the kernels' prefetches may touch behind the end
}  // namespace

Result<HugeBuffer> HugeBuffer::allocate(size_t bytes) {
    const size_t wanted = (bytes + read_ahead + huge_page - 1) / huge_page * huge_page;
    // One huge page more than needed, then both ends are cut to the alignment.
    void* raw = mmap(nullptr, wanted + huge_page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        return Error{ErrorCode::resource_exhausted, "cannot map " + std::to_string(wanted >> 20) +
                                                        " MiB of memory: " + std::strerror(errno)};
    const auto address = reinterpret_cast<uintptr_t>(raw);
    const uintptr_t aligned = (address + huge_page - 1) / huge_page * huge_page;
    if (aligned > address) munmap(raw, aligned - address);
    const uintptr_t end = address + wanted + huge_page;
    if (end > aligned + wanted) munmap(reinterpret_cast<void*>(aligned + wanted), end - aligned - wanted);
    HugeBuffer buffer;
    buffer.data_ = reinterpret_cast<uint8_t*>(aligned);
    buffer.mapped_ = wanted;
    buffer.size_ = bytes;
    madvise(buffer.data_, wanted, MADV_HUGEPAGE);  // a wish; without it the buffer works, slower
    return buffer;
}

HugeBuffer::~HugeBuffer() {
    if (data_) munmap(data_, mapped_);
}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(mapped_, other.mapped_);
    std::swap(size_, other.size_);
    return *this;
}

}  // namespace deepinfer
