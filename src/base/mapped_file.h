// A regular file mapped read-only into memory.
//
// Ownership: the object owns the mapping; spans of bytes() are valid while it lives (moving it does not move
// the bytes). Threads: immutable; release_pages may be called from any thread. A file that another process
// shortens while it is mapped cannot be read safely (SIGBUS): replace model files by rename, never in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace deepinfer {

class MappedFile {
  public:
    // Errors: not_found, io_error (the system's reason is in the message), invalid_argument if it is not a
    // regular file.
    static Result<MappedFile> open(const std::filesystem::path& path);

    MappedFile() = default;
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return {data_, size_}; }
    int64_t modified_ns() const { return modified_ns_; }  // since 1970, when the file was opened

    // Drops the resident pages that lie wholly inside `range` from this process. They stay in the system's
    // page cache, where they cost nothing once memory is wanted, so reading them again is correct and often
    // cheap. `range` may be any span; parts outside this file are left alone.
    void release_pages(std::span<const std::byte> range) const;

  private:
    MappedFile(const std::byte* data, size_t size, int64_t modified_ns)
        : data_(data), size_(size), modified_ns_(modified_ns) {}
    void unmap();

    const std::byte* data_ = nullptr;
    size_t size_ = 0;
    int64_t modified_ns_ = 0;
};

}  // namespace deepinfer
