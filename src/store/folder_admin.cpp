#include "store/folder_admin.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "base/file_descriptor.h"
#include "store/segment.h"

namespace deepinfer::store {

namespace {

namespace fs = std::filesystem;

SegmentInfo look_at(const fs::path& path) {
    SegmentInfo info;
    info.path = path;
    FileIo io;
    const FileDescriptor file(io.open(path.c_str(), O_RDONLY, 0));
    struct stat status{};
    if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
        info.problem = "it cannot be opened";
        return info;
    }
    info.bytes = static_cast<uint64_t>(status.st_size);
    info.last_used = status.st_mtime;
    info.in_use = has_writer(file.get());
    const Result<SegmentHeader> header = read_segment_header(io, file.get());
    if (!header) {
        info.problem = header.error().message;
        return info;
    }
    info.fingerprint = header->shape.fingerprint.hex();
    info.retention = header->retention;
    info.block_bytes = header->shape.block_bytes;
    const Result<SegmentContents> contents = read_segment(io, file.get(), header->shape);
    if (!contents) {
        info.problem = contents.error().message;
        return info;
    }
    info.sealed = contents->sealed;
    info.blocks = contents->entries.size();
    for (const SegmentEntry& entry : contents->entries) info.seconds += static_cast<double>(entry.seconds);
    return info;
}

}  // namespace

Result<std::vector<SegmentInfo>> list_segments(const fs::path& folder) {
    std::error_code error;
    std::vector<SegmentInfo> segments;
    for (fs::recursive_directory_iterator file(folder, error), end; !error && file != end;
         file.increment(error))
        if (file->path().extension() == ".segment") segments.push_back(look_at(file->path()));
    if (error)
        return Error{ErrorCode::not_found,
                     "there is no cache in " + folder.string() + ": " + error.message()};
    std::ranges::sort(segments, {}, &SegmentInfo::path);
    return segments;
}

Result<SegmentCheck> check_segment(const SegmentInfo& segment) {
    FileIo io;
    const FileDescriptor file(io.open(segment.path.c_str(), O_RDONLY, 0));
    const Error unreadable{ErrorCode::io_error, segment.path.string() + " cannot be read"};
    if (file.get() < 0) return unreadable;
    const Result<SegmentHeader> header = read_segment_header(io, file.get());
    if (!header) return header.error();
    const Result<SegmentContents> contents = read_segment(io, file.get(), header->shape);
    if (!contents) return contents.error();
    std::vector<uint8_t> page(static_cast<size_t>(page_bytes)), bytes(header->shape.block_bytes);
    SegmentCheck check;
    for (size_t i = 0; i < contents->entries.size(); ++i) {
        std::array<iovec, 2> parts{{{page.data(), page.size()}, {bytes.data(), bytes.size()}}};
        if (!read_all(io, file.get(), parts, record_offset(header->shape, i))) return unreadable;
        const Result<RecordInfo> info = decode_record(header->shape, page);
        const bool intact =
            info && entry_of(*info) == contents->entries[i] && bytes_intact(header->shape, page, bytes);
        ++(intact ? check.intact : check.damaged);
    }
    return check;
}

Deleted delete_segments(const std::vector<SegmentInfo>& segments,
                        const std::function<bool(const SegmentInfo&)>& which) {
    Deleted result;
    for (const SegmentInfo& segment : segments) {
        if (!which(segment)) continue;
        // Network file systems lock only what is open for writing.
        const FileDescriptor file(::open(segment.path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
        const bool locked = file.get() >= 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
        if (file.get() >= 0 && !locked && errno == EWOULDBLOCK)
            result.in_use_bytes += segment.bytes;
        else if (file.get() >= 0 && ::unlink(segment.path.c_str()) == 0)
            result.bytes += segment.bytes;
        else if (errno != ENOENT && result.failure.message.empty())
            result.failure = {ErrorCode::io_error, segment.path.string() + " cannot be deleted: " +
                                                       std::generic_category().message(errno)};
    }
    return result;
}

}  // namespace deepinfer::store
