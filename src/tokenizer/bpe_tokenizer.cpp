#include "tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "tokenizer/unicode.h"

namespace deepinfer::tokenizer {
namespace {

constexpr size_t kIdleWorkers = 64;

// Everything one encode() call needs to itself.
struct Worker {
    explicit Worker(const BpeModel& model) : encoder(model) {}
    BpeEncoder encoder;
    PieceList pieces;
};

// Where added tokens of all kinds may be recognised.
class AllowedRanges {
  public:
    void allow(Piece range) {
        if (range.size() == 0) return;
        if (!ranges_.empty() && ranges_.back().end == range.begin) {
            ranges_.back().end = range.end;
        } else {
            ranges_.push_back(range);
        }
    }
    bool contain(Piece range) const {
        const auto after = first_behind(range.begin);
        return after != ranges_.begin() && range.end <= std::prev(after)->end;
    }
    bool touch(Piece range) const {
        const auto after = first_behind(range.begin);
        if (after != ranges_.begin() && std::prev(after)->end > range.begin) return true;
        return after != ranges_.end() && after->begin < range.end;
    }

  private:
    std::vector<Piece>::const_iterator first_behind(size_t position) const {
        return std::upper_bound(ranges_.begin(), ranges_.end(), position,
                                [](size_t value, const Piece& range) { return value < range.begin; });
    }
    std::vector<Piece> ranges_;
};

bool has_class(std::string_view text, size_t position, uint8_t classes) {
    const std::string_view rest = text.substr(position);
    return classify_utf8(rest).kind == Utf8Sequence::valid &&
           (CharacterTable::instance()[decode_char(rest.data()).code_point] & classes);
}

bool is_word_char(std::string_view text, size_t position) {
    return text[position] == '_' || has_class(text, position, kLetter | kMark | kNumber);
}

bool stands_alone(std::string_view text, Piece match) {
    if (match.begin > 0 && is_word_char(text, previous_char(text, match.begin))) return false;
    return match.end == text.size() || !is_word_char(text, match.end);
}

Piece strip(std::string_view text, Piece match, const AddedToken& token, size_t not_before) {
    while (token.left_strip && match.begin > not_before) {
        const size_t before = previous_char(text, match.begin);
        if (!has_class(text, before, kSpace)) break;
        match.begin = before;
    }
    while (token.right_strip && match.end < text.size() && has_class(text, match.end, kSpace)) {
        match.end += decode_char(text.data() + match.end).length;
    }
    return match;
}

class BpeTokenizer : public Tokenizer {
  public:
    explicit BpeTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {
        MatchScratch scratch;
        for (uint32_t i = 0; i < parts_.added.size(); ++i) {
            const AddedToken& token = parts_.added[i];
            if (size_t(token.id) >= special_index_.size()) special_index_.resize(size_t(token.id) + 1, -1);
            special_index_[size_t(token.id)] = int32_t(i);
            by_spelling_.emplace(token.content, token.id);
            special_tokens_.push_back({token.id, token.content, token.special});
            if (!token.normalized) {
                raw_matcher_.add(token.content, i);
            } else {
                normalized_raw_matcher_.add(token.content, i);
                const size_t valid = valid_utf8_prefix(token.content);
                normalized_matcher_.add(valid == token.content.size()
                                            ? parts_.normalizer.apply(token.content, scratch)
                                            : token.content,
                                        i);
            }
        }
    }

    std::vector<TokenId> encode(std::string_view text, Special special) const override {
        const TextPart part{text, special};
        return encode_parts({&part, 1});
    }

    std::vector<TokenId> encode_parts(std::span<const TextPart> parts) const override {
        std::string joined;
        AllowedRanges allowed;
        size_t position = 0;
        for (const TextPart& part : parts) {
            if (part.special == Special::parse) allowed.allow({position, position + part.text.size()});
            position += part.text.size();
            if (parts.size() > 1) joined += part.text;
        }
        const std::string_view text = parts.size() == 1 ? parts[0].text : std::string_view(joined);
        std::vector<TokenId> ids;
        ids.reserve(text.size() / 3 + 16);
        std::unique_ptr<Worker> worker = take_worker();
        for_each_segment(
            raw_matcher_, text, {0, text.size()},
            [&](uint32_t index, Piece range) {
                return parts_.added[index].is_text || allowed.contain(range);
            },
            [&](Piece range) { encode_raw_segment(text, range, allowed, *worker, ids); }, ids);
        return_worker(std::move(worker));
        return ids;
    }

