#include "store/redis_store.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <ctime>
#include <mutex>
#include <unordered_map>

#include "store/block_record.h"
#include "store/redis_cluster.h"

namespace deepinfer::store {

namespace {

constexpr size_t keys_at_once = 256;                     // of a look-up
constexpr size_t most_bytes_at_once = size_t{32} << 20;  // of blocks on their way
constexpr size_t more_reply_bytes = size_t{16} << 20;    // than a record has: a slot map, rounded up
constexpr size_t most_known = 1 << 17;                   // blocks whose class and last use are remembered

class RedisStore final : public BlockStore {
  public:
    explicit RedisStore(const RedisStoreOptions& options)
        : options_(options),
          prefix_("deepinfer:" + std::to_string(record_version) + ":"),
          record_bytes_(record_header_bytes(options.shape) + options.shape.block_bytes),
          at_once_(std::max<size_t>(most_bytes_at_once / record_bytes_, 1)),
          reading_(options.address, options.connect_seconds, record_bytes_ + more_reply_bytes),
          writing_(options.address, options.connect_seconds, record_bytes_ + more_reply_bytes) {}

    std::string name() const override { return options_.name; }
    size_t find(std::span<const kv::BlockKey> keys, Clock::time_point deadline) override;
    void get(std::span<Get> items, Clock::time_point deadline) override;
    void put(std::span<Put> items, Clock::time_point deadline) override;
    void touch(std::span<const kv::BlockKey> keys, Clock::time_point deadline) override;
    StoreStats stats() const override {
        const std::lock_guard lock(mutex_);
        return stats_;
    }

  private:
    struct Known {
        kv::Retention retention = kv::Retention::chat;
        int64_t used = 0;
    };

    std::string name_of(const kv::BlockKey& key) const { return prefix_ + key.hex(); }
    bool get_some(std::span<Get> items, Clock::time_point deadline);
    void put_some(std::span<Put> items, Clock::time_point deadline);
    Get::Outcome take(const Get& item, const redisReply* reply, Clock::time_point deadline);
    void note_problem(const RedisRouter& router, const redisReply* reply) {
        std::string problem = reply && reply->type == REDIS_REPLY_ERROR ? std::string(reply->str, reply->len)
                                                                        : router.problem();
        const std::lock_guard lock(mutex_);
        if (!problem.empty()) stats_.problem = std::move(problem);
    }
    void note_failure(const RedisRouter& router, const redisReply* reply) {
        note_problem(router, reply);
        const std::lock_guard lock(mutex_);
        ++stats_.failed_total;
    }
    // The class that the server has the block in; `used`: when its time to live began, 0 if that is not known.
    void remember(const kv::BlockKey& key, kv::Retention retention, int64_t used) {
        const std::lock_guard lock(mutex_);
        if (known_.size() >= most_known) known_.clear();
        Known& known = known_[key];
        known = {retention, std::max(known.used, used)};
    }
    void renew_present(std::span<const Put> items, Clock::time_point deadline);

    const RedisStoreOptions options_;
    const std::string prefix_;
    const size_t record_bytes_, at_once_;
    RedisRouter reading_, writing_;  // a thread's each

