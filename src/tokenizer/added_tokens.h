// Added tokens: vocabulary entries that are recognised by their spelling before anything else is done to a
// text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "tokenizer/pattern.h"

namespace deepinfer::tokenizer {

inline constexpr size_t kMaxAddedTokens = 1'000'000;
inline constexpr size_t kMaxAddedTokenBytes = 4096;
inline constexpr size_t kMaxAddedTokenBytesInAll = 8 << 20;

struct AddedToken {
    TokenId id = -1;
    std::string content;
    bool special = false;      // control token: hidden when decoding
    bool normalized = false;   // matched in the normalised text, not in the raw one
    bool left_strip = false;   // takes the white space before it
    bool right_strip = false;  // and after it
    bool single_word = false;  // only between word borders
    // Part of the language rather than of the prompt format: runs of white space, and in SentencePiece
    // vocabularies the HTML tags. Recognised in every text; all others only where the caller allows it.
    bool is_text = false;
};

// Whether a token that is not special is part of the language (see is_text).
bool is_text_token(std::string_view content, bool sentencepiece_style);

// A trie over spellings. Threads: immutable after construction.
class AddedTokenMatcher {
  public:
    // `index` is what find() reports. Empty spellings are ignored; of equal ones the first counts.
    void add(std::string_view spelling, uint32_t index);

    struct Match {
        Piece range;
        uint32_t index;
    };
    // Finds the first place, from `from` on, where a spelling stands; of several there, the longest that
    // accept(index, range) agrees to.
    template <class Accept>
    std::optional<Match> find(std::string_view text, size_t from, Accept accept) const {
        for (size_t begin = from; begin < text.size(); ++begin) {
            if (!starts_[uint8_t(text[begin])]) continue;
            std::optional<Match> longest;
            uint32_t node = 0;
            for (size_t end = begin; end < text.size();) {
                node = child(node, uint8_t(text[end++]));
                if (node == kNone) break;
                const uint32_t index = nodes_[node].index;
                if (index != kNone && accept(index, Piece{begin, end})) longest = Match{{begin, end}, index};
            }
            if (longest) return longest;
        }
        return std::nullopt;
    }
    bool empty() const { return nodes_.size() == 1; }

  private:
    static constexpr uint32_t kNone = UINT32_MAX;
    struct Node {
        std::vector<std::pair<uint8_t, uint32_t>> children;  // sorted by byte
        uint32_t index = kNone;
    };
    uint32_t child(uint32_t node, uint8_t byte) const;

    std::array<bool, 256> starts_{};
    std::vector<Node> nodes_{Node{}};
};

}  // namespace deepinfer::tokenizer
