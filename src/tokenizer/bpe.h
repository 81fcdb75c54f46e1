// Byte-pair encoding of one word: start from single symbols (bytes or characters), then always merge the
// adjacent pair of lowest rank, the leftmost of equals, until no pair can be merged (Sennrich et al. 2016,
// arXiv:1508.07909).
//
// A word of n symbols takes O(n log n): short words scan, long ones use a heap over a linked list.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "tokenizer/border_filter.h"
#include "tokenizer/flat_map.h"

namespace deepinfer::tokenizer {

struct Merge {
    uint32_t rank;
    TokenId result;
};

// Everything that defines the encoding of a word.
struct BpeModel {
    // Symbols are ids of the vocabulary or, from `vocabulary_size` on, stand-ins for characters that are no
    // token but part of one (SentencePiece vocabularies can have them); stand-ins never leave the encoder.
    int32_t vocabulary_size = 0;

    bool symbols_are_bytes = true;  // else characters
    std::array<TokenId, 256>
        byte_token{};  // byte-level: the token of a byte; else its byte-fallback token; -1: none
    FlatMap64<TokenId> character_symbol;        // code point -> symbol, if symbols are characters
    std::vector<uint32_t> stand_in_characters;  // code point of symbol vocabulary_size + i
    FlatMap64<Merge> merges;                    // pair_key(left, right)
    BorderFilter borders;                       // of the merges; empty: words are not cut

    bool byte_fallback = false;  // characters without a symbol become byte tokens, if there are all of them
    std::optional<TokenId> unknown;  // otherwise this token; without it they are dropped
    bool fuse_unknown = false;       // a run of unknown characters is one token
    bool ignore_merges = false;      // a word that is a token is that token
    std::optional<StringMap> words;  // for ignore_merges

    static uint64_t pair_key(TokenId left, TokenId right) {
        return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
    }
};

// Encodes words with a model: working memory and a bounded cache of recent words (1 MiB). One per thread at a
// time. The cache changes speed only: the same word always has the same ids.
class BpeEncoder {
  public:
    explicit BpeEncoder(const BpeModel& model);

    // Appends the ids of the word: valid UTF-8 if symbols are characters, any bytes otherwise.
    void encode(std::string_view word, std::vector<TokenId>& ids);
    // Appends the tokens of raw bytes that are no UTF-8: byte tokens, else the unknown token.
    void encode_raw_bytes(std::string_view bytes, std::vector<TokenId>& ids);

  private:
    static constexpr size_t kCachedWordBytes = 22;
    static constexpr size_t kCachedIds = 10;
    static constexpr size_t kCacheEntries = 1 << 14;
    struct CacheEntry {
        uint8_t bytes = 0;  // 0: empty
        uint8_t count = 0;
        char word[kCachedWordBytes];
        TokenId ids[kCachedIds];
    };
    struct Node {  // of the linked list for long words
        uint32_t previous;
        uint32_t next;
        uint32_t rank;  // of the pair that starts here; kNoMerge if none or the node is gone
        TokenId merged;
    };
    static constexpr uint32_t kNoMerge = UINT32_MAX;

    void encode_uncached(std::string_view word, std::vector<TokenId>& ids);
    void encode_piece(std::string_view piece, std::vector<TokenId>& ids);
    void add_symbols(std::string_view word);
    void merge_short();
    void merge_long();
    void set_pair(uint32_t position);
    void emit(std::vector<TokenId>& ids) const;

    const BpeModel& model_;
    std::vector<CacheEntry> cache_;
    std::vector<TokenId> symbols_;
    std::vector<Merge> pairs_;
    std::vector<Node> nodes_;
    std::vector<uint64_t> heap_;  // rank << 32 | position; smallest first
};

}  // namespace deepinfer::tokenizer
