#include "models/weight_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <vector>

#include "base/file_descriptor.h"
#include "base/memory_info.h"

#ifndef MADV_POPULATE_READ  // Linux 5.14
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE  // Linux 6.1
#define MADV_COLLAPSE 25
#endif

namespace deepinfer::models {

namespace {

namespace fs = std::filesystem;

constexpr size_t populate_piece = size_t{16} << 20;

std::string reason(int error_number) { return std::generic_category().message(error_number); }

Error failed(const char* operation, const fs::path& path, int error_number) {
    return {ErrorCode::io_error, "weight file: cannot " + std::string(operation) + " " + path.string() +
                                     ": " + reason(error_number)};
}

fs::path unfinished_path(const fs::path& path) { return path.string() + ".building"; }

// Page size of a file system of huge pages; else the size of a transparent huge page, which never hurts.
uint64_t page_bytes_of(int descriptor) {
    struct statfs info = {};
    if (::fstatfs(descriptor, &info) == 0 && info.f_type == HUGETLBFS_MAGIC)
        return static_cast<uint64_t>(info.f_bsize);
    return HugeBuffer::huge_page;
}

// Whether `path` still names the file that is open.
bool names(const fs::path& path, int descriptor) {
    struct stat open_file = {}, named = {};
    return ::fstat(descriptor, &open_file) == 0 && ::lstat(path.c_str(), &named) == 0 &&
           open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

bool lock(int descriptor, bool wait) {
    int result;
    do result = ::flock(descriptor, wait ? LOCK_EX : LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

int allocate(int descriptor, uint64_t bytes) {  // the error number
    int error;
    do error = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
    while (error == EINTR);
    return error;
}

// A builder that died has left its file: it is in nobody's way, but takes room.
void remove_abandoned(const fs::path& unfinished) {
    const FileDescriptor file(::open(unfinished.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.get() >= 0 && lock(file.get(), false) && names(unfinished, file.get()))
        ::unlink(unfinished.c_str());
}

// madvise() in pieces by all threads; the error number of a piece that failed.
int populate(const HugeBuffer& memory, int advice, ThreadPool& pool, const Progress& progress) {
    const size_t bytes = memory.size();
    const int pieces = static_cast<int>((bytes + populate_piece - 1) / populate_piece);
    std::atomic<int> error{0};
    std::atomic<uint64_t> done{0};
    pool.for_each(pieces, 1, [&](int begin, int end, int thread) {
        for (int i = begin; i < end && error.load(std::memory_order_relaxed) == 0; ++i) {
            const size_t at = static_cast<size_t>(i) * populate_piece,
                         n = std::min(populate_piece, bytes - at);
            int result;
            do result = ::madvise(memory.data() + at, n, advice);
            while (result != 0 && errno == EINTR);
            if (result != 0) error.store(errno, std::memory_order_relaxed);
            const uint64_t now = done.fetch_add(n, std::memory_order_relaxed) + n;
            if (thread == 0 && progress) progress(std::min<uint64_t>(now, bytes - 1), bytes);
        }
    });
    return error.load(std::memory_order_relaxed);
}

// Of the file system in which the file is; nothing if that is not known.
std::optional<uint64_t> free_bytes_of(int descriptor) {
    struct statfs info = {};
    if (::fstatfs(descriptor, &info) != 0) return std::nullopt;
    const auto page = static_cast<uint64_t>(info.f_bsize);
    const uint64_t free = uint64_t{info.f_bavail} * page;
    if (info.f_type != HUGETLBFS_MAGIC) return free;
    // What the system has of these pages, less what mappings have reserved; and the mount's limit, if it has one.
    const std::string folder = "/sys/kernel/mm/hugepages/hugepages-" + std::to_string(page >> 10) + "kB/";
    std::ifstream free_file(folder + "free_hugepages"), reserved_file(folder + "resv_hugepages");
    uint64_t pages = 0, reserved = 0;
    if (!(free_file >> pages) || !(reserved_file >> reserved)) return std::nullopt;
    const uint64_t unreserved = (pages - std::min(pages, reserved)) * page;
    return info.f_blocks > 0 ? std::min(free, unreserved) : unreserved;
}

}  // namespace

WeightPlace weight_place(int descriptor) {
    struct statfs info = {};
    if (::fstatfs(descriptor, &info) != 0) return WeightPlace::disk_file;
    if (info.f_type == HUGETLBFS_MAGIC) return WeightPlace::huge_page_file;
    if (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC) return WeightPlace::memory_file;
    return WeightPlace::disk_file;
}

namespace {

bool starts_as_weight_file(std::span<const std::byte> start) {
    const size_t magic = std::min(start.size(), weight_file_magic.size());
    return weight_file_magic.compare(0, magic, reinterpret_cast<const char*>(start.data()), magic) == 0;
}

// An open file and what its header page says.
struct Opened {
    FileDescriptor file;
    Result<WeightFileHeader> header;

    Result<WeightFile> map() const {
        auto memory = HugeBuffer::map_file(file.get(), static_cast<size_t>(header->file_bytes),
                                           static_cast<size_t>(page_bytes_of(file.get())), false);
        if (!memory) return std::move(memory).error();
        return WeightFile{std::move(*memory), weight_place(file.get()), *header};
    }
};

Result<Opened> open_header(const fs::path& path) {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) {
        if (errno == ENOENT) return Error{ErrorCode::not_found, "there is none yet"};
        return failed("open", path, errno);
    }
    struct stat info = {};
    if (::fstat(file.get(), &info) != 0) return failed("examine", path, errno);
    if (!S_ISREG(info.st_mode))
        return Error{ErrorCode::invalid_argument, "weight file: " + path.string() + " is not a regular file"};
    std::array<std::byte, weight_header_bytes> start;
    const ssize_t got = ::pread(file.get(), start.data(), start.size(), 0);
    if (got < 0) return failed("read", path, errno);
    const auto read = std::span<const std::byte>(start).first(static_cast<size_t>(got));
    if (!starts_as_weight_file(read))
        return Error{ErrorCode::invalid_argument,
                     "weight file: " + path.string() +
                         " exists and holds something else, which is not overwritten; choose another name"};
    return Opened{std::move(file), parse_weight_header(read, static_cast<uint64_t>(info.st_size))};
}

// Of pieces, by all threads; then of their checksums.
uint64_t checksum(const uint8_t* data, uint64_t bytes, ThreadPool& pool) {
    std::vector<uint64_t> sums((bytes + populate_piece - 1) / populate_piece);
    pool.for_each(static_cast<int>(sums.size()), 1, [&](int begin, int end, int) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
            const size_t at = i * populate_piece;
            sums[i] = XXH3_64bits(data + at, std::min<size_t>(populate_piece, bytes - at));
        }
    });
    return XXH3_64bits(sums.data(), sums.size() * sizeof(uint64_t));
}

}  // namespace

Result<WeightFile> open_weight_file(const fs::path& path, const WeightIdentity& wanted) {
    auto opened = open_header(path);
    if (!opened) return std::move(opened).error();
    const auto& header = opened->header;
    if (!header) return Error{ErrorCode::not_found, header.error().message};
    if (std::string why = difference(header->identity, wanted); !why.empty())
        return Error{ErrorCode::not_found, std::move(why)};
    auto mapped = opened->map();
    if (mapped) remove_abandoned(unfinished_path(path));
    return mapped;
}

bool is_weight_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::array<char, weight_file_magic.size()> start{};
    return file.read(start.data(), start.size()) && starts_as_weight_file(std::as_bytes(std::span(start)));
}

Result<WeightFile> open_any_weight_file(const fs::path& path) {
    auto opened = open_header(path);
    if (!opened) return std::move(opened).error();
    if (!opened->header)
        return Error{ErrorCode::corrupt_data,
                     "weight file: " + path.string() + " is damaged: " + opened->header.error().message};
    return opened->map();
}

Status verify(const WeightFile& file, ThreadPool& pool) {
    if (checksum(file.data(), file.header.identity.data_bytes, pool) == file.header.data_checksum) return {};
    return Error{ErrorCode::corrupt_data, "its packed weights do not match their checksum"};
}

Status read_in(const WeightFile& file, ThreadPool& pool, const Progress& progress) {
    const int error = populate(file.memory, MADV_POPULATE_READ, pool, progress);
    if (error == 0 || error == EINVAL)
        if (progress) progress(file.memory.size(), file.memory.size());
    if (error == 0) return {};
    if (error == EINVAL) {  // an older kernel: start reading, the rest comes when it is used
        ::madvise(file.memory.data(), file.memory.size(), MADV_WILLNEED);
        return {};
    }
    return Error{ErrorCode::io_error, "weight file: its pages cannot be read: " + reason(error)};
}

WeightFileBuilder::WeightFileBuilder(int descriptor, fs::path path, fs::path unfinished)
    : descriptor_(descriptor),
      path_(std::move(path)),
      unfinished_(std::move(unfinished)),
      place_(weight_place(descriptor)),
      page_bytes_(page_bytes_of(descriptor)) {}

WeightFileBuilder::WeightFileBuilder(WeightFileBuilder&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      unfinished_(std::move(other.unfinished_)),
      place_(other.place_),
      page_bytes_(other.page_bytes_),
      header_(other.header_),
      memory_(std::move(other.memory_)) {}

WeightFileBuilder::~WeightFileBuilder() {
    if (descriptor_ < 0) return;
    ::unlink(unfinished_.c_str());  // ours: the lock is still held
    ::close(descriptor_);
}

Result<WeightFileBuilder> WeightFileBuilder::start(const fs::path& path, const Notice& notice) {
    const fs::path unfinished = unfinished_path(path);
    for (bool told = false;;) {
        FileDescriptor file(
            ::open(unfinished.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
        if (file.get() < 0) return failed("create", unfinished, errno);
        struct stat info = {};
        if (::fstat(file.get(), &info) != 0) return failed("examine", unfinished, errno);
        if (!S_ISREG(info.st_mode))
            return Error{ErrorCode::invalid_argument,
                         "weight file: " + unfinished.string() + " is not a regular file"};
        if (!lock(file.get(), false)) {
            if (errno != EWOULDBLOCK) return failed("lock", unfinished, errno);
            if (!told && notice)
                notice("waiting for another process that builds weight file " + path.string());
            told = true;
            if (!lock(file.get(), true)) return failed("lock", unfinished, errno);
        }
        // Its builder may have renamed or removed it between our opening and our locking.
        if (!names(unfinished, file.get())) continue;
        if (::ftruncate(file.get(), 0) != 0) return failed("empty", unfinished, errno);
        return WeightFileBuilder(file.release(), path, unfinished);
    }
}

Error WeightFileBuilder::no_room(int error_number) const {
    const auto amount = [this](uint64_t bytes) {
        return place_ == WeightPlace::huge_page_file
                   ? std::to_string(bytes / page_bytes_) + " huge pages of " + format_bytes(page_bytes_)
                   : format_bytes(bytes);
    };
    std::string text = "no room for weight file " + path_.string() + " (" + reason(error_number) +
                       "): it needs " + amount(header_.file_bytes);
    if (free_bytes_) text += ", its file system has " + amount(*free_bytes_) + " free";
    if (place_ == WeightPlace::huge_page_file) text += "; vm.nr_hugepages reserves huge pages";
    std::error_code ignored;
    if (fs::exists(path_, ignored))
        text += "; the old file stays until the new one is complete, unless it is removed by hand";
    return {ErrorCode::resource_exhausted, text};
}

Status WeightFileBuilder::reserve(const WeightIdentity& identity, ThreadPool& pool) {
    header_.identity = identity;
    free_bytes_ = free_bytes_of(descriptor_);
    const uint64_t bytes = weight_header_bytes + identity.data_bytes + HugeBuffer::read_ahead;
    header_.file_bytes = (bytes + page_bytes_ - 1) / page_bytes_ * page_bytes_;
    if (::ftruncate(descriptor_, static_cast<off_t>(header_.file_bytes)) != 0)
        return errno == EFBIG ? no_room(errno) : failed("lengthen", unfinished_, errno);
    if (place_ == WeightPlace::disk_file)
        if (const int error = allocate(descriptor_, header_.file_bytes))
            return error == ENOSPC ? no_room(error) : failed("reserve room for", unfinished_, error);
    auto memory = HugeBuffer::map_file(descriptor_, static_cast<size_t>(header_.file_bytes),
                                       static_cast<size_t>(page_bytes_), true);
    if (!memory) return place_ == WeightPlace::huge_page_file ? no_room(ENOMEM) : std::move(memory).error();
    memory_ = std::move(*memory);
    return place_ == WeightPlace::disk_file ? Status() : take_pages(pool);
}

// In memory file systems a page that is missing when it is written to kills the process.
Status WeightFileBuilder::take_pages(ThreadPool& pool) {
    int error = populate(memory_, MADV_POPULATE_WRITE, pool, {});
    if (error == EINVAL)  // an older kernel; this takes small pages
        error = allocate(descriptor_, header_.file_bytes);
    if (error != 0) return no_room(error == EFAULT ? ENOSPC : error);
    // A tmpfs that does not give huge pages when asked (/dev/shm usually does not) joins small ones when told. A wish.
    if (place_ == WeightPlace::memory_file) populate(memory_, MADV_COLLAPSE, pool, {});
    return {};
}

Result<WeightFile> WeightFileBuilder::finish(ThreadPool& pool) {
    header_.data_checksum = checksum(data(), header_.identity.data_bytes, pool);
    const auto page = make_weight_header(header_);
    std::copy(page.begin(), page.end(), reinterpret_cast<std::byte*>(memory_.data()));
    // All of it must be on the disk before the name says so.
    if (::fsync(descriptor_) != 0) return failed("write", unfinished_, errno);
    if (Status status = memory_.make_read_only(); !status) return status.error();
    if (::rename(unfinished_.c_str(), path_.c_str()) != 0) return failed("rename to", path_, errno);
    ::flock(descriptor_,
            LOCK_UN);  // closing is not enough: the mapping keeps the open file, and with it the lock
    ::close(std::exchange(descriptor_, -1));
    return WeightFile{std::move(memory_), place_, header_};
}

}  // namespace deepinfer::models
