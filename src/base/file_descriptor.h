// Owns an open file and closes it.
#pragma once

#include <unistd.h>

#include <utility>

namespace deepinfer {

class FileDescriptor {
  public:
    explicit FileDescriptor(int fd) : fd_(fd) {}  // -1: none
    FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
    FileDescriptor& operator=(FileDescriptor&& other) noexcept {
        std::swap(fd_, other.fd_);  // the other one closes what was open here
        return *this;
    }
    FileDescriptor(const FileDescriptor&) = delete;
    FileDescriptor& operator=(const FileDescriptor&) = delete;
    ~FileDescriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }  // the caller closes it

  private:
    int fd_;
};

}  // namespace deepinfer
