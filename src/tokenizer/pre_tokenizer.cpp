#include "tokenizer/pre_tokenizer.h"

namespace deepinfer::tokenizer {
namespace {

struct Part {
    Piece piece;
    bool is_match;
};

// How `tokenizers` turns matches and the gaps between them into pieces.
void apply_behavior(const std::vector<Part>& parts, SplitBehavior behavior, std::vector<Piece>& pieces) {
    const size_t first = pieces.size();
    bool previous_match = false;
    const auto add = [&](Piece piece) { pieces.push_back(piece); };
    switch (behavior) {
        case SplitBehavior::isolated:
            for (const Part& part : parts) add(part.piece);
            break;
        case SplitBehavior::removed:
            for (const Part& part : parts) {
                if (!part.is_match) add(part.piece);
            }
            break;
        case SplitBehavior::merged_with_previous:
            for (const Part& part : parts) {
                if (part.is_match && !previous_match && pieces.size() > first) {
                    pieces.back().end = part.piece.end;
                } else {
                    add(part.piece);
                }
                previous_match = part.is_match;
            }
            break;
        case SplitBehavior::merged_with_next: {
            std::vector<Piece> reversed;
            for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
                if (part->is_match && !previous_match && !reversed.empty()) {
                    reversed.back().begin = part->piece.begin;
                } else {
                    reversed.push_back(part->piece);
                }
                previous_match = part->is_match;
            }
            pieces.insert(pieces.end(), reversed.rbegin(), reversed.rend());
            break;
        }
        case SplitBehavior::contiguous:
            for (const Part& part : parts) {
                if (part.is_match == previous_match && pieces.size() > first) {
                    pieces.back().end = part.piece.end;
                } else {
                    add(part.piece);
                }
                previous_match = part.is_match;
            }
            break;
    }
    std::erase_if(pieces, [](const Piece& piece) { return piece.size() == 0; });
}

class MatchSplitter : public Splitter {
  public:
    MatchSplitter(SplitBehavior behavior, bool invert) : behavior_(behavior), invert_(invert) {}
    void split(std::string_view text, Piece range, MatchScratch& scratch,
               std::vector<Piece>& pieces) const final {
        std::vector<Piece> matches;
        find(text.substr(range.begin, range.size()), scratch, matches);
        std::vector<Part> parts;
        size_t at = range.begin;
        for (const Piece& match : matches) {
            const Piece absolute{match.begin + range.begin, match.end + range.begin};
            if (at != absolute.begin) parts.push_back({{at, absolute.begin}, invert_});
            parts.push_back({absolute, !invert_});
            at = absolute.end;
        }
        if (at != range.end) parts.push_back({{at, range.end}, invert_});
        std::vector<Piece> found;
        apply_behavior(parts, behavior_, found);
        pieces.insert(pieces.end(), found.begin(), found.end());
    }

  private:
    virtual void find(std::string_view text, MatchScratch& scratch, std::vector<Piece>& matches) const = 0;
    SplitBehavior behavior_;
    bool invert_;
};

class PatternSplitter : public MatchSplitter {
  public:
    PatternSplitter(Pattern pattern, SplitBehavior behavior, bool invert)
        : MatchSplitter(behavior, invert), pattern_(std::move(pattern)) {}

  private:
    void find(std::string_view text, MatchScratch& scratch, std::vector<Piece>& matches) const final {
        pattern_.find_all(text, scratch, matches);
    }
    Pattern pattern_;
};

class StringSplitter : public MatchSplitter {
  public:
    StringSplitter(std::string literal, SplitBehavior behavior, bool invert)
        : MatchSplitter(behavior, invert), literal_(std::move(literal)) {}

  private:
    void find(std::string_view text, MatchScratch&, std::vector<Piece>& matches) const final {
        if (literal_.empty()) return;
        for (size_t at = text.find(literal_); at != std::string_view::npos; at = text.find(literal_, at)) {
            matches.push_back({at, at + literal_.size()});
            at += literal_.size();
        }
    }
    std::string literal_;
};

// Rebuilds the text piece by piece: append(piece text, index) appends what the piece becomes.
template <class Append>
void rewrite(PieceList& list, Append append) {
    std::string out;
    out.reserve(list.text.size() + list.pieces.size());
    for (size_t i = 0; i < list.pieces.size(); ++i) {
        const size_t begin = out.size();
        append(out, list[i], i);
        list.pieces[i] = {begin, out.size()};
    }
    list.buffer = std::move(out);
    list.text = list.buffer;
}

}  // namespace

void PieceList::reset(std::string_view whole, bool starts_input) {
    text = whole;
    at_start = starts_input;
    pieces.clear();
    if (!whole.empty()) pieces.push_back({0, whole.size()});
}

Status PreTokenizer::add_split_pattern(std::string_view pattern, SplitBehavior behavior, bool invert,
                                       std::string_view where) {
    if (behavior ==
        SplitBehavior::isolated) {  // isolating the gaps instead of the matches cuts at the same places
        if (std::unique_ptr<Splitter> scanner = find_scanner(pattern)) {
            add_splitter(std::move(scanner));
            return {};
        }
    }
    Result<Pattern> compiled = Pattern::compile(pattern, where);
    if (!compiled) return std::move(compiled).error();
    add_splitter(std::make_unique<PatternSplitter>(std::move(*compiled), behavior, invert));
    return {};
}

void PreTokenizer::add_split_string(std::string literal, SplitBehavior behavior, bool invert) {
    add_splitter(std::make_unique<StringSplitter>(std::move(literal), behavior, invert));
}

void PreTokenizer::add_splitter(std::unique_ptr<Splitter> splitter) {
    stages_.emplace_back(std::move(splitter));
}

void PreTokenizer::add_prefix_space() { stages_.emplace_back(PrefixSpace{}); }

void PreTokenizer::add_metaspace(std::string replacement, Prepend prepend, bool split) {
    stages_.emplace_back(Metaspace{replacement, prepend});
    if (split) add_split_string(std::move(replacement), SplitBehavior::merged_with_next, false);
}

void PreTokenizer::run(PieceList& list) const {
    for (const Stage& stage : stages_) {
        if (const auto* splitter = std::get_if<std::unique_ptr<Splitter>>(&stage)) {
            list.previous.swap(list.pieces);
            list.pieces.clear();
            for (const Piece& piece : list.previous)
                (*splitter)->split(list.text, piece, list.matches, list.pieces);
        } else if (std::holds_alternative<PrefixSpace>(stage)) {
            rewrite(list, [](std::string& out, std::string_view piece, size_t) {
                if (!piece.starts_with(' ')) out += ' ';
                out += piece;
            });
        } else {
            const auto& metaspace = std::get<Metaspace>(stage);
            rewrite(list, [&](std::string& out, std::string_view piece, size_t index) {
                const bool wanted = metaspace.prepend == Prepend::always ||
                                    (metaspace.prepend == Prepend::first && index == 0 && list.at_start);
                const bool has_one = piece.starts_with(' ') || piece.starts_with(metaspace.replacement);
                if (wanted && !has_one) out += metaspace.replacement;
                for (const char c : piece) {
                    if (c == ' ') {
                        out += metaspace.replacement;
                    } else {
                        out += c;
                    }
                }
            });
        }
    }
}

}  // namespace deepinfer::tokenizer
