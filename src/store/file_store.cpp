#include "store/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <optional>
#include <random>

#include "base/file_descriptor.h"
#include "store/segment_set.h"

namespace deepinfer::store {

namespace {

namespace fs = std::filesystem;

constexpr auto looking_interval = std::chrono::seconds(1);
constexpr auto cleaning_interval = std::chrono::seconds(60);
constexpr size_t blocks_at_once = 32;  // of one read
constexpr std::string_view suffix = ".segment";

std::optional<kv::Retention> class_of(const fs::path& name) {
    const std::string text = name.string();
    if (!text.ends_with(suffix)) return std::nullopt;
    return kv::parse_retention(std::string_view(text).substr(0, text.find('-')));
}

std::string writer_name() {
    std::random_device random;
    char text[32];
    std::snprintf(text, sizeof text, "%08x%08x", random(), random());
    return text;
}

class FileStore final : public BlockStore {
  public:
    explicit FileStore(const FileStoreOptions& options)
        : options_(options),
          io_(options.io ? options.io : std::make_shared<FileIo>()),
          folder_(options.folder / options.shape.fingerprint.hex()),
          stride_(record_stride(options.shape)),
          writer_(writer_name()),
          set_(stride_) {
        // Several segments must fit into the budget, or evicting one would be evicting all.
        const auto most = static_cast<int64_t>(options_.budget_bytes / 8);
        options_.segment_bytes = std::max(std::min(options_.segment_bytes, most), 2 * page_bytes + stride_);
    }
    ~FileStore() override {
        for (Writing& writing : writing_) close(writing);
    }

    Status open();
    std::string name() const override { return options_.name; }
    size_t find(std::span<const kv::BlockKey> keys, Clock::time_point deadline) override;
    void get(std::span<Get> items, Clock::time_point deadline) override;
    void put(std::span<Put> items, Clock::time_point deadline) override;
    void touch(std::span<const kv::BlockKey> keys, Clock::time_point deadline) override;
    StoreStats stats() const override;

  private:
    // The segment of a class that is being appended to. The writing thread's.
    struct Writing {
        SegmentPtr segment;
        FileDescriptor file{-1};
        size_t records = 0;  // written, of which those from `durable` on are not yet durable
        size_t durable = 0;
        std::vector<Put*> pending;  // of those that are not
    };

    int64_t now() const { return options_.now ? options_.now() : std::time(nullptr); }
    size_t count_found(std::span<const kv::BlockKey> keys) const;
    void look();
    void look_at(const fs::path& path, int64_t last_used);
    void clean(bool others);
    bool make_room(int64_t bytes);
    void make_tenant_room(uint64_t tenant, uint64_t bytes);
    std::error_code make_folder() const;
    void drop_deleted(Writing& writing);
    void keep_the_best_of(const SegmentSet::Victim& victim);
    size_t read_run(std::span<Get> items, const SegmentSet::Place& first);
    bool ready_to_write(Writing& writing, kv::Retention retention);
    bool append(Writing& writing, Put& put, int64_t created);
    bool commit(Writing& writing);
    Writing& writing_of(kv::Retention retention) {
        return writing_[retention == kv::Retention::agent ? 0 : 1];  // as stored_classes
    }
    void close(Writing& writing);
    void count(const Put& put);

    FileStoreOptions options_;
    const std::shared_ptr<FileIo> io_;
    const fs::path folder_;
    const int64_t stride_;
    const std::string writer_;

    // Writing thread.
    std::array<Writing, kv::stored_classes.size()> writing_;
    uint64_t next_segment_ = 0;
    Clock::time_point cleaned_{};

    std::mutex looking_;  // one thread looks at the folder at a time
    std::atomic<int64_t> looked_{0};

