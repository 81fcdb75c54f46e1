// Hand-written equivalents of the pre-tokenizer patterns of well-known models: linear in the text, and on one
// fixed Unicode table. Each is equal to its pattern under a backtracking engine
// (tests/tokenizer/scanners_test.cpp).
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

namespace deepinfer::tokenizer {

// Cuts text into pieces. Threads: immutable.
class Splitter {
  public:
    virtual ~Splitter() = default;
    // Appends the pieces of text[range]; text is valid UTF-8 and range ends on code point borders.
    virtual void split(std::string_view text, Piece range, MatchScratch& scratch,
                       std::vector<Piece>& pieces) const = 0;
};

// A set of code points: those of some character classes and of some ranges, or all the others.
class CodePointSet {
  public:
    CodePointSet() : CodePointSet(0) {}
    explicit CodePointSet(uint8_t classes,
                          std::vector<std::pair<uint32_t, uint32_t>> ranges = {});  // inclusive
    bool contains(uint32_t code_point) const {
        if (code_point < 128) return ascii_[code_point];
        return slow_contains(code_point);
    }

  private:
    bool slow_contains(uint32_t code_point) const;
    uint8_t classes_;
    std::vector<std::pair<uint32_t, uint32_t>> ranges_;  // sorted
    std::bitset<128> ascii_;
};

// `prefix? body{1,max}`: matches are isolated.
std::unique_ptr<Splitter> make_run_splitter(CodePointSet prefix, CodePointSet body, size_t max = SIZE_MAX);

// `\s+$` where $ is an end of line.
std::unique_ptr<Splitter> make_trailing_space_splitter();

// Punctuation, which is \p{P} and the ASCII symbols $+<=>^`|~, in runs of up to `max`.
std::unique_ptr<Splitter> make_punctuation_splitter(size_t max);

// The scanner for exactly this pattern with behaviour "isolated"; nullptr if there is none.
std::unique_ptr<Splitter> find_scanner(std::string_view pattern);

// All patterns that find_scanner() knows (tests).
std::vector<std::string> scanner_patterns();

// Well-known patterns, as in the tokenizer.json of the models.
extern const std::string_view kGpt2Pattern;
extern const std::string_view kLlama3Pattern;
extern const std::string_view kQwen2Pattern;
extern const std::string_view kQwen35Pattern;
extern const std::string_view kDeepseekV3Pattern;
extern const std::string_view kDeepseekV3CjkPattern;
extern const std::string_view kDeepseekLlmCjkPattern;

}  // namespace deepinfer::tokenizer
