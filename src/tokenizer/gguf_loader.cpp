#include <cmath>
#include <string>

#include "tokenizer/gguf_pre.h"
#include "tokenizer/loaders.h"
#include "tokenizer/unicode.h"
#include "tokenizer/vocabulary.h"

namespace deepinfer::tokenizer {
namespace {

using checkpoint::Metadata;
using checkpoint::MetadataArray;

enum TokenType : int64_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
};

constexpr std::string_view kMetaspace = "\xE2\x96\x81";

Error bad(std::string_view key, std::string_view problem) {
    return Error{ErrorCode::corrupt_data, "tokenizer.ggml." + std::string(key) + ": " + std::string(problem)};
}

// A list of the given element type; nullptr if the key is absent.
template <class T>
Result<const std::vector<T>*> list_of(const Metadata& metadata, std::string_view key,
                                      std::string_view element) {
    const std::string full = "tokenizer.ggml." + std::string(key);
    if (!metadata.find(full)) return static_cast<const std::vector<T>*>(nullptr);
    const MetadataArray* array = metadata.array(full);
    const std::vector<T>* values = array ? std::get_if<std::vector<T>>(&array->values) : nullptr;
    if (!values) return bad(key, "expected an array of " + std::string(element));
    return values;
}

Status check_length(std::string_view key, size_t size, size_t expected) {
    if (size == expected) return {};
    return bad(key, std::to_string(size) + " entries for " + std::to_string(expected) + " tokens");
}

Result<std::optional<TokenId>> id_field(const Metadata& metadata, std::string_view key,
                                        size_t vocabulary_size) {
    const Result<std::optional<int64_t>> value = metadata.integer("tokenizer.ggml." + std::string(key));
    if (!value) return value.error();
    if (!*value) return std::optional<TokenId>();
    if (**value < 0 || **value >= int64_t(vocabulary_size))
        return bad(key, std::to_string(**value) + " is not an id of the " + std::to_string(vocabulary_size) +
                            " tokens");
    return std::optional<TokenId>(TokenId(**value));
}

struct Lists {
    const std::vector<std::string_view>* tokens = nullptr;
    const std::vector<int64_t>* types = nullptr;
    const std::vector<double>* scores = nullptr;
    const std::vector<std::string_view>* merges = nullptr;
    int64_t type(size_t i) const { return types ? (*types)[i] : int64_t(kNormal); }
};

Result<Lists> read_lists(const Metadata& metadata) {
    Lists lists;
    const auto tokens = list_of<std::string_view>(metadata, "tokens", "strings");
    if (!tokens) return tokens.error();
    if (!*tokens || (*tokens)->empty()) return bad("tokens", "missing or empty");
    lists.tokens = *tokens;
    const size_t size = lists.tokens->size();
    if (size > kMaxVocabulary)
        return Error{ErrorCode::resource_exhausted, "tokenizer.ggml.tokens: " + std::to_string(size) +
                                                        " entries, more than the limit of " +
                                                        std::to_string(kMaxVocabulary)};
    for (size_t i = 0; i < size; ++i) {
        if ((*lists.tokens)[i].size() > kMaxTokenBytes)
            return bad("tokens", "entry " + std::to_string(i) + " has more than " +
                                     std::to_string(kMaxTokenBytes) + " bytes");
    }
    const auto types = list_of<int64_t>(metadata, "token_type", "integers");
    if (!types) return types.error();
    lists.types = *types;
    if (lists.types) {
        if (Status ok = check_length("token_type", lists.types->size(), size); !ok) return ok.error();
        for (const int64_t type : *lists.types) {
            if (type < 0 || type > kByte) return bad("token_type", "unknown type " + std::to_string(type));
        }
    }
    const auto scores = list_of<double>(metadata, "scores", "floats");
    if (!scores) return scores.error();
    lists.scores = *scores;
    if (lists.scores) {
        if (Status ok = check_length("scores", lists.scores->size(), size); !ok) return ok.error();
        for (const double score : *lists.scores) {
            if (!std::isfinite(score)) return bad("scores", "a score is not a finite number");
        }
    }
    const auto merges = list_of<std::string_view>(metadata, "merges", "strings");
    if (!merges) return merges.error();
    lists.merges = *merges;
    if (lists.merges && lists.merges->size() > kMaxMerges)
        return Error{ErrorCode::resource_exhausted,
                     "tokenizer.ggml.merges: " + std::to_string(lists.merges->size()) +
                         " entries, more than the limit of " + std::to_string(kMaxMerges)};
    return lists;
}

// Fills the vocabulary, the added tokens and the decoded entries.
Status read_tokens(const Lists& lists, Spelling spelling, TokenizerParts& parts, Vocabulary& vocabulary) {
    const ByteAlphabet alphabet;
    const bool bytes_in_alphabet = spelling == Spelling::byte_level;
    const EntryDecoding decoding{bytes_in_alphabet, !bytes_in_alphabet, !bytes_in_alphabet};
    const size_t size = lists.tokens->size();
    vocabulary.spellings = *lists.tokens;
    vocabulary.ids = StringMap(size);
    size_t added_bytes = 0;
    for (size_t i = 0; i < size; ++i) {
        const std::string_view entry = (*lists.tokens)[i];
        const TokenId id = TokenId(i);
        const int64_t type = lists.type(i);
        parts.bytes.append(decoded_entry(entry, decoding, alphabet));
        if (entry.empty()) continue;
        vocabulary.ids.insert(entry, id);
        if (type == kUnknown || type == kUnused) vocabulary.exclude(id);
        if (type != kControl && type != kUserDefined && type != kUnknown) continue;
        AddedToken token{.id = id, .content = std::string(entry)};
        token.special = type != kUserDefined || is_end_spelling(entry);
        token.is_text = !token.special && is_text_token(entry, spelling == Spelling::sentencepiece);
        // Byte-level vocabularies may declare single bytes as user-defined; these remain symbols.
        const auto bytes = spelling == Spelling::byte_level ? alphabet.bytes(entry) : std::nullopt;
        const bool is_byte = !token.special && bytes && bytes->size() == 1;
        if (!token.is_text && !is_byte) vocabulary.exclude(id);
        if (entry.size() > kMaxAddedTokenBytes || (added_bytes += entry.size()) > kMaxAddedTokenBytesInAll)
            return Error{ErrorCode::resource_exhausted,
                         "tokenizer.ggml.tokens: control and user-defined tokens of more than " +
                             std::to_string(kMaxAddedTokenBytes) + " bytes each or " +
                             std::to_string(kMaxAddedTokenBytesInAll) + " bytes in all"};
        if (!is_byte) parts.added.push_back(std::move(token));
    }
    return {};
}

Status read_merges(const Lists& lists, TokenizerParts& parts, const Vocabulary& vocabulary,
                   std::vector<MergeRule>& rules) {
    if (!lists.merges) return bad("merges", "missing");
    rules.reserve(lists.merges->size());
    for (size_t i = 0; i < lists.merges->size(); ++i) {
        const Result<MergeRule> rule = split_merge((*lists.merges)[i], "tokenizer.ggml.merges", i);
        if (!rule) return rule.error();
        rules.push_back(*rule);
    }
    return set_merges(parts.bpe, vocabulary, rules, "tokenizer.ggml.merges");
}

Status read_byte_level(const Metadata& metadata, const Lists& lists, TokenizerParts& parts) {
    const Result<std::optional<std::string>> pre = metadata.string("tokenizer.ggml.pre");
    if (!pre) return pre.error();
    const Result<std::optional<std::string>> architecture = metadata.string("general.architecture");
    if (!architecture) return architecture.error();
    std::string name = pre->value_or("");
    if (name.empty() && *architecture == "gptneox") name = "gpt-neox";
    if (name.empty())
        return Error{ErrorCode::unsupported,
                     "tokenizer.ggml.pre: missing; the file does not say how its text is to be "
                     "cut into words. Convert the model again with a current converter"};
    Result<GgufPreTokenizer> made = make_gguf_pre_tokenizer(name);
    if (!made) return std::move(made).error();
    parts.normalizer = std::move(made->normalizer);
    parts.pre_tokenizer = std::move(made->pre_tokenizer);
    parts.bpe.ignore_merges = made->ignore_merges;
    parts.adds_bos = made->adds_bos;

    Vocabulary vocabulary;
    if (Status ok = read_tokens(lists, Spelling::byte_level, parts, vocabulary); !ok) return ok;
    set_symbols(parts.bpe, vocabulary, Spelling::byte_level);
    if (parts.bpe.ignore_merges) set_words(parts.bpe, vocabulary, Spelling::byte_level, parts.bytes);
    std::vector<MergeRule> rules;
    return read_merges(lists, parts, vocabulary, rules);
}

// `by_scores`: SentencePiece's own order of merges (Llama 2, Gemma 1-3); otherwise a merge list (Gemma 4).
Status read_sentencepiece(const Metadata& metadata, const Lists& lists, bool by_scores,
                          TokenizerParts& parts) {
    const Result<std::optional<bool>> prefix = metadata.boolean("tokenizer.ggml.add_space_prefix");
    if (!prefix) return prefix.error();
    const bool add_space_prefix = prefix->value_or(by_scores);
    if (add_space_prefix) parts.normalizer.add(Normalizer::Prepend{std::string(kMetaspace)});
    parts.normalizer.add(Normalizer::Replace{" ", std::string(kMetaspace)});
    parts.strips_leading_space = add_space_prefix;
    parts.adds_bos = true;

    Vocabulary vocabulary;
    if (Status ok = read_tokens(lists, Spelling::sentencepiece, parts, vocabulary); !ok) return ok;
    set_symbols(parts.bpe, vocabulary, Spelling::sentencepiece);
    parts.bpe.byte_fallback = true;
    const Result<std::optional<TokenId>> unknown =
        id_field(metadata, "unknown_token_id", lists.tokens->size());
    if (!unknown) return unknown.error();
    parts.bpe.unknown = unknown->value_or(0);  // 0 is SentencePiece's default

    std::vector<std::string_view> merged;
    std::vector<std::string> joined;
    if (by_scores) {
        if (!lists.scores) return bad("scores", "missing");
        std::vector<bool> mergeable(lists.tokens->size());
        for (size_t i = 0; i < mergeable.size(); ++i) {
            const int64_t type = lists.type(i);
            mergeable[i] = (type == kNormal || type == kUserDefined) && !vocabulary.is_excluded(TokenId(i)) &&
                           !vocabulary.spellings[i].empty();
            if (mergeable[i]) merged.push_back(vocabulary.spellings[i]);
        }
        set_score_merges(parts.bpe, vocabulary, *lists.scores, mergeable);
    } else {
        std::vector<MergeRule> rules;
        if (Status ok = read_merges(lists, parts, vocabulary, rules); !ok) return ok;
        for (const MergeRule& rule : rules)
            joined.push_back(std::string(rule.left) + std::string(rule.right));
        merged.assign(joined.begin(), joined.end());
    }
    if (parts.bpe.character_symbol.find(0x2581)) add_safe_word_borders(parts.pre_tokenizer, merged);
    return {};
}

Status read_special_ids(const Metadata& metadata, TokenizerParts& parts) {
    const size_t size = parts.bytes.size();
    const Result<std::optional<TokenId>> bos = id_field(metadata, "bos_token_id", size);
    if (!bos) return bos.error();
    parts.bos = *bos;
    const Result<std::optional<TokenId>> eos = id_field(metadata, "eos_token_id", size);
    if (!eos) return eos.error();
    parts.eos = *eos;
    std::vector<TokenId> ends;
    for (const char* key : {"eot_token_id", "eom_token_id"}) {
        const Result<std::optional<TokenId>> id = id_field(metadata, key, size);
        if (!id) return id.error();
        if (*id) ends.push_back(**id);
    }
    const Result<std::optional<bool>> adds_bos = metadata.boolean("tokenizer.ggml.add_bos_token");
    if (!adds_bos) return adds_bos.error();
    parts.adds_bos = adds_bos->value_or(parts.adds_bos) && parts.bos;
    find_end_of_generation(parts, std::move(ends));
    return {};
}

}  // namespace

