#include <algorithm>
#include <string>
#include <unordered_set>

#include "tokenizer/json_fields.h"
#include "tokenizer/json_stages.h"
#include "tokenizer/loaders.h"
#include "tokenizer/unicode.h"
#include "tokenizer/vocabulary.h"

namespace deepinfer::tokenizer {
namespace {

namespace json = boost::json;

Error too_many(std::string_view where, size_t count, size_t limit) {
    return Error{ErrorCode::resource_exhausted, std::string(where) + ": " + std::to_string(count) +
                                                    " entries, more than the limit of " +
                                                    std::to_string(limit)};
}

Result<TokenId> read_id(const json::value& value, std::string_view where) {
    if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() >= int64_t(kMaxVocabulary))
        return bad_field(where, "", "an id from 0 to " + std::to_string(kMaxVocabulary - 1));
    return TokenId(value.get_int64());
}

Status read_vocab(const json::object& model, Vocabulary& vocabulary) {
    const json::value* value = member(model, "vocab");
    if (!value || !value->is_object()) return bad_field("model", "vocab", "an object of token -> id");
    const json::object& vocab = value->get_object();
    if (vocab.size() > kMaxVocabulary) return too_many("model.vocab", vocab.size(), kMaxVocabulary);
    vocabulary.ids = StringMap(vocab.size());
    for (const auto& entry : vocab) {
        const std::string_view token(entry.key().data(), entry.key().size());
        const Result<TokenId> id = read_id(entry.value(), "model.vocab[" + quote(token) + "]");
        if (!id) return id.error();
        if (token.empty() || token.size() > kMaxTokenBytes)
            return bad_field("model.vocab", "",
                             "tokens of 1 to " + std::to_string(kMaxTokenBytes) + " bytes; id " +
                                 std::to_string(*id) + " has " + std::to_string(token.size()));
        if (vocabulary.spellings.size() <= size_t(*id)) vocabulary.spellings.resize(size_t(*id) + 1);
        std::string_view& spelling = vocabulary.spellings[size_t(*id)];
        if (!spelling.empty())
            return Error{ErrorCode::corrupt_data, "model.vocab: the id " + std::to_string(*id) +
                                                      " belongs to " + quote(spelling) + " and " +
                                                      quote(token)};
        spelling = token;
        vocabulary.ids.insert(token, *id);
    }
    return {};
}

Result<AddedToken> read_added_token(const json::value& value, const std::string& where) {
    if (!value.is_object()) return bad_field(where, "", "an object");
    const json::object& object = value.get_object();
    AddedToken token;
    const json::value* id = member(object, "id");
    if (!id) return bad_field(where, "id", "an id");
    const Result<TokenId> number = read_id(*id, where + ".id");
    if (!number) return number.error();
    token.id = *number;
    const Result<std::string_view> content = string_field(object, "content", where);
    if (!content) return content.error();
    if (content->empty() || content->size() > kMaxAddedTokenBytes)
        return bad_field(where, "content", "1 to " + std::to_string(kMaxAddedTokenBytes) + " bytes");
    token.content = *content;
    for (const auto& [key, flag] : {std::pair{"special", &token.special},
                                    {"normalized", &token.normalized},
                                    {"lstrip", &token.left_strip},
                                    {"rstrip", &token.right_strip},
                                    {"single_word", &token.single_word}}) {
        const Result<bool> set = bool_field(object, key, false, where);
        if (!set) return set.error();
        *flag = *set;
    }
    return token;
}

Status read_added_tokens(const json::object& root, std::vector<AddedToken>& added) {
    const json::value* value = member(root, "added_tokens");
    if (!value) return {};
    if (!value->is_array()) return bad_field("added_tokens", "", "an array");
    const json::array& list = value->get_array();
    if (list.size() > kMaxAddedTokens) return too_many("added_tokens", list.size(), kMaxAddedTokens);
    size_t bytes = 0;
    std::unordered_set<TokenId> ids;
    for (size_t i = 0; i < list.size(); ++i) {
        Result<AddedToken> token = read_added_token(list[i], "added_tokens[" + std::to_string(i) + "]");
        if (!token) return std::move(token).error();
        if (!ids.insert(token->id).second)
            return bad_field(
                "added_tokens[" + std::to_string(i) + "]", "id",
                "an id that no earlier one has; " + std::to_string(token->id) + " is there twice");
        bytes += token->content.size();
        if (bytes > kMaxAddedTokenBytesInAll)
            return Error{ErrorCode::resource_exhausted, "added_tokens: more than " +
                                                            std::to_string(kMaxAddedTokenBytesInAll) +
                                                            " bytes of spellings"};
        added.push_back(std::move(*token));
    }
    return {};
}

Result<std::vector<MergeRule>> read_merges(const json::object& model) {
    std::vector<MergeRule> rules;
    const json::value* value = member(model, "merges");
    if (!value || !value->is_array()) return bad_field("model", "merges", "an array");
    const json::array& list = value->get_array();
    if (list.size() > kMaxMerges) return too_many("model.merges", list.size(), kMaxMerges);
    rules.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].is_string()) {
            const Result<MergeRule> rule = split_merge(view(list[i].get_string()), "model.merges", i);
            if (!rule) return rule.error();
            rules.push_back(*rule);
        } else if (list[i].is_array() && list[i].get_array().size() == 2 &&
                   list[i].get_array()[0].is_string() && list[i].get_array()[1].is_string()) {
            rules.push_back(
                {view(list[i].get_array()[0].get_string()), view(list[i].get_array()[1].get_string())});
        } else {
            return bad_field("model.merges[" + std::to_string(i) + "]", "",
                             "\"left right\" or [\"left\", \"right\"]");
        }
    }
    return rules;
}