    std::string token_bytes(TokenId id, bool keep_special) const override {
        if (id < 0 || size_t(id) >= parts_.bytes.size()) return {};
        if (!keep_special && size_t(id) < special_index_.size()) {
            const int32_t index = special_index_[size_t(id)];
            if (index >= 0 && parts_.added[size_t(index)].special) return {};
        }
        return std::string(parts_.bytes[size_t(id)]);
    }

    int32_t vocabulary_size() const override { return int32_t(parts_.bytes.size()); }
    std::optional<TokenId> bos() const override { return parts_.bos; }
    std::optional<TokenId> eos() const override { return parts_.eos; }
    const std::vector<TokenId>& end_of_generation() const override { return parts_.end_of_generation; }
    bool adds_bos() const override { return parts_.adds_bos; }
    bool strips_leading_space() const override { return parts_.strips_leading_space; }
    const std::vector<SpecialToken>& special_tokens() const override { return special_tokens_; }
    std::optional<TokenId> find_special(std::string_view text) const override {
        const auto found = by_spelling_.find(text);
        if (found == by_spelling_.end()) return std::nullopt;
        return found->second;
    }
    std::string_view added_token_text(TokenId id) const override {
        if (id < 0 || size_t(id) >= special_index_.size() || special_index_[size_t(id)] < 0) return {};
        return parts_.added[size_t(special_index_[size_t(id)])].content;
    }
    const std::string& chat_template() const override { return parts_.chat_template; }

  private:
    // Cuts text[range] at added tokens: appends their ids and calls between(piece) for what lies between.
    template <class Accept, class Between>
    void for_each_segment(const AddedTokenMatcher& matcher, std::string_view text, Piece range, Accept accept,
                          Between between, std::vector<TokenId>& ids) const {
        const std::string_view visible = text.substr(0, range.end);
        size_t done = range.begin;
        size_t from = range.begin;
        while (!matcher.empty()) {
            const auto match = matcher.find(visible, from, accept);
            if (!match) break;
            // The search goes on behind the spelling, even if the token takes more: so does the reference,
            // where a token of white space may still follow a token that strips it.
            from = match->range.end;
            const AddedToken& token = parts_.added[match->index];
            if (token.single_word && !stands_alone(visible, match->range)) continue;
            const Piece taken = strip(visible, match->range, token, done);
            if (taken.begin > done) between({done, taken.begin});
            ids.push_back(token.id);
            done = taken.end;
        }
        if (done < range.end) between({done, range.end});
    }

    // A stretch without added tokens of the raw kind; still bytes of any kind.
    void encode_raw_segment(std::string_view text, Piece range, const AllowedRanges& allowed, Worker& worker,
                            std::vector<TokenId>& ids) const {
        size_t at = range.begin;
        while (at < range.end) {
            const size_t valid = valid_utf8_prefix(text.substr(at, range.end - at));
            if (valid > 0) encode_valid_segment(text, {at, at + valid}, allowed, worker, ids);
            at += valid;
            const size_t bad = at;
            while (at < range.end) {
                const Utf8Sequence sequence = classify_utf8(text.substr(at, range.end - at));
                if (sequence.kind == Utf8Sequence::valid) break;
                at += sequence.length;
            }
            if (at > bad) worker.encoder.encode_raw_bytes(text.substr(bad, at - bad), ids);
        }
    }

    void encode_valid_segment(std::string_view text, Piece range, const AllowedRanges& allowed,
                              Worker& worker, std::vector<TokenId>& ids) const {
        const bool all_allowed = allowed.contain(range);
        const bool mixed = !all_allowed && allowed.touch(range);
        const bool identity = parts_.normalizer.is_identity();
        if (identity || (mixed && !normalized_raw_matcher_.empty())) {
            // Offsets into the raw text are needed to see what is allowed, so here the raw spelling counts.
            for_each_segment(
                normalized_raw_matcher_, text, range,
                [&](uint32_t index, Piece at) { return parts_.added[index].is_text || allowed.contain(at); },
                [&](Piece piece) {
                    const std::string_view segment = text.substr(piece.begin, piece.size());
                    if (identity) {
                        encode_plain(segment, piece.begin == 0, worker, ids);
                    } else {
                        encode_plain(parts_.normalizer.apply(segment, worker.pieces.matches),
                                     piece.begin == 0, worker, ids);
                    }
                },
                ids);
            return;
        }
        const std::string normalized =
            parts_.normalizer.apply(text.substr(range.begin, range.size()), worker.pieces.matches);
        for_each_segment(
            normalized_matcher_, normalized, {0, normalized.size()},
            [&](uint32_t index, Piece) { return parts_.added[index].is_text || all_allowed; },
            [&](Piece piece) {
                encode_plain(std::string_view(normalized).substr(piece.begin, piece.size()),
                             range.begin == 0 && piece.begin == 0, worker, ids);
            },
            ids);
    }

