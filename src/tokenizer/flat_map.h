// Open-addressing hash tables for the tokenizer's hot look-ups: built once, then only read.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace deepinfer::tokenizer {

inline uint64_t mix_hash(uint64_t value) {
    value *= 0x9E3779B97F4A7C15u;
    value ^= value >> 32;
    value *= 0xD6E8FEB86659FD93u;
    return value ^ value >> 29;
}

inline uint64_t hash_bytes(std::string_view bytes) {
    uint64_t hash = bytes.size();
    const char* p = bytes.data();
    size_t left = bytes.size();
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t word;
        std::memcpy(&word, p, 8);
        hash = mix_hash(hash ^ word);
    }
    uint64_t word = 0;
    for (size_t i = 0; i < left; ++i) word |= uint64_t(uint8_t(p[i])) << (8 * i);
    return mix_hash(hash ^ word);
}

// uint64 -> Value; the key ~0 is reserved.
template <class Value>
class FlatMap64 {
  public:
    static constexpr uint64_t kEmpty = ~uint64_t{0};

    explicit FlatMap64(size_t expected = 0) { rehash(expected); }

    // Later values replace earlier ones.
    void set(uint64_t key, Value value) {
        if ((size_ + 1) * 5 > slots_.size() * 3) rehash(slots_.size());
        Slot& slot = slots_[index_of(key)];
        if (slot.key == kEmpty) ++size_;
        slot = {key, value};
    }
    const Value* find(uint64_t key) const {
        const Slot& slot = slots_[index_of(key)];
        return slot.key == kEmpty ? nullptr : &slot.value;
    }
    size_t size() const { return size_; }

  private:
    struct Slot {
        uint64_t key = kEmpty;
        Value value{};
    };
    size_t index_of(uint64_t key) const {
        const size_t mask = slots_.size() - 1;
        size_t i = mix_hash(key) & mask;
        while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask;
        return i;
    }
    void rehash(size_t expected) {
        std::vector<Slot> old = std::move(slots_);
        slots_.assign(std::bit_ceil(expected * 5 / 3 + 8), Slot{});
        for (const Slot& slot : old) {
            if (slot.key != kEmpty) slots_[index_of(slot.key)] = slot;
        }
    }
    std::vector<Slot> slots_;
    size_t size_ = 0;
};

// Byte string -> id. The strings live elsewhere (an arena that outlives the map).
class StringMap {
  public:
    explicit StringMap(size_t expected = 0) { rehash(expected); }

    // The first id of a string stays; returns false if there was one.
    bool insert(std::string_view key, TokenId id) {
        if ((size_ + 1) * 5 > slots_.size() * 3) rehash(slots_.size());
        Slot& slot = slots_[index_of(key)];
        if (slot.id >= 0) return false;
        slot = {key, id};
        ++size_;
        return true;
    }
    // -1 if the string is not there.
    TokenId find(std::string_view key) const { return slots_[index_of(key)].id; }
    size_t size() const { return size_; }

  private:
    struct Slot {
        std::string_view key;
        TokenId id = -1;
    };
    size_t index_of(std::string_view key) const {
        const size_t mask = slots_.size() - 1;
        size_t i = hash_bytes(key) & mask;
        while (slots_[i].id >= 0 && slots_[i].key != key) i = (i + 1) & mask;
        return i;
    }
    void rehash(size_t expected) {
        std::vector<Slot> old = std::move(slots_);
        slots_.assign(std::bit_ceil(expected * 5 / 3 + 8), Slot{});
        for (const Slot& slot : old) {
            if (slot.id >= 0) slots_[index_of(slot.key)] = slot;
        }
    }
    std::vector<Slot> slots_;
    size_t size_ = 0;
};

}  // namespace deepinfer::tokenizer