Status read_model_options(const json::object& model, const Vocabulary& vocabulary, BpeModel& bpe) {
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        const Result<std::string_view> affix = string_field(model, key, "model");
        if (!affix) return affix.error();
        if (!affix->empty())
            return Error{ErrorCode::unsupported,
                         "model." + std::string(key) + ": " + quote(*affix) + " is not supported"};
    }
    if (const json::value* dropout = member(model, "dropout")) {
        const bool is_zero = (dropout->is_double() && dropout->get_double() == 0) ||
                             (dropout->is_int64() && dropout->get_int64() == 0);
        if (!is_zero) return Error{ErrorCode::unsupported, "model.dropout: only null or 0 is supported"};
    }
    for (const auto& [key, flag] : {std::pair{"fuse_unk", &bpe.fuse_unknown},
                                    {"byte_fallback", &bpe.byte_fallback},
                                    {"ignore_merges", &bpe.ignore_merges}}) {
        const Result<bool> set = bool_field(model, key, false, "model");
        if (!set) return set.error();
        *flag = *set;
    }
    const Result<std::string_view> unknown = string_field(model, "unk_token", "model");
    if (!unknown) return unknown.error();
    if (!unknown->empty()) {
        const TokenId id = vocabulary.ids.find(*unknown);
        if (id < 0)
            return Error{ErrorCode::corrupt_data,
                         "model.unk_token: " + quote(*unknown) + " is not in model.vocab"};
        bpe.unknown = id;
    }
    return {};
}

// A TemplateProcessing that begins with a special token: the tokenizer adds BOS.
void find_template_bos(const json::value& value, TokenizerParts& parts, int depth = 0) {
    if (!value.is_object() || depth > 4) return;
    const json::object& object = value.get_object();
    if (const json::value* list = member(object, "processors"); list && list->is_array()) {
        for (const json::value& processor : list->get_array()) find_template_bos(processor, parts, depth + 1);
    }
    const json::value* single = member(object, "single");
    if (!single || !single->is_array() || single->get_array().empty()) return;
    const json::value& first = single->get_array().front();
    if (!first.is_object()) return;
    const json::value* special = member(first.get_object(), "SpecialToken");
    if (!special || !special->is_object()) return;
    const json::value* id = member(special->get_object(), "id");
    if (!id || !id->is_string()) return;
    for (const AddedToken& token : parts.added) {
        if (token.content == view(id->get_string())) parts.bos = token.id, parts.adds_bos = true;
    }
}

Status check_model_kind(const json::object& model) {
    const Result<std::string_view> kind = string_field(model, "type", "model");
    if (!kind) return kind.error();
    // Files of early versions have no type; only BPE has merges.
    const bool is_bpe = *kind == "BPE" || (kind->empty() && member(model, "merges"));
    if (!is_bpe)
        return Error{ErrorCode::unsupported,
                     "model.type: " + quote(*kind) + " is not supported, only \"BPE\""};
    return {};
}

