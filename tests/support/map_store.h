// A store of blocks in a map, for tests of what uses stores: it can be slow, and fail. Left alone it does what every store must
// (tests/store/map_store_test.cpp), but for lifetimes.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "store/block_store.h"

namespace deepinfer::store {

// Several stores may share one, as processes share a server.
struct MapStoreContents {
    struct Block {
        std::vector<TokenId> tokens;
        std::vector<uint8_t> bytes;
    };
    std::mutex mutex;
    std::map<kv::BlockKey, Block> blocks;
    std::atomic<int64_t> delay_us{0};     // of every call
    std::atomic<bool> hangs{false};       // calls wait as long as this is so
    std::atomic<int32_t> fail_gets{0};    // of a thousand blocks
    std::atomic<int32_t> fail_puts{0};    // of a thousand blocks
    std::atomic<int32_t> damage_gets{0};  // of a thousand blocks: reported as damaged, with other bytes
    std::atomic<int64_t> puts{0}, gets{0}, touches{0}, finds{0};
};

class MapStore final : public BlockStore {
  public:
    explicit MapStore(std::shared_ptr<MapStoreContents> contents, std::string name = "map")
        : c_(std::move(contents)), name_(std::move(name)) {}

    std::string name() const override { return name_; }
    size_t find(std::span<const kv::BlockKey> keys, Clock::time_point deadline) override {
        hang();
        wait(deadline);
        ++c_->finds;
        std::lock_guard lock(c_->mutex);
        size_t n = 0;
        while (n < keys.size() && c_->blocks.contains(keys[n])) ++n;
        return n;
    }
    void get(std::span<Get> items, Clock::time_point deadline) override {
        hang();
        bool stopped = false;
        for (Get& item : items) {
            item.outcome = Get::Outcome::late;
            if (stopped || Clock::now() >= deadline) continue;
            wait(deadline);
            ++c_->gets;
            item.outcome = get_one(item);
            stopped = item.outcome != Get::Outcome::ok;
        }
    }
    void put(std::span<Put> items, Clock::time_point deadline) override {
        hang();
        for (Put& item : items) {
            item.outcome = Put::Outcome::late;
            if (Clock::now() >= deadline) continue;
            wait(deadline);
            ++c_->puts;
            std::lock_guard lock(c_->mutex);
            if (chance(c_->fail_puts)) {
                item.outcome = Put::Outcome::failed;
                ++stats_.not_stored_total;
                continue;
            }
            const auto [place, fresh] = c_->blocks.try_emplace(item.key);
            item.outcome = fresh ? Put::Outcome::stored : Put::Outcome::present;
            if (!fresh) continue;
            ++stats_.stored_total;
            place->second = {{item.tokens.begin(), item.tokens.end()},
                             {item.bytes.begin(), item.bytes.end()}};
        }
    }
    void touch(std::span<const kv::BlockKey> keys, Clock::time_point) override {
        c_->touches += static_cast<int64_t>(keys.size());
    }
    StoreStats stats() const override {
        std::lock_guard lock(c_->mutex);
        StoreStats stats = stats_;
        stats.blocks = c_->blocks.size();
        return stats;
    }

  private:
    Get::Outcome get_one(Get& item) {
        std::lock_guard lock(c_->mutex);
        const auto found = c_->blocks.find(item.key);
        if (found == c_->blocks.end()) return ++stats_.missing_total, Get::Outcome::missing;
        if (chance(c_->fail_gets)) return ++stats_.failed_total, Get::Outcome::failed;
        if (chance(c_->damage_gets) || !std::ranges::equal(found->second.tokens, item.tokens)) {
            std::ranges::fill(item.bytes, uint8_t{0xEE});
            c_->blocks.erase(found);
            return ++stats_.damaged_total, Get::Outcome::damaged;
        }
        std::ranges::copy(found->second.bytes, item.bytes.begin());
        ++stats_.read_total;
        stats_.read_bytes_total += item.bytes.size();
        return Get::Outcome::ok;
    }
    void wait(Clock::time_point deadline) const {
        if (const auto us = c_->delay_us.load(); us > 0)
            std::this_thread::sleep_until(std::min(deadline, Clock::now() + std::chrono::microseconds(us)));
    }
    void hang() const {
        while (c_->hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    // Pseudo-random, the same in every run.
    bool chance(int32_t of_a_thousand) {
        state_ = state_ * 1664525 + 1013904223;
        return static_cast<int32_t>((state_ >> 8) % 1000) < of_a_thousand;
    }

    std::shared_ptr<MapStoreContents> c_;
    const std::string name_;
    StoreStats stats_;  // under the contents' mutex
    uint32_t state_ = 1;
};

}  // namespace deepinfer::store
