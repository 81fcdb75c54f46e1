#include "base/huge_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace deepinfer {

namespace {

Error no_room(size_t bytes) {
    return {ErrorCode::resource_exhausted,
            "cannot map " + std::to_string(bytes >> 20) + " MiB of memory: " + std::strerror(errno)};
}

// Private memory at an aligned address, MAP_FAILED if there is none.
void* map_aligned(size_t bytes, size_t alignment) {
    // More than needed, then both ends are cut off.
    void* raw = mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) return raw;
    const auto address = reinterpret_cast<uintptr_t>(raw);
    const uintptr_t aligned = (address + alignment - 1) / alignment * alignment;
    if (aligned > address) munmap(raw, aligned - address);
    const uintptr_t end = address + bytes + alignment;
    if (end > aligned + bytes) munmap(reinterpret_cast<void*>(aligned + bytes), end - aligned - bytes);
    return reinterpret_cast<void*>(aligned);
}

}  // namespace

Result<HugeBuffer> HugeBuffer::allocate(size_t bytes) {
    const size_t wanted = (bytes + read_ahead + huge_page - 1) / huge_page * huge_page;
    void* data = map_aligned(wanted, huge_page);
    if (data == MAP_FAILED) return no_room(wanted);
    madvise(data, wanted, MADV_HUGEPAGE);  // a wish; without it the buffer works, slower
    return HugeBuffer(data, wanted, bytes);
}

Result<HugeBuffer> HugeBuffer::map_file(int descriptor, size_t bytes, size_t alignment, bool writable) {
    void* place = map_aligned(bytes, alignment);
    if (place == MAP_FAILED) return no_room(bytes);
    void* data = mmap(place, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED,
                      descriptor, 0);
    if (data == MAP_FAILED) {
        const Error error = no_room(bytes);
        munmap(place, bytes);
        return error;
    }
    madvise(data, bytes, MADV_HUGEPAGE);
    return HugeBuffer(data, bytes, bytes);
}

Status HugeBuffer::make_read_only() {
    if (mprotect(data_, mapped_, PROT_READ) == 0) return {};
    return Error{ErrorCode::io_error, std::string("cannot protect memory: ") + std::strerror(errno)};
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