void decode_entries(TokenizerParts& parts, const Vocabulary& vocabulary, const EntryDecoding& decoding) {
    size_t size = vocabulary.spellings.size();
    for (const AddedToken& token : parts.added) size = std::max(size, size_t(token.id) + 1);
    std::vector<std::string_view> spellings = vocabulary.spellings;
    spellings.resize(size);
    for (const AddedToken& token : parts.added) spellings[size_t(token.id)] = token.content;
    const ByteAlphabet alphabet;
    for (const std::string_view entry : spellings)
        parts.bytes.append(decoded_entry(entry, decoding, alphabet));
}

Result<TokenizerParts> read_root(const json::object& root) {
    const json::value* model_value = member(root, "model");
    if (!model_value || !model_value->is_object()) return bad_field("model", "", "an object");
    const json::object& model = model_value->get_object();
    TokenizerParts parts;
    Vocabulary vocabulary;
    if (Status done = check_model_kind(model); !done) return done.error();
    if (Status done = read_vocab(model, vocabulary); !done) return done.error();
    if (Status done = read_model_options(model, vocabulary, parts.bpe); !done) return done.error();
    if (Status done = read_added_tokens(root, parts.added); !done) return done.error();

    static const json::value kNull;
    const auto field = [&](std::string_view key) -> const json::value& {
        const json::value* value = member(root, key);
        return value ? *value : kNull;
    };
    if (Status done = read_normalizer(field("normalizer"), parts.normalizer); !done) return done.error();
    const Result<PreTokenizerTraits> pre = read_pre_tokenizer(field("pre_tokenizer"), parts.pre_tokenizer);
    if (!pre) return pre.error();
    const Result<DecoderTraits> decoder = read_decoder(field("decoder"));
    if (!decoder) return decoder.error();
    const Spelling spelling = pre->byte_level ? Spelling::byte_level : Spelling::sentencepiece;
    if (pre->byte_level != decoder->entries.byte_alphabet)
        return Error{ErrorCode::unsupported,
                     "decoder: ByteLevel without a ByteLevel pre_tokenizer, or the reverse, is "
                     "not supported"};
    parts.strips_leading_space = decoder->strips_leading_space;

    for (AddedToken& token : parts.added) {
        token.is_text = !token.special && is_text_token(token.content, spelling == Spelling::sentencepiece);
        if (token.special && size_t(token.id) < vocabulary.spellings.size()) vocabulary.exclude(token.id);
    }
    decode_entries(parts, vocabulary, decoder->entries);
    set_symbols(parts.bpe, vocabulary, spelling);
    if (parts.bpe.ignore_merges) set_words(parts.bpe, vocabulary, spelling, parts.bytes);
    const Result<std::vector<MergeRule>> rules = read_merges(model);
    if (!rules) return rules.error();
    if (Status done = set_merges(parts.bpe, vocabulary, *rules, "model.merges"); !done) return done.error();
    if (spelling == Spelling::sentencepiece && !parts.bpe.ignore_merges &&
        parts.bpe.character_symbol.find(0x2581)) {
        std::vector<std::string> joined;
        joined.reserve(rules->size());
        for (const MergeRule& rule : *rules)
            joined.push_back(std::string(rule.left) + std::string(rule.right));
        const std::vector<std::string_view> merged(joined.begin(), joined.end());
        add_safe_word_borders(parts.pre_tokenizer, merged);
    }
    find_template_bos(field("post_processor"), parts);
    return parts;
}

}  // namespace

Result<TokenizerParts> read_tokenizer_json(std::string_view text) {
    JsonLimits limits;
    limits.max_bytes = kMaxTokenizerJsonBytes;
    const Result<json::value> root = parse_json(text, "tokenizer.json", limits);
    if (!root) return root.error();
    if (!root->is_object()) return bad_field("tokenizer.json", "", "an object");
    Result<TokenizerParts> parts = read_root(root->get_object());
    if (!parts) return Error{parts.error().code, "tokenizer.json: " + parts.error().message};
    return parts;
}

}  // namespace deepinfer::tokenizer
