// The calls of the operating system that a FileStore makes, so that tests can let each of them fail.
//
// Results are as those of the calls of the same names; errors are in errno. Threads: any.
#pragma once

#include <sys/stat.h>
#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>

namespace deepinfer::store {

class FileIo {
  public:
    virtual ~FileIo() = default;
    virtual int open(const char* path, int flags, mode_t mode);
    // May transfer less than asked for.
    virtual ssize_t preadv(int descriptor, const iovec* parts, int count, int64_t offset);
    // 1 if all of it is in the page cache, as far as can be known; 0 if not.
    virtual int in_memory(int descriptor, int64_t offset, int64_t bytes);
    virtual int set_direct(int descriptor,
                           bool on);  // reads of the descriptor pass by the page cache (O_DIRECT)
    virtual ssize_t pwritev(int descriptor, const iovec* parts, int count, int64_t offset);
    virtual int fdatasync(int descriptor);
    virtual int sync_folder(const char* path);
    virtual int unlink(const char* path);
    virtual int truncate(int descriptor, int64_t bytes);
    virtual int set_used(int descriptor, int64_t seconds);  // the time of change
};

// Transfers all parts, which it changes, going on where a call stopped. True if all came or went; else errno says why, 0 at
// the end of the file.
bool read_all(FileIo& io, int descriptor, std::span<iovec> parts, int64_t offset);
// The same for large pieces: unless the page cache has it all, it comes straight from the disk into place, which is twice as
// quick as through the cache, and takes no processor from computing. Where parts are not aligned to direct_alignment or the
// file system cannot, it is read as by read_all(). The descriptor is not to be used for other reads afterwards.
constexpr size_t direct_alignment = 512;
bool read_large(FileIo& io, int descriptor, std::span<iovec> parts, int64_t offset);
bool write_all(FileIo& io, int descriptor, std::span<iovec> parts, int64_t offset);

}  // namespace deepinfer::store