    void encode_plain(std::string_view text, bool at_start, Worker& worker, std::vector<TokenId>& ids) const {
        PieceList& list = worker.pieces;
        list.reset(text, at_start);
        parts_.pre_tokenizer.run(list);
        for (size_t i = 0; i < list.pieces.size(); ++i) worker.encoder.encode(list[i], ids);
    }

    std::unique_ptr<Worker> take_worker() const {
        {
            const std::lock_guard lock(workers_mutex_);
            if (!workers_.empty()) {
                std::unique_ptr<Worker> worker = std::move(workers_.back());
                workers_.pop_back();
                return worker;
            }
        }
        return std::make_unique<Worker>(parts_.bpe);
    }

    void return_worker(std::unique_ptr<Worker> worker) const {
        const std::lock_guard lock(workers_mutex_);
        if (workers_.size() < kIdleWorkers) workers_.push_back(std::move(worker));
    }

    TokenizerParts parts_;
    AddedTokenMatcher raw_matcher_;
    AddedTokenMatcher normalized_matcher_;      // of spellings that went through the normalizer
    AddedTokenMatcher normalized_raw_matcher_;  // of the same tokens' raw spellings
    std::vector<int32_t> special_index_;        // id -> index into parts_.added, or -1
    std::vector<SpecialToken> special_tokens_;
    std::map<std::string, TokenId, std::less<>> by_spelling_;
    mutable std::mutex workers_mutex_;
    mutable std::vector<std::unique_ptr<Worker>> workers_;
};

// Cuts before each "▁" unless the character before it is in the set.
class SafeBorderSplitter : public Splitter {
  public:
    explicit SafeBorderSplitter(std::unordered_set<uint32_t> joined) : joined_(std::move(joined)) {}
    void split(std::string_view text, Piece range, MatchScratch&, std::vector<Piece>& pieces) const override {
        static constexpr std::string_view kMetaspace = "\xE2\x96\x81";
        size_t begin = range.begin;
        size_t at = range.begin + 1;
        while (at < range.end) {
            at = text.find(kMetaspace, at);
            if (at >= range.end) break;  // npos, too
            const uint32_t before = decode_char(text.data() + previous_char(text, at)).code_point;
            if (!joined_.contains(before)) {
                pieces.push_back({begin, at});
                begin = at;
            }
            at += kMetaspace.size();
        }
        if (begin < range.end) pieces.push_back({begin, range.end});
    }

  private:
    std::unordered_set<uint32_t> joined_;
};

// Spellings of tokens that end an answer in well-known prompt formats.
constexpr std::string_view kEndSpellings[] = {
    "<|im_end|>",    "<|eot_id|>",      "<|eom_id|>",
    "<|end|>",       "<|endoftext|>",   "<|end_of_text|>",
    "<end_of_turn>", "<turn|>",         "<EOT>",
    "<|eot|>",       "<|end_of_turn|>", "<|END_OF_TURN_TOKEN|>",
    "<|return|>",    "<|call|>",        "<｜end▁of▁sentence｜>",
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts) {
    return std::make_unique<BpeTokenizer>(std::move(parts));
}

void add_safe_word_borders(PreTokenizer& pre_tokenizer, const std::vector<std::string_view>& merged) {
    std::unordered_set<uint32_t> joined;
    for (const std::string_view token : merged) {
        uint32_t previous = UINT32_MAX;
        for (size_t i = 0; i < token.size();) {
            const DecodedChar c = decode_char(token.data() + i);
            if (c.code_point == 0x2581 && previous != UINT32_MAX) joined.insert(previous);
            previous = c.code_point;
            i += c.length;
        }
    }
    pre_tokenizer.add_splitter(std::make_unique<SafeBorderSplitter>(std::move(joined)));
}

bool is_end_spelling(std::string_view spelling) {
    return std::find(std::begin(kEndSpellings), std::end(kEndSpellings), spelling) != std::end(kEndSpellings);
}

void find_end_of_generation(TokenizerParts& parts, std::vector<TokenId> declared) {
    for (const AddedToken& token : parts.added) {
        if (token.special && is_end_spelling(token.content)) declared.push_back(token.id);
    }
    if (parts.eos) declared.push_back(*parts.eos);
    std::sort(declared.begin(), declared.end());
    declared.erase(std::unique(declared.begin(), declared.end()), declared.end());
    parts.end_of_generation = std::move(declared);
}

}  // namespace deepinfer::tokenizer
