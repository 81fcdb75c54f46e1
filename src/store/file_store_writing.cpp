// The writing half of FileStore: appending, making durable, evicting.
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "store/file_store_impl.h"

namespace deepinfer::store {

namespace {

namespace fs = std::filesystem;

constexpr auto cleaning_interval = std::chrono::seconds(60);
constexpr int most_tries = 4;  // to make a file that nobody else has locked

bool disk_is_full(int error) { return error == ENOSPC || error == EDQUOT; }

}  // namespace

// Deletes the least worth until so many bytes more fit into the budget. False if they cannot.
bool FileStore::make_room(int64_t bytes) {
    for (;;) {
        {
            const std::lock_guard lock(mutex_);
            if (set_.bytes() + bytes <= static_cast<int64_t>(options_.budget_bytes)) return true;
        }
        if (!evict(true)) return false;
    }
}

// Deletes the segment or other file that is the least worth; with `keep_best`, not what is good in it. False: there is none.
bool FileStore::evict(bool keep_best) {
    SegmentSet::Victim victim;
    fs::path path;
    for (;;) {
        {
            const std::lock_guard lock(mutex_);
            victim = set_.least_worth(now());
            if (!victim.other) break;
            path = set_.others[*victim.other].path;
        }
        const bool used = in_use(path);
        const std::lock_guard lock(mutex_);
        set_.others[*victim.other].in_use = used;
        if (used) continue;
        set_.others.erase(set_.others.begin() + static_cast<std::ptrdiff_t>(*victim.other));
        break;
    }
    if (!victim.segment && !victim.other) return false;
    if (victim.segment) {
        path = victim.segment->path;
        forget(victim, keep_best ? best_of(victim) : std::vector<size_t>());
    }
    io_->unlink(path.c_str());
    return true;
}

// Its records that are worth more than the segment that would go next, a fifth of it at most, in order.
std::vector<size_t> FileStore::best_of(const SegmentSet::Victim& victim) const {
    const Segment& segment = *victim.segment;
    std::vector<size_t> best;
    const int64_t time = now();
    const std::lock_guard lock(mutex_);
    const auto worth = [&](size_t i) { return set_.worth(segment.entries[i], segment.used[i], time); };
    for (size_t i = 0; i < segment.entries.size(); ++i)
        if (worth(i) > victim.next_worth) best.push_back(i);
    std::ranges::sort(best, std::greater(), worth);
    best.resize(std::min(best.size(), segment.entries.size() / 5));
    std::ranges::sort(best);
    return best;
}

// Nothing of the segment is found any more; its records `best` are appended again first.
void FileStore::forget(const SegmentSet::Victim& victim, std::span<const size_t> best) {
    const Segment& segment = *victim.segment;
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
        for (const int64_t used : segment.used) stats_.evicted_total += used != 0;
        set_.erase(victim.segment);
    }
    Writing& writing = writing_of(segment.retention);
    uint64_t again = 0;
    for (Kept& k : kept) {
        k.put.bytes = k.bytes;
        if (!ready_to_write(writing, segment.retention) || !append(writing, k.put, now())) break;
        ++again;
    }
    if (!commit(writing)) return;
    const std::lock_guard lock(mutex_);
    stats_.evicted_total -= again;
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

// A new file with this writer's lock on it; none if somebody else looked at it before it was locked, which may have cost it its name.
bool FileStore::make_file(Writing& w, const fs::path& path) {
    const mode_t mode = options_.others_read ? 0666 : 0600;
    int descriptor = io_->open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, mode);
    if (descriptor < 0 && errno == ENOENT && !make_folder())
        descriptor = io_->open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, mode);
    if (descriptor < 0) return false;
    FileDescriptor file(descriptor);
    struct stat status{};
    // Where there are no locks, nobody takes it over.
    const bool taken = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (taken)
        io_->unlink(path.c_str());
    else if (::fstat(descriptor, &status) == 0 && status.st_nlink > 0)
        w.file = std::move(file);
    return true;
}

// A segment of the class with room for one more record.
bool FileStore::ready_to_write(Writing& w, kv::Retention retention) {
    if (w.segment && record_offset(options_.shape, w.records + 1) + 2 * page_bytes > options_.segment_bytes) {
        if (!commit(w)) return false;
        close(w);
    }
    drop_deleted(w);
    if (w.segment) return true;
    fs::path path;
    for (int tries = 0; w.file.get() < 0; ++tries) {
        path = folder_ / (std::string(to_string(retention)) + "-" + writer_ + "-" +
                          std::to_string(next_segment_++) + std::string(segment_suffix));
        if (!make_file(w, path) || tries == most_tries) return false;
    }
    auto page = segment_header(options_.shape, retention);
    iovec part{page.data(), page.size()};
    if (!write_all(*io_, w.file.get(), {&part, 1}, 0) ||
        (options_.sync && io_->sync_folder(folder_.c_str()) != 0)) {
        const int why = errno;
        io_->unlink(path.c_str());
        w.file = FileDescriptor(-1);
        errno = why;
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
    const int64_t time = now();
    if (keep) {
        sealed =
            seal_segment(*io_, w.file.get(), options_.shape, std::span(segment->entries).first(w.durable))
                .ok();
        io_->set_used(w.file.get(), time);
    } else {
        io_->unlink(segment->path.c_str());
    }
    w.file = FileDescriptor(-1);
    const std::lock_guard lock(mutex_);
    segment->own = false;
    segment->sealed = sealed;
    segment->last_used = time;
    if (sealed) segment->bytes = sealed_bytes(options_.shape, w.durable);
    if (!keep) set_.erase(segment);
}

// Returns errno, 0 if it is written.
int FileStore::write(Put& item, int64_t time) {
    Writing& writing = writing_of(item.retention);
    const auto attempt = [&] {
        errno = 0;
        const bool good = ready_to_write(writing, item.retention) && append(writing, item, time);
        return good ? 0 : errno != 0 ? errno : EIO;
    };
    const int error = attempt();
    // Somebody else has filled the disk below the budget: the newest is better there than the oldest. If that does not help, our
    // files shrink by one a minute.
    if (!disk_is_full(error) || Clock::now() < shrinks_again_ || !evict(false)) return error;
    const int again = attempt();
    if (again != 0) shrinks_again_ = Clock::now() + cleaning_interval;
    return again;
}

void FileStore::put(std::span<Put> items, Clock::time_point deadline) {
    if (Clock::now() - cleaned_ > cleaning_interval) {
        cleaned_ = Clock::now();
        look(deadline, true);  // others may have deleted what is believed to be here
        clean();
    }
    const int64_t time = now();
    std::vector<kv::BlockKey> present;
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
            if (set_.find(item.key)) {
                present.push_back(item.key);
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
        if (const int error = write(item, time); error != 0) {
            item.outcome = disk_is_full(error) ? Put::Outcome::no_room : Put::Outcome::failed;
            const std::lock_guard lock(mutex_);
            stats_.problem = std::generic_category().message(error);
        }
    }
    for (Writing& writing : writing_) commit(writing);
    touch(present, deadline);
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

}  // namespace deepinfer::store
