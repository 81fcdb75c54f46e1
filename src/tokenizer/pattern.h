// Regular expressions from tokenizer files: the Oniguruma (Ruby) dialect that Hugging Face `tokenizers` uses,
// run by PCRE2 with JIT.
//
// Where the dialects differ the pattern is translated (\s, \w, $) or refused (set operations, nested sets,
// \h, \R, \X,
// \K, back references, recursion, named calls). Unicode properties are those of the PCRE2 that is installed;
// the patterns of well-known models do not come here but have scanners of their own (scanners.h) on one fixed
// table.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace deepinfer::tokenizer {

struct Piece {
    size_t begin;  // byte offsets into a text
    size_t end;
    size_t size() const { return end - begin; }
};

inline constexpr size_t kMaxPatternBytes = 64 * 1024;

// Working memory of a match. One per thread at a time.
class MatchScratch {
  public:
    MatchScratch();
    ~MatchScratch();
    MatchScratch(const MatchScratch&) = delete;
    MatchScratch& operator=(const MatchScratch&) = delete;

  private:
    friend class Pattern;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Threads: immutable after compile().
class Pattern {
  public:
    // `where` names the field in messages. Errors: corrupt_data (not a regular expression), unsupported (see
    // above).
    static Result<Pattern> compile(std::string_view expression, std::string_view where);

    Pattern(Pattern&&) noexcept;
    Pattern& operator=(Pattern&&) noexcept;
    ~Pattern();

    // Appends every match in text, left to right, not overlapping, empty ones included. Valid UTF-8 only.
    // Should a hostile pattern exceed the backtracking limit, the search ends there: what follows counts as
    // unmatched.
    void find_all(std::string_view text, MatchScratch& scratch, std::vector<Piece>& matches) const;

  private:
    struct Code;
    explicit Pattern(std::unique_ptr<Code> code);
    std::unique_ptr<Code> code_;
};

// The PCRE2 form of an Oniguruma expression. Exposed for tests.
Result<std::string> translate_pattern(std::string_view expression, std::string_view where);

}  // namespace deepinfer::tokenizer
