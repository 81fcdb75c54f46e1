// The one implementation of Tokenizer: added tokens, normalizer, pre-tokenizer, BPE, as in Hugging Face
// `tokenizers`. Internal to the tokenizer layer; built by the loaders (json_loader.cpp, gguf_loader.cpp).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::tokenizer {

inline constexpr size_t kMaxVocabulary = 4'000'000;
inline constexpr size_t kMaxMerges = 16'000'000;
inline constexpr size_t kMaxTokenBytes = 64 * 1024;
inline constexpr size_t kMaxChatTemplateBytes = 4 << 20;

// Strings of all ids in one block. Views of them survive moving the object, not appending to it.
class TokenStrings {
  public:
    void append(std::string_view bytes) {
        arena_.insert(arena_.end(), bytes.begin(), bytes.end());
        ends_.push_back(arena_.size());
    }
    size_t size() const { return ends_.size(); }
    std::string_view operator[](size_t i) const {
        const size_t begin = i == 0 ? 0 : ends_[i - 1];
        return {arena_.data() + begin, ends_[i] - begin};
    }

  private:
    std::vector<char> arena_;  // not a std::string: views must survive a move
    std::vector<size_t> ends_;
};

// What a loader finds out about a model's tokenizer.
struct TokenizerParts {
    BpeModel bpe;
    TokenStrings bytes;  // what each id decodes to; size = vocabulary size
    std::vector<AddedToken> added;
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    bool strips_leading_space = false;
    std::optional<TokenId> bos;
    std::optional<TokenId> eos;
    std::vector<TokenId> end_of_generation;
    bool adds_bos = false;
    std::string chat_template;
};

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts);

// Adds, to bpe tokenizers whose pieces are long (no pre-tokenizer), a stage that cuts before every "▁" across
// which no merge can happen: the ids stay the same, words become short. `merged(i)` are the spellings of all
// merge results.
void add_safe_word_borders(PreTokenizer& pre_tokenizer, const std::vector<std::string_view>& merged);

// Whether well-known prompt formats end an answer with this token.
bool is_end_spelling(std::string_view spelling);

// Adds the tokens that well-known models end an answer with, if they are special here, to EOS and EOT.
void find_end_of_generation(TokenizerParts& parts, std::vector<TokenId> declared);

}  // namespace deepinfer::tokenizer
