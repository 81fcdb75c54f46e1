// Where a long word can be cut before byte-pair encoding without changing the result: between two bytes that no merge can ever
// join. A merge that crosses a border has a left part that ends there and a right part that begins there; the filter knows, of
// every merge, the bytes next to its border. It may say "perhaps" of borders that no merge crosses, never the reverse.
//
// Text in scripts without spaces comes as words of any length, and most neighbours in it are part of no token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/flat_map.h"

namespace deepinfer::tokenizer {

class BorderFilter {
  public:
    // Both are bytes, not empty.
    void add_merge(std::string_view left, std::string_view right) {
        if (bits_.empty()) bits_.resize(kBits / 64);
        const bool one = left.size() == 1, other = right.size() == 1;
        set(key(one ? 0 : left[left.size() - 2], left.back(), right[0], other ? 0 : right[1], one, other));
    }

    // Whether a merge may join text[at - 1] and text[at]. 0 < at < text.size().
    bool may_merge(std::string_view text, size_t at) const {
        const char a = at >= 2 ? text[at - 2] : 0, b = text[at - 1], c = text[at];
        const char d = at + 1 < text.size() ? text[at + 1] : 0;
        const bool has_a = at >= 2, has_d = at + 1 < text.size();
        return get(key(0, b, c, 0, true, true)) || (has_a && has_d && get(key(a, b, c, d, false, false))) ||
               (has_d && get(key(0, b, c, d, true, false))) || (has_a && get(key(a, b, c, 0, false, true)));
    }

    bool empty() const { return bits_.empty(); }

  private:
    static constexpr size_t kBits = size_t{1} << 21;

    // One byte on a side means that the merge's part is that byte and no more.
    static uint64_t key(char a, char b, char c, char d, bool one_left, bool one_right) {
        const auto byte = [](char x) { return uint64_t(uint8_t(x)); };
        return byte(a) | byte(b) << 8 | byte(c) << 16 | byte(d) << 24 | uint64_t(one_left) << 32 |
               uint64_t(one_right) << 33;
    }
    static size_t place(uint64_t key) { return mix_hash(key) % kBits; }
    void set(uint64_t key) { bits_[place(key) / 64] |= uint64_t{1} << (place(key) % 64); }
    bool get(uint64_t key) const { return bits_[place(key) / 64] >> (place(key) % 64) & 1; }

    std::vector<uint64_t> bits_;
};

}  // namespace deepinfer::tokenizer
