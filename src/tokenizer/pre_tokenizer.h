// The pre-tokenizer of a tokenizer.json: cuts a normalised text into the pieces ("words") that merges never
// cross.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/pattern.h"
#include "tokenizer/scanners.h"

namespace deepinfer::tokenizer {

enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

// A text and its pieces. Stages may rewrite the text; `text` then points into `buffer`.
struct PieceList {
    std::string_view text;
    std::vector<Piece> pieces;
    bool at_start = false;  // the first piece begins where the whole input begins
    std::string buffer;
    std::vector<Piece> previous;  // scratch
    MatchScratch matches;

    void reset(std::string_view whole, bool starts_input);
    std::string_view operator[](size_t i) const { return text.substr(pieces[i].begin, pieces[i].size()); }
};

// Threads: immutable after construction.
class PreTokenizer {
  public:
    // Splits at the matches of a regular expression or of a literal string.
    Status add_split_pattern(std::string_view pattern, SplitBehavior behavior, bool invert,
                             std::string_view where);
    void add_split_string(std::string literal, SplitBehavior behavior, bool invert);
    void add_splitter(std::unique_ptr<Splitter> splitter);
    // Puts a space before every piece that does not begin with one.
    void add_prefix_space();
    enum class Prepend { always, first, never };
    // Spaces become `replacement`, which is also put in front; a piece begins at each one if `split`.
    void add_metaspace(std::string replacement, Prepend prepend, bool split);

    void run(PieceList& list) const;
    bool empty() const { return stages_.empty(); }

  private:
    struct PrefixSpace {};
    struct Metaspace {
        std::string replacement;
        Prepend prepend;
    };
    using Stage = std::variant<std::unique_ptr<Splitter>, PrefixSpace, Metaspace>;
    std::vector<Stage> stages_;
};

}  // namespace deepinfer::tokenizer
