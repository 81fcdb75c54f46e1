// Keeps text that people wrote apart from the control tokens that a chat template writes.
//
// A template mixes both into one string. So that a message that spells a control token ("<|im_end|>") does
// not become one, a mark, a character that occurs nowhere else, is put inside each such spelling before the
// template runs. Afterwards every spelling still whole was written by the template; the marks are taken out
// of the rest.
//
// Threads: immutable; any number may use it at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/token.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::recipe {

// A stretch of rendered text: one added token, or text to be encoded as such (token < 0).
struct Piece {
    TokenId token = -1;
    std::string text;
};

class SpecialMarks {
  public:
    explicit SpecialMarks(const std::vector<tokenizer::SpecialToken>& tokens);

    // A Unicode noncharacter that occurs in none of the texts; nothing if all 66 occur.
    static std::optional<std::string> choose_mark(const std::vector<std::string_view>& texts);

    // `text` with `mark` inside every spelling, and at an end where text of the template could complete one.
    std::string mark(std::string_view text, std::string_view mark) const;
    // The same without the ends, for keys that templates look up by name.
    std::string mark_inside(std::string_view text, std::string_view mark) const;

    // Cuts at the spellings, leftmost-longest, and removes the marks.
    std::vector<Piece> split(std::string_view rendered, std::string_view mark) const;

  private:
    struct Match {
        size_t size = 0;  // of the longest spelling that begins here; 0: none
        TokenId token = -1;
        bool reaches_end = false;  // the text ends inside a spelling that begins here
    };
    Match match(std::string_view text) const;
    bool could_be_continued(std::string_view text) const;
    bool could_continue(std::string_view text) const;

    // Trie over bytes: key = node * 256 + byte.
    std::unordered_map<uint64_t, uint32_t> children_;
    std::unordered_map<uint32_t, TokenId> token_at_;
    bool begins_[256] = {};
    std::unordered_set<std::string> proper_suffixes_;
    size_t longest_ = 0;
    std::string all_spellings_;  // separated by NUL, to look for infixes
};

}  // namespace deepinfer::recipe