    mutable std::mutex mutex_;  // of these
    std::unordered_map<kv::BlockKey, Known, kv::BlockKeyHash> known_;
    StoreStats stats_;
};

size_t RedisStore::find(std::span<const kv::BlockKey> keys, Clock::time_point deadline) {
    for (size_t first = 0; first < keys.size(); first += keys_at_once) {
        const auto some = keys.subspan(first, std::min(keys_at_once, keys.size() - first));
        std::vector<std::string> names;
        for (const kv::BlockKey& key : some) names.push_back(name_of(key));
        std::vector<RedisCommand> commands;
        commands.reserve(names.size());
        for (const std::string& name : names) commands.push_back({"EXISTS", name});
        const std::vector<RedisReply> replies = reading_.run(commands, deadline);
        for (size_t i = 0; i < replies.size(); ++i) {
            if (!replies[i] || replies[i]->type != REDIS_REPLY_INTEGER) {
                note_failure(reading_, replies[i].get());
                return first + i;
            }
            if (replies[i]->integer != 1) return first + i;
        }
    }
    return keys.size();
}

void RedisStore::get(std::span<Get> items, Clock::time_point deadline) {
    for (Get& item : items) item.outcome = Get::Outcome::late;
    for (size_t first = 0; first < items.size(); first += at_once_)
        if (!get_some(items.subspan(first, std::min(at_once_, items.size() - first)), deadline)) return;
}

// False if one was not ok.
bool RedisStore::get_some(std::span<Get> items, Clock::time_point deadline) {
    if (Clock::now() >= deadline) return false;
    std::vector<std::string> names;
    for (const Get& item : items) names.push_back(name_of(item.key));
    std::vector<RedisCommand> commands;
    commands.reserve(names.size());
    for (const std::string& name : names) commands.push_back({"GET", name});
    const std::vector<RedisReply> replies = reading_.run(commands, deadline);
    for (size_t i = 0; i < items.size(); ++i) {
        items[i].outcome = take(items[i], replies[i].get(), deadline);
        const std::lock_guard lock(mutex_);
        switch (items[i].outcome) {
            case Get::Outcome::ok:
                ++stats_.read_total, stats_.read_bytes_total += items[i].bytes.size();
                continue;
            case Get::Outcome::missing:
                ++stats_.missing_total;
                return false;
            case Get::Outcome::damaged:
                ++stats_.damaged_total;
                return false;
            case Get::Outcome::failed:
                ++stats_.failed_total;
                return false;
            case Get::Outcome::late:
                return false;
        }
    }
    return true;
}

Get::Outcome RedisStore::take(const Get& item, const redisReply* reply, Clock::time_point deadline) {
    if (!reply) return Clock::now() >= deadline ? Get::Outcome::late : Get::Outcome::failed;
    if (reply->type == REDIS_REPLY_NIL) return Get::Outcome::missing;
    if (reply->type != REDIS_REPLY_STRING) return Get::Outcome::failed;
    const std::span record(reinterpret_cast<const uint8_t*>(reply->str), reply->len);
    const size_t header = record_header_bytes(options_.shape);
    if (record.size() == record_bytes_) {
        std::ranges::copy(record.subspan(header), item.bytes.begin());
        if (judge_record(options_.shape, record.first(header), item) == Get::Outcome::ok) {
            remember(item.key, decode_record(options_.shape, record.first(header))->retention, 0);
            return Get::Outcome::ok;
        }
    }
    const std::string name = name_of(item.key);
    const std::vector<RedisCommand> forget{{"DEL", name}};
    reading_.run(forget, Clock::now() + std::chrono::milliseconds(100));
    return Get::Outcome::damaged;
}

void RedisStore::put(std::span<Put> items, Clock::time_point deadline) {
    for (size_t first = 0; first < items.size(); first += at_once_)
        put_some(items.subspan(first, std::min(at_once_, items.size() - first)), deadline);
    const std::lock_guard lock(mutex_);
    for (const Put& item : items) {
        if (item.outcome == Put::Outcome::stored)
            ++stats_.stored_total, stats_.stored_bytes_total += item.bytes.size();
        else if (item.outcome != Put::Outcome::present)
            ++stats_.not_stored_total;
    }
}

void RedisStore::put_some(std::span<Put> items, Clock::time_point deadline) {
    std::vector<std::string> names, records, lifetimes;
    std::vector<size_t> sent;
    for (size_t i = 0; i < items.size(); ++i) {
        Put& item = items[i];
        item.outcome = Clock::now() >= deadline ? Put::Outcome::late : Put::Outcome::failed;
        if (item.outcome == Put::Outcome::late || item.retention == kv::Retention::none ||
            item.bytes.size() != options_.shape.block_bytes)
            continue;
        names.push_back(name_of(item.key));
        std::string record(record_bytes_, '\0');
        const std::span bytes(reinterpret_cast<uint8_t*>(record.data()), record.size());
        encode_record(options_.shape, item, std::time(nullptr), bytes);
        std::ranges::copy(item.bytes,
                          bytes.begin() + static_cast<std::ptrdiff_t>(record_header_bytes(options_.shape)));
        records.push_back(std::move(record));
        lifetimes.push_back(std::to_string(kv::lifetime(item.retention).count()));
        sent.push_back(i);
    }
    std::vector<RedisCommand> commands;
    commands.reserve(sent.size());
    for (size_t k = 0; k < sent.size(); ++k)
        commands.push_back({"SET", names[k], records[k], "NX", "EX", lifetimes[k]});
    const std::vector<RedisReply> replies = writing_.run(commands, deadline);
    for (size_t k = 0; k < sent.size(); ++k) {
        Put& item = items[sent[k]];
        const redisReply* reply = replies[k].get();
        if (!reply || reply->type == REDIS_REPLY_ERROR) note_problem(writing_, reply);
        if (!reply) continue;
        const std::string_view said(reply->str ? reply->str : "", reply->str ? reply->len : 0);
        item.outcome = reply->type == REDIS_REPLY_STATUS ? Put::Outcome::stored
                       : reply->type == REDIS_REPLY_NIL  ? Put::Outcome::present
                       : said.starts_with("OOM")         ? Put::Outcome::no_room
                                                         : Put::Outcome::failed;
        if (item.outcome == Put::Outcome::stored) remember(item.key, item.retention, std::time(nullptr));
    }
    renew_present(items, deadline);
}

// What was there already was computed anew, so it is in use. Its class is not known, so that its life must not become shorter (GT:
// Redis 7; older servers refuse it, and it ends with its time).
void RedisStore::renew_present(std::span<const Put> items, Clock::time_point deadline) {
    std::vector<std::string> names, lifetimes;
    for (const Put& item : items) {
        if (item.outcome != Put::Outcome::present) continue;
        names.push_back(name_of(item.key));
        lifetimes.push_back(std::to_string(kv::lifetime(item.retention).count()));
    }
    std::vector<RedisCommand> commands;
    commands.reserve(names.size());
    for (size_t i = 0; i < names.size(); ++i) commands.push_back({"EXPIRE", names[i], lifetimes[i], "GT"});
    if (!commands.empty()) writing_.run(commands, deadline);
}

// Only of blocks that this process has read or written: it knows their classes.
void RedisStore::touch(std::span<const kv::BlockKey> keys, Clock::time_point deadline) {
    std::vector<std::string> names, lifetimes;
    const int64_t now = std::time(nullptr);
    {
        const std::lock_guard lock(mutex_);
        for (const kv::BlockKey& key : keys) {
            const auto found = known_.find(key);
            if (found == known_.end()) continue;
            const int64_t lifetime = kv::lifetime(found->second.retention).count();
            if (now - found->second.used < lifetime / 8) continue;
            found->second.used = now;
            names.push_back(name_of(key));
            lifetimes.push_back(std::to_string(lifetime));
        }
    }
    std::vector<RedisCommand> commands;
    commands.reserve(names.size());
    for (size_t i = 0; i < names.size(); ++i) commands.push_back({"EXPIRE", names[i], lifetimes[i]});
    if (!commands.empty()) reading_.run(commands, deadline);
}

}  // namespace

Result<std::unique_ptr<BlockStore>> open_redis_store(const RedisStoreOptions& options) {
    if (Status status = check_shape(options.shape); !status) return status.error();
    return std::unique_ptr<BlockStore>(std::make_unique<RedisStore>(options));
}

}  // namespace deepinfer::store
