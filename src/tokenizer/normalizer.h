// The normalizer of a tokenizer.json: rewrites a text before it is cut into pieces.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/pattern.h"

namespace deepinfer::tokenizer {

// Threads: immutable after construction.
class Normalizer {
  public:
    struct Prepend {
        std::string text;
    };
    struct Replace {
        std::string from;  // not empty
        std::string to;
    };
    struct ReplacePattern {
        Pattern from;
        std::string to;
    };
    enum class Form { nfc, nfd, nfkc, nfkd };
    using Step = std::variant<Prepend, Replace, ReplacePattern, Form>;

    void add(Step step) { steps_.push_back(std::move(step)); }
    bool is_identity() const { return steps_.empty(); }
    // `text` must be valid UTF-8.
    std::string apply(std::string_view text, MatchScratch& scratch) const;

  private:
    std::vector<Step> steps_;
};

}  // namespace deepinfer::tokenizer
