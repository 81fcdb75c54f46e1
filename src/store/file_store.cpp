#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>

#include "store/file_store_impl.h"

namespace deepinfer::store {

namespace {

namespace fs = std::filesystem;

constexpr auto looking_interval = std::chrono::seconds(1);
constexpr size_t blocks_at_once = 32;  // of one read

std::optional<kv::Retention> class_of(const fs::path& name) {
    const std::string text = name.string();
    if (!text.ends_with(segment_suffix)) return std::nullopt;
    return kv::parse_retention(std::string_view(text).substr(0, text.find('-')));
}

}  // namespace

bool in_use(const fs::path& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return file.get() >= 0 && has_writer(file.get());
}

std::string writer_name() {
    std::random_device random;
    char text[32];
    std::snprintf(text, sizeof text, "%08x%08x", random(), random());
    return text;
}

std::error_code FileStore::make_folder() const {
    std::error_code error;
    if (fs::create_directories(folder_, error) && !options_.others_read)
        fs::permissions(folder_, fs::perms::owner_all, error);
    return error;
}

// The tenant's oldest blocks are found no more, until so many bytes are free of its share.
void FileStore::make_tenant_room(uint64_t tenant, uint64_t bytes) {
    while (set_.tenant_bytes(tenant) + bytes > options_.tenant_bytes) {
        const kv::BlockKey* oldest = set_.oldest_of(tenant);
        if (!oldest) return;
        set_.forget(kv::BlockKey(*oldest));
        ++stats_.evicted_total;
    }
}

Status FileStore::open() {
    std::error_code error = make_folder();
    if (!error && ::access(folder_.c_str(), R_OK | W_OK | X_OK) != 0)
        error = {errno, std::generic_category()};
    if (error)
        return Error{ErrorCode::io_error, "the folder of the " + options_.name + " cache, " +
                                              folder_.string() +
                                              ", cannot be made or written to: " + error.message()};
    look(Clock::time_point::max(), true);
    clean();
    if (options_.tenant_bytes > 0) {
        const std::lock_guard lock(mutex_);
        for (const uint64_t tenant : set_.tenants()) make_tenant_room(tenant, 0);
    }
    return {};
}

// ---- reading

size_t FileStore::count_found(std::span<const kv::BlockKey> keys) const {
    const std::lock_guard lock(mutex_);
    const auto missing = std::ranges::find_if(keys, [&](const auto& key) { return !set_.find(key); });
    return static_cast<size_t>(missing - keys.begin());
}

size_t FileStore::find(std::span<const kv::BlockKey> keys, Clock::time_point deadline) {
    const size_t found = count_found(keys);
    if (found == keys.size()) return found;
    const int64_t time = Clock::now().time_since_epoch().count();
    if (time - looked_ < Clock::duration(looking_interval).count()) return found;
    look(deadline, false);
    return count_found(keys);
}

void FileStore::get(std::span<Get> items, Clock::time_point deadline) {
    for (Get& item : items) item.outcome = Get::Outcome::late;
    size_t i = 0;
    while (i < items.size() && Clock::now() < deadline) {
        std::optional<SegmentSet::Place> place;
        size_t run = 0;
        {
            const std::lock_guard lock(mutex_);
            for (; i + run < items.size() && run < blocks_at_once; ++run) {
                const SegmentSet::Place* next = set_.find(items[i + run].key);
                if (run == 0 && next) place = *next;
                if (!next || next->segment != place->segment || next->record != place->record + run) break;
            }
        }
        if (!place) {
            items[i].outcome = Get::Outcome::missing;
            const std::lock_guard lock(mutex_);
            ++stats_.missing_total;
            return;
        }
        const size_t good = read_run(items.subspan(i, run), *place);
        if (good < run) return;
        i += run;
    }
}

// Consecutive records, in one call. Returns how many are ok; the next one says what is wrong with it.
size_t FileStore::read_run(std::span<Get> items, const SegmentSet::Place& first) {
    const FileDescriptor file(io_->open(first.segment->path.c_str(), O_RDONLY, 0));
    const size_t padding = static_cast<size_t>(stride_ - page_bytes) - options_.shape.block_bytes;
    struct alignas(page_bytes) Page : std::array<uint8_t, page_bytes> {};
    std::vector<Page> headers(items.size()), unused(1);
    std::vector<iovec> parts;
    for (size_t i = 0; i < items.size(); ++i) {
        parts.push_back({headers[i].data(), headers[i].size()});
        parts.push_back({items[i].bytes.data(), items[i].bytes.size()});
        if (padding > 0) parts.push_back({unused[0].data(), padding});
    }
    const bool read =
        file.get() >= 0 && read_large(*io_, file.get(), parts, record_offset(options_.shape, first.record));
    const bool gone = !read && (errno == ENOENT || errno == 0);  // deleted, or cut off, by somebody else
    size_t good = 0;
    for (; good < items.size(); ++good) {
        Get& item = items[good];
        item.outcome = !read ? (gone ? Get::Outcome::missing : Get::Outcome::failed)
                             : judge_record(options_.shape, headers[good], item);
        if (item.outcome != Get::Outcome::ok) break;
    }
    const std::lock_guard lock(mutex_);
    stats_.read_total += good;
    stats_.read_bytes_total += good * options_.shape.block_bytes;
    if (good == items.size()) return good;
    const Get::Outcome outcome = items[good].outcome;
    ++(outcome == Get::Outcome::missing   ? stats_.missing_total
       : outcome == Get::Outcome::damaged ? stats_.damaged_total
                                          : stats_.failed_total);
    if (outcome != Get::Outcome::failed)
        for (size_t i = good; i < (gone ? items.size() : good + 1); ++i) set_.forget(items[i].key);
    return good;
}

void FileStore::touch(std::span<const kv::BlockKey> keys, Clock::time_point deadline) {
    const int64_t time = now();
    std::vector<SegmentPtr> renewed;
    {
        const std::lock_guard lock(mutex_);
        for (const kv::BlockKey& key : keys) {
            const SegmentSet::Place* place = set_.find(key);
            if (!place) continue;
            set_.touch(*place, time);
            Segment& segment = *place->segment;
            if (time - segment.last_used < kv::lifetime(segment.retention).count() / 8) continue;
            segment.last_used = time;
            renewed.push_back(place->segment);
        }
    }
    for (const SegmentPtr& segment : renewed) {
        if (Clock::now() >= deadline) return;
        const FileDescriptor file(io_->open(segment->path.c_str(), O_RDONLY, 0));
        if (file.get() >= 0) io_->set_used(file.get(), time);
    }
}

// ---- the folder

// What other processes have added and removed. Of segments that are known and complete only with `all` anything is asked of the
// file system: it may be at the other end of a network, and there may be thousands. What the time is too short for comes next time.
void FileStore::look(Clock::time_point deadline, bool all) {
    const std::unique_lock looking(looking_, std::try_to_lock);
    if (!looking) return;
    std::error_code error;
    std::vector<fs::path> there;
    for (fs::directory_iterator file(folder_, error), end; !error && file != end; file.increment(error))
        if (class_of(file->path().filename())) there.push_back(file->path());
    if (error) return;
    std::ranges::sort(there);
    {
        const std::lock_guard lock(mutex_);
        std::vector<SegmentPtr> gone;
        for (const auto& [name, segment] : set_.all())
            if (!segment->own && !std::ranges::binary_search(there, segment->path)) gone.push_back(segment);
        for (const SegmentPtr& segment : gone) set_.erase(segment);
    }
    for (const fs::path& path : there) {
        if (!all && is_complete(path)) continue;
        struct stat status{};
        if (::stat(path.c_str(), &status) == 0) look_at(path, status.st_mtime);
        if (Clock::now() >= deadline) return;
    }
    looked_ = Clock::now().time_since_epoch().count();
}

bool FileStore::is_complete(const fs::path& path) const {
    const std::lock_guard lock(mutex_);
    const SegmentPtr segment = set_.named(path.filename());
    return segment && (segment->own || segment->sealed);
}

void FileStore::look_at(const fs::path& path, int64_t last_used) {
    SegmentPtr segment;
    std::vector<SegmentEntry> known;
    {
        const std::lock_guard lock(mutex_);
        segment = set_.named(path.filename());
        if (segment) {
            segment->last_used = std::max(segment->last_used, last_used);
            if (segment->own || segment->sealed) return;
            known = segment->entries;
        }
    }
    FileDescriptor file(io_->open(path.c_str(), O_RDWR, 0));
    const bool may_write = file.get() >= 0;
    if (!may_write && (errno == EACCES || errno == EPERM || errno == EROFS))  // another user's
        file = FileDescriptor(io_->open(path.c_str(), O_RDONLY, 0));
    if (file.get() < 0) return;
    const bool abandoned = may_write && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
    Result<SegmentContents> contents = read_segment(*io_, file.get(), options_.shape, std::move(known));
    if (!contents) {
        // Left by a process that died before it had written a first page. Others are somebody's, or another version's.
        struct stat status{};
        if (abandoned && ::fstat(file.get(), &status) == 0 && status.st_size < page_bytes)
            io_->unlink(path.c_str());
        return;
    }
    if (abandoned && !contents->sealed) {
        if (contents->entries.empty()) {
            io_->unlink(path.c_str());
            return;
        }
        contents->sealed = seal_segment(*io_, file.get(), options_.shape, contents->entries).ok();
        io_->set_used(file.get(), last_used);  // it was not used now
    }
    struct stat status{};
    const int64_t bytes = ::fstat(file.get(), &status) == 0 ? status.st_size : 0;
    const std::lock_guard lock(mutex_);
    if (!segment) {
        segment = std::make_shared<Segment>();
        segment->path = path;
        segment->last_used = last_used;
        set_.insert(segment);
    }
    const size_t before = segment->used.size();
    segment->retention = contents->retention;
    segment->entries = std::move(contents->entries);
    segment->sealed = contents->sealed;
    segment->bytes = bytes;
    for (size_t i = before; i < segment->entries.size(); ++i) set_.add(segment, i, last_used);
    segment->used.resize(segment->entries.size());
}

bool FileStore::knows(const fs::path& path) const {
    const std::lock_guard lock(mutex_);
    return set_.named(path.filename()) != nullptr;
}

// Deletes what has expired, of all models, and counts what other models have, and what cannot be read.
void FileStore::clean() {
    const int64_t time = now();
    std::vector<OtherFile> found;
    std::error_code error;
    for (fs::recursive_directory_iterator file(options_.folder, error), end; !error && file != end;
         file.increment(error)) {
        struct stat status{};
        const fs::path& path = file->path();
        const auto retention = class_of(path.filename());
        if (!retention || (path.parent_path() == folder_ && knows(path)) ||
            ::stat(path.c_str(), &status) != 0)
            continue;
        if (status.st_mtime + kv::lifetime(*retention).count() < time && !in_use(path))
            io_->unlink(path.c_str());
        else
            found.push_back({path, *retention, status.st_size, status.st_mtime});
    }
    std::vector<SegmentPtr> expired;
    {
        const std::lock_guard lock(mutex_);
        set_.others = std::move(found);
        expired = set_.expired(time);
    }
    std::erase_if(expired, [](const SegmentPtr& segment) { return in_use(segment->path); });
    {
        const std::lock_guard lock(mutex_);
        for (const SegmentPtr& segment : expired) {
            for (const int64_t used : segment->used) stats_.expired_total += used != 0;
            set_.erase(segment);
        }
    }
    for (const SegmentPtr& segment : expired) io_->unlink(segment->path.c_str());
}

StoreStats FileStore::stats() const {
    const std::lock_guard lock(mutex_);
    StoreStats stats = stats_;
    stats.blocks = set_.blocks();
    stats.bytes = static_cast<uint64_t>(set_.bytes());
    stats.budget_bytes = options_.budget_bytes;
    return stats;
}

Result<std::unique_ptr<BlockStore>> open_file_store(const FileStoreOptions& options) {
    if (Status status = check_shape(options.shape); !status) return status.error();
    auto store = std::make_unique<FileStore>(options);
    if (Status status = store->open(); !status) return status.error();
    return std::unique_ptr<BlockStore>(std::move(store));
}

}  // namespace deepinfer::store
