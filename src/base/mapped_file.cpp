#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "base/file_descriptor.h"

namespace deepinfer {
namespace {

Error system_error(const std::filesystem::path& path, const char* operation, int error_number) {
    const ErrorCode code =
        error_number == ENOENT || error_number == ENOTDIR ? ErrorCode::not_found : ErrorCode::io_error;
    return {code, "cannot " + std::string(operation) + " " + path.string() + ": " +
                      std::generic_category().message(error_number)};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
    // O_NONBLOCK: a FIFO must be refused, not waited for.
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) return system_error(path, "open", errno);
    struct stat info = {};
    if (::fstat(file.get(), &info) != 0) return system_error(path, "examine", errno);
    if (!S_ISREG(info.st_mode))
        return Error{ErrorCode::invalid_argument, path.string() + " is not a regular file"};
    const size_t size = static_cast<size_t>(info.st_size);
    const int64_t modified = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
    if (size == 0) return MappedFile(nullptr, 0, modified);
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) return system_error(path, "map", errno);
    return MappedFile(static_cast<const std::byte*>(data), size, modified);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      modified_ns_(other.modified_ns_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    if (this != &other) {
        unmap();
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
        modified_ns_ = other.modified_ns_;
    }
    return *this;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() {
    if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release_pages(std::span<const std::byte> range) const {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto file_begin = reinterpret_cast<uintptr_t>(data_);
    const uintptr_t file_end = file_begin + size_;
    const auto range_begin = reinterpret_cast<uintptr_t>(range.data());
    uintptr_t begin = std::max(range_begin, file_begin);
    uintptr_t end = std::min(range_begin + range.size(), file_end);
    if (begin >= end) return;
    begin = (begin + page - 1) / page * page;
    if (end != file_end) end = end / page * page;  // the last page of the file has nothing behind it
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace deepinfer
