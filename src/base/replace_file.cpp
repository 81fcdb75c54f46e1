#include "base/replace_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "base/file_descriptor.h"

namespace deepinfer {

namespace {

// A new file beside `path`, under a name that nobody else has; mkstemp() would make it unreadable for others.
FileDescriptor create_beside(const std::filesystem::path& path, std::filesystem::path& name) {
    for (int attempt = 0; attempt < 100; ++attempt) {
        uint64_t random = 0;
        if (::getrandom(&random, sizeof random, 0) != sizeof random) break;
        name = path.string() + "." + std::to_string(random);
        FileDescriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
        if (file.get() >= 0 || errno != EEXIST) return file;
    }
    return FileDescriptor(-1);
}

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(fd, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        text.remove_prefix(static_cast<size_t>(written));
    }
    return true;
}

}  // namespace

bool replace_file(const std::filesystem::path& path, std::string_view text) {
    std::error_code error, ignored;
    std::filesystem::create_directories(path.parent_path(), error);  // if that failed, opening says so
    std::filesystem::path unfinished;
    FileDescriptor file = create_beside(path, unfinished);
    if (file.get() < 0) return false;
    const bool written = write_all(file.get(), text);
    const bool closed = ::close(file.release()) == 0;  // some file systems report a full disk here
    if (written && closed) {
        std::filesystem::rename(unfinished, path, error);
        if (!error) return true;
    }
    std::filesystem::remove(unfinished, ignored);
    return false;
}

}  // namespace deepinfer
