// From the vocabulary of a file (spellings, merges or scores) to the tables of a BpeModel. Internal; used by
// the loaders.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/quote.h"
#include "base/result.h"
#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/byte_alphabet.h"

namespace deepinfer::tokenizer {

// The entries of a vocabulary as the file spells them. The strings belong to the file.
struct Vocabulary {
    std::vector<std::string_view> spellings;  // by id; empty where the id is not used
    StringMap ids;
    std::vector<bool> excluded;  // by id: can never be the result of encoding plain text (special tokens)

    bool is_excluded(TokenId id) const { return size_t(id) < excluded.size() && excluded[size_t(id)]; }
    void exclude(TokenId id);
};

// One line of a merge list; the views belong to the file.
struct MergeRule {
    std::string_view left;
    std::string_view right;
};

// "left right" -> its parts; Error (about `where`, entry `index`) if it has not exactly two.
Result<MergeRule> split_merge(std::string_view line, std::string_view where, size_t index);

// How vocabulary entries are spelled.
enum class Spelling {
    byte_level,     // in the alphabet of ByteAlphabet
    sentencepiece,  // plain text with "▁" for space and "<0xAB>" for bytes
};

// The byte of "<0xAB>", or -1.
int byte_token_value(std::string_view spelling);

// Fills the symbol tables of the model: byte tokens, single characters.
void set_symbols(BpeModel& model, const Vocabulary& vocabulary, Spelling spelling);
// Fills the table of whole words, for ignore_merges. `bytes` are the decoded entries and must outlive the
// model.
void set_words(BpeModel& model, const Vocabulary& vocabulary, Spelling spelling, const TokenStrings& bytes);
// Rank of a rule = its place in the list. Errors: corrupt_data when a rule names what is not in the
// vocabulary.
Status set_merges(BpeModel& model, const Vocabulary& vocabulary, std::span<const MergeRule> rules,
                  std::string_view where);
// SentencePiece BPE: any two neighbours whose joined spelling is a token may merge; the higher score goes
// first, equal scores are equal ranks. `mergeable[id]`: plain tokens. Call after set_symbols().
void set_score_merges(BpeModel& model, const Vocabulary& vocabulary, std::span<const double> scores,
                      const std::vector<bool>& mergeable);

// What entries decode to.
struct EntryDecoding {
    bool byte_alphabet = false;  // entries written in the alphabet are bytes
    bool metaspace = false;      // "▁" is a space
    bool byte_tokens = false;    // "<0xAB>" is a byte
};
std::string decoded_entry(std::string_view entry, const EntryDecoding& decoding,
                          const ByteAlphabet& alphabet);

}  // namespace deepinfer::tokenizer