Result<TokenizerParts> read_gguf_tokenizer(const Metadata& metadata) {
    const Result<std::optional<std::string>> model = metadata.string("tokenizer.ggml.model");
    if (!model) return model.error();
    if (!*model)
        return Error{ErrorCode::not_found,
                     "tokenizer.ggml.model: missing; the file holds no tokenizer, so text cannot be encoded"};
    const std::string& kind = **model;
    if (kind != "gpt2" && kind != "llama" && kind != "gemma4")
        return Error{ErrorCode::unsupported, "tokenizer.ggml.model: " + quote(kind) +
                                                 " is not supported; known are gpt2 (byte-level BPE), llama "
                                                 "(SentencePiece BPE) and gemma4"};
    const Result<Lists> lists = read_lists(metadata);
    if (!lists) return lists.error();
    TokenizerParts parts;
    const Status read = kind == "gpt2" ? read_byte_level(metadata, *lists, parts)
                                       : read_sentencepiece(metadata, *lists, kind == "llama", parts);
    if (!read) return read.error();
    if (Status ok = read_special_ids(metadata, parts); !ok) return ok.error();
    const Result<std::optional<std::string>> chat_template = metadata.string("tokenizer.chat_template");
    if (!chat_template) return chat_template.error();
    if (*chat_template && (*chat_template)->size() > kMaxChatTemplateBytes)
        return Error{ErrorCode::resource_exhausted, "tokenizer.chat_template: more than the limit of " +
                                                        std::to_string(kMaxChatTemplateBytes) + " bytes"};
    parts.chat_template = chat_template->value_or("");
    return parts;
}

}  // namespace deepinfer::tokenizer
