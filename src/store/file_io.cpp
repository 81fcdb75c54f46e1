#include "store/file_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace deepinfer::store {

int FileIo::open(const char* path, int flags, mode_t mode) { return ::open(path, flags | O_CLOEXEC, mode); }
ssize_t FileIo::preadv(int descriptor, const iovec* parts, int count, int64_t offset) {
    return ::preadv(descriptor, parts, count, offset);
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
    return ::futimens(descriptor, times);
}

namespace {

template <class Call>
bool transfer(std::span<iovec> parts, int64_t offset, Call call) {
    while (!parts.empty()) {
        const auto count = static_cast<int>(std::min<size_t>(parts.size(), IOV_MAX));
        errno = 0;
        ssize_t done = call(parts.data(), count, offset);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        offset += done;
        while (done > 0) {
            iovec& part = parts.front();
            const size_t here = std::min(part.iov_len, static_cast<size_t>(done));
            part.iov_base = static_cast<uint8_t*>(part.iov_base) + here;
            part.iov_len -= here;
            done -= static_cast<ssize_t>(here);
            if (part.iov_len == 0) parts = parts.subspan(1);
        }
    }
    return true;
}

}  // namespace

bool read_all(FileIo& io, int descriptor, std::span<iovec> parts, int64_t offset) {
    return transfer(parts, offset,
                    [&](const iovec* p, int n, int64_t at) { return io.preadv(descriptor, p, n, at); });
}

bool write_all(FileIo& io, int descriptor, std::span<iovec> parts, int64_t offset) {
    return transfer(parts, offset,
                    [&](const iovec* p, int n, int64_t at) { return io.pwritev(descriptor, p, n, at); });
}

}  // namespace deepinfer::store
