#include "store/file_io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <vector>

namespace deepinfer::store {

int FileIo::open(const char* path, int flags, mode_t mode) { return ::open(path, flags | O_CLOEXEC, mode); }
ssize_t FileIo::preadv(int descriptor, const iovec* parts, int count, int64_t offset) {
    return ::preadv(descriptor, parts, count, offset);
}
int FileIo::in_memory(int descriptor, int64_t offset, int64_t bytes) {
    const auto page = static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
    const int64_t begin = offset / page * page, length = offset + bytes - begin;
    void* mapped = ::mmap(nullptr, static_cast<size_t>(length), PROT_READ, MAP_SHARED, descriptor, begin);
    if (mapped == MAP_FAILED) return -1;
    std::vector<unsigned char> pages(static_cast<size_t>((length + page - 1) / page));
    const bool known = ::mincore(mapped, static_cast<size_t>(length), pages.data()) == 0;
    ::munmap(mapped, static_cast<size_t>(length));
    return known && std::ranges::all_of(pages, [](unsigned char p) { return p & 1; }) ? 1 : 0;
}
int FileIo::set_direct(int descriptor, bool on) {
    const int flags = ::fcntl(descriptor, F_GETFL);
    return flags < 0 ? -1 : ::fcntl(descriptor, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT);
}
ssize_t FileIo::pwritev(int descriptor, const iovec* parts, int count, int64_t offset) {
    return ::pwritev(descriptor, parts, count, offset);
}
int FileIo::fdatasync(int descriptor) { return ::fdatasync(descriptor); }
int FileIo::unlink(const char* path) { return ::unlink(path); }
int FileIo::truncate(int descriptor, int64_t bytes) { return ::ftruncate(descriptor, bytes); }

int FileIo::sync_folder(const char* path) {
    const int descriptor = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return -1;
    const int result = ::fsync(descriptor);
    ::close(descriptor);
    return result;
}

int FileIo::set_used(int descriptor, int64_t seconds) {
    const timespec times[2] = {{0, UTIME_OMIT}, {static_cast<time_t>(seconds), 0}};
    if (::futimens(descriptor, times) == 0) return 0;
    // Of another user's file only "now" may be said, by who may write to it.
    const timespec now[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    return errno == EPERM ? ::futimens(descriptor, now) : -1;
}

namespace {

// What is left to transfer.
struct Rest {
    std::span<iovec> parts;
    int64_t offset = 0;
};

template <class Call>
bool transfer(Rest& rest, Call call) {
    while (!rest.parts.empty()) {
        const auto count = static_cast<int>(std::min<size_t>(rest.parts.size(), IOV_MAX));
        errno = 0;
        ssize_t done = call(rest.parts.data(), count, rest.offset);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        rest.offset += done;
        while (done > 0) {
            iovec& part = rest.parts.front();
            const size_t here = std::min(part.iov_len, static_cast<size_t>(done));
            part.iov_base = static_cast<uint8_t*>(part.iov_base) + here;
            part.iov_len -= here;
            done -= static_cast<ssize_t>(here);
            if (part.iov_len == 0) rest.parts = rest.parts.subspan(1);
        }
    }
    return true;
}

bool read_rest(FileIo& io, int descriptor, Rest& rest) {
    return transfer(rest, [&](const iovec* p, int n, int64_t at) { return io.preadv(descriptor, p, n, at); });
}

bool aligned(const Rest& rest) {
    uintptr_t all = static_cast<uintptr_t>(rest.offset);
    for (const iovec& part : rest.parts) all |= reinterpret_cast<uintptr_t>(part.iov_base) | part.iov_len;
    return all % direct_alignment == 0;
}

}  // namespace

bool read_all(FileIo& io, int descriptor, std::span<iovec> parts, int64_t offset) {
    Rest rest{parts, offset};
    return read_rest(io, descriptor, rest);
}

bool read_large(FileIo& io, int descriptor, std::span<iovec> parts, int64_t offset) {
    Rest rest{parts, offset};
    int64_t bytes = 0;
    for (const iovec& part : parts) bytes += static_cast<int64_t>(part.iov_len);
    if (aligned(rest) && io.in_memory(descriptor, offset, bytes) != 1 &&
        io.set_direct(descriptor, true) == 0) {
        if (read_rest(io, descriptor, rest)) return true;
        if (errno != EINVAL) return false;
        io.set_direct(descriptor, false);  // a disk with larger sectors
    }
    return read_rest(io, descriptor, rest);
}

bool write_all(FileIo& io, int descriptor, std::span<iovec> parts, int64_t offset) {
    Rest rest{parts, offset};
    return transfer(rest,
                    [&](const iovec* p, int n, int64_t at) { return io.pwritev(descriptor, p, n, at); });
}

}  // namespace deepinfer::store