    mutable std::mutex mutex_;  // of what follows; never held during I/O on blocks
    SegmentSet set_;
    StoreStats stats_;
};

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
    look();
    clean(true);
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

size_t FileStore::find(std::span<const kv::BlockKey> keys, Clock::time_point) {
    const size_t found = count_found(keys);
    if (found == keys.size()) return found;
    const int64_t time = Clock::now().time_since_epoch().count();
    if (time - looked_ < Clock::duration(looking_interval).count()) return found;
    look();
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
            if (segment.own || time - segment.last_used < kv::lifetime(segment.retention).count() / 8)
                continue;
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

// What other processes have added and removed.
void FileStore::look() {
    const std::unique_lock looking(looking_, std::try_to_lock);
    if (!looking) return;
    looked_ = Clock::now().time_since_epoch().count();
    std::error_code error;
    std::vector<std::pair<fs::path, int64_t>> there;
    for (fs::directory_iterator file(folder_, error), end; !error && file != end; file.increment(error)) {
        struct stat status{};
        if (!class_of(file->path().filename()) || ::stat(file->path().c_str(), &status) != 0) continue;
        there.emplace_back(file->path(), status.st_mtime);
    }
    if (error) return;
    std::ranges::sort(there);
    {
        const std::lock_guard lock(mutex_);
        std::vector<SegmentPtr> gone;
        for (const auto& [name, segment] : set_.all())
            if (!segment->own &&
                !std::ranges::binary_search(there, segment->path, {}, &std::pair<fs::path, int64_t>::first))
                gone.push_back(segment);
        for (const SegmentPtr& segment : gone) set_.erase(segment);
    }
    for (const auto& [path, last_used] : there) look_at(path, last_used);
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
    const FileDescriptor file(io_->open(path.c_str(), O_RDWR, 0));
    if (file.get() < 0) return;
    const bool abandoned = ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
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

// Deletes what has expired, of all models if `others`, and counts what other models have.
void FileStore::clean(bool others) {
    const int64_t time = now();
    std::vector<OtherFile> found;
    if (others) {
        std::error_code error;
        for (fs::recursive_directory_iterator file(options_.folder, error), end; !error && file != end;
             file.increment(error)) {
            struct stat status{};
            const auto retention = class_of(file->path().filename());
            if (!retention || file->path().parent_path() == folder_ ||
                ::stat(file->path().c_str(), &status) != 0)
                continue;
            if (status.st_mtime + kv::lifetime(*retention).count() < time)
                io_->unlink(file->path().c_str());
            else
                found.push_back({file->path(), *retention, status.st_size, status.st_mtime});
        }
    }
    std::vector<SegmentPtr> expired;
    {
        const std::lock_guard lock(mutex_);
        if (others) set_.others = std::move(found);
        expired = set_.expired(time);
        for (const SegmentPtr& segment : expired) {
            for (const int64_t used : segment->used) stats_.expired_total += used != 0;
            set_.erase(segment);
        }
    }
    for (const SegmentPtr& segment : expired) io_->unlink(segment->path.c_str());
}

// ---- writing

// Deletes the least worth until so many bytes more fit into the budget. False if they cannot.
bool FileStore::make_room(int64_t bytes) {
    for (;;) {
        SegmentSet::Victim victim;
        fs::path path;
        {
            const std::lock_guard lock(mutex_);
            if (set_.bytes() + bytes <= static_cast<int64_t>(options_.budget_bytes)) return true;
            victim = set_.least_worth(now());
            if (victim.other) {
                path = set_.others[*victim.other].path;
                set_.others.erase(set_.others.begin() + static_cast<std::ptrdiff_t>(*victim.other));
            }
        }
        if (!victim.segment && path.empty()) return false;
        if (victim.segment) {
            path = victim.segment->path;
            keep_the_best_of(victim);
        }
        io_->unlink(path.c_str());
    }
}

// Its blocks that are worth more than the segment that would go next are appended again, a fifth of it at most.
void FileStore::keep_the_best_of(const SegmentSet::Victim& victim) {
    const Segment& segment = *victim.segment;
    std::vector<size_t> best;
    const int64_t time = now();
    std::vector<int64_t> used;
    {
        const std::lock_guard lock(mutex_);
        used = segment.used;
        for (size_t i = 0; i < segment.entries.size(); ++i)
            if (set_.worth(segment.entries[i], used[i], time) > victim.next_worth) best.push_back(i);
    }
    std::ranges::sort(best, std::greater(),
                      [&](size_t i) { return set_.worth(segment.entries[i], used[i], time); });
    best.resize(std::min(best.size(), segment.entries.size() / 5));
    std::ranges::sort(best);
    struct Kept {
        Put put;
        std::vector<uint8_t> bytes;
    };
    std::vector<Kept> kept;
    const FileDescriptor file(best.empty() ? -1 : io_->open(segment.path.c_str(), O_RDONLY, 0));
    for (const size_t i : best) {
        std::vector<uint8_t> header(static_cast<size_t>(page_bytes)), bytes(options_.shape.block_bytes);
        std::array<iovec, 2> parts{{{header.data(), header.size()}, {bytes.data(), bytes.size()}}};
        if (file.get() < 0 || !read_all(*io_, file.get(), parts, record_offset(options_.shape, i))) break;
        const Result<RecordInfo> info = decode_record(options_.shape, header);
        if (!info || !bytes_intact(options_.shape, header, bytes)) continue;
        kept.push_back({{info->key,
                         info->parent,
                         info->index,
                         info->tokens,
                         info->seconds,
                         info->retention,
                         info->tenant,
                         {},
                         Put::Outcome::failed},
                        std::move(bytes)});
    }
    {
        const std::lock_guard lock(mutex_);
        for (const int64_t u : used) stats_.evicted_total += u != 0;
        stats_.evicted_total -= kept.size();
        set_.erase(victim.segment);
    }
    Writing& writing = writing_of(segment.retention);
    for (Kept& k : kept) {
        k.put.bytes = k.bytes;
        if (!writing.segment || !append(writing, k.put, time)) break;
    }
    commit(writing);
}

// Somebody has deleted the file that is being written: nobody will find what is in it.
void FileStore::drop_deleted(Writing& w) {
    struct stat status{};
    if (!w.segment || ::fstat(w.file.get(), &status) != 0 || status.st_nlink > 0) return;
    for (Put* put : std::exchange(w.pending, {})) put->outcome = Put::Outcome::failed;
    w.file = FileDescriptor(-1);
    const std::lock_guard lock(mutex_);
    w.segment->own = false;
    set_.erase(std::exchange(w.segment, nullptr));
}

// A segment of the class with room for one more record.
bool FileStore::ready_to_write(Writing& w, kv::Retention retention) {
    if (w.segment && record_offset(options_.shape, w.records + 1) + 2 * page_bytes > options_.segment_bytes) {
        if (!commit(w)) return false;
        close(w);
    }
    drop_deleted(w);
    if (w.segment) return true;
    const fs::path path = folder_ / (std::string(to_string(retention)) + "-" + writer_ + "-" +
                                     std::to_string(next_segment_++) + std::string(suffix));
    const mode_t mode = options_.others_read ? 0644 : 0600;
    int descriptor = io_->open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, mode);
    if (descriptor < 0 && errno == ENOENT && !make_folder())
        descriptor = io_->open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, mode);
    if (descriptor < 0) return false;
    w.file = FileDescriptor(descriptor);
    ::flock(descriptor, LOCK_EX | LOCK_NB);  // where there are no locks, nobody takes it over
    auto page = segment_header(options_.shape, retention);
    iovec part{page.data(), page.size()};
    if (!write_all(*io_, descriptor, {&part, 1}, 0) ||
        (options_.sync && io_->sync_folder(folder_.c_str()) != 0)) {
        io_->unlink(path.c_str());
        return false;
    }
    w.records = w.durable = 0;
    w.segment = std::make_shared<Segment>();
    w.segment->path = path;
    w.segment->retention = retention;
    w.segment->bytes = page_bytes;
    w.segment->last_used = now();
    w.segment->own = true;
    const std::lock_guard lock(mutex_);
    set_.insert(w.segment);
    return true;
}

// Writes a record behind those that are there. It is stored, but not found before commit(), which may take that back.
bool FileStore::append(Writing& w, Put& put, int64_t created) {
    std::vector<uint8_t> header(static_cast<size_t>(page_bytes));
    const std::vector<uint8_t> padding(static_cast<size_t>(stride_ - page_bytes) -
                                       options_.shape.block_bytes);
    encode_record(options_.shape, put, created, header);
    std::array<iovec, 3> parts{{{header.data(), header.size()},
                                {const_cast<uint8_t*>(put.bytes.data()), put.bytes.size()},
                                {const_cast<uint8_t*>(padding.data()), padding.size()}}};
    if (!write_all(*io_, w.file.get(), std::span(parts).first(padding.empty() ? 2 : 3),
                   record_offset(options_.shape, w.records)))
        return false;
    put.outcome = Put::Outcome::stored;
    w.pending.push_back(&put);
    const std::lock_guard lock(mutex_);
    w.segment->entries.resize(w.records);
    w.segment->entries.push_back({put.key, put.parent, put.index, put.seconds, put.tenant, created});
    ++w.records;
    w.segment->bytes = record_offset(options_.shape, w.records);
    return true;
}

// Makes what was appended durable, then visible. False: none of it is, and never will be.
bool FileStore::commit(Writing& w) {
    if (!w.segment || w.durable == w.records) return true;
    const bool good = !options_.sync || io_->fdatasync(w.file.get()) == 0;
    {
        const std::lock_guard lock(mutex_);
        if (good) {
            const int64_t time = now();
            for (size_t i = w.durable; i < w.records; ++i) set_.add(w.segment, i, time);
        } else {
            w.segment->entries.resize(w.durable);
        }
    }
    const std::vector<Put*> pending = std::exchange(w.pending, {});
    if (good) {
        w.durable = w.records;
        return true;
    }
    for (Put* put : pending) put->outcome = Put::Outcome::failed;
    // After a failed fdatasync nothing is known of what was written: sealing cuts it off, and the segment ends here.
    w.records = w.durable;
    close(w);
    return false;
}

void FileStore::close(Writing& w) {
    if (!w.segment) return;
    const SegmentPtr segment = std::exchange(w.segment, nullptr);
    bool sealed = false, keep = w.durable > 0;
    if (keep)
        sealed =
            seal_segment(*io_, w.file.get(), options_.shape, std::span(segment->entries).first(w.durable))
                .ok();
    else
        io_->unlink(segment->path.c_str());
    w.file = FileDescriptor(-1);
    const std::lock_guard lock(mutex_);
    segment->own = false;
    segment->sealed = sealed;
    segment->last_used = now();
    if (sealed) segment->bytes = sealed_bytes(options_.shape, w.durable);
    if (!keep) set_.erase(segment);
}

void FileStore::put(std::span<Put> items, Clock::time_point deadline) {
    if (Clock::now() - cleaned_ > cleaning_interval) {
        cleaned_ = Clock::now();
        look();  // others may have deleted what is believed to be here
        clean(true);
    }
    const int64_t time = now();
    for (Put& item : items) {
        item.outcome = Put::Outcome::failed;
        if (item.retention == kv::Retention::none || item.bytes.size() != options_.shape.block_bytes)
            continue;
        if (Clock::now() >= deadline) {
            item.outcome = Put::Outcome::late;
            continue;
        }
        {
            const std::lock_guard lock(mutex_);
            if (const SegmentSet::Place* place = set_.find(item.key)) {
                set_.touch(*place, time);
                item.outcome = Put::Outcome::present;
                continue;
            }
            if (const auto stride = static_cast<uint64_t>(stride_); options_.tenant_bytes > 0) {
                if (stride > options_.tenant_bytes) {
                    item.outcome = Put::Outcome::no_room;
                    continue;
                }
                make_tenant_room(item.tenant, stride);
            }
        }
        if (!make_room(stride_ + 2 * page_bytes)) {
            item.outcome = Put::Outcome::no_room;
            const std::lock_guard lock(mutex_);
            stats_.problem =
                "a block has " + std::to_string(stride_) + " bytes, and there is no room for one";
            continue;
        }
        Writing& writing = writing_of(item.retention);
        if (!ready_to_write(writing, item.retention) || !append(writing, item, time)) {
            const int why = errno;
            item.outcome = why == ENOSPC || why == EDQUOT ? Put::Outcome::no_room : Put::Outcome::failed;
            const std::lock_guard lock(mutex_);
            stats_.problem = std::generic_category().message(why);
        }
    }
    for (Writing& writing : writing_) commit(writing);
    for (const Put& item : items) count(item);
}

void FileStore::count(const Put& put) {
    const std::lock_guard lock(mutex_);
    if (put.outcome == Put::Outcome::stored) {
        ++stats_.stored_total;
        stats_.stored_bytes_total += put.bytes.size();
    } else if (put.outcome != Put::Outcome::present) {
        ++stats_.not_stored_total;
    }
}

StoreStats FileStore::stats() const {
    const std::lock_guard lock(mutex_);
    StoreStats stats = stats_;
    stats.blocks = set_.blocks();
    stats.bytes = static_cast<uint64_t>(set_.bytes());
    stats.budget_bytes = options_.budget_bytes;
    return stats;
}

}  // namespace

Result<std::unique_ptr<BlockStore>> open_file_store(const FileStoreOptions& options) {
    if (Status status = check_shape(options.shape); !status) return status.error();
    auto store = std::make_unique<FileStore>(options);
    if (Status status = store->open(); !status) return status.error();
    return std::unique_ptr<BlockStore>(std::move(store));
}

}  // namespace deepinfer::store
