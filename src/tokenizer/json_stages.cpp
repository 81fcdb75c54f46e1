#include "tokenizer/json_stages.h"

#include <optional>
#include <string>

#include "tokenizer/json_fields.h"
#include "tokenizer/unicode.h"

namespace deepinfer::tokenizer {
namespace {

namespace json = boost::json;

// \w+|[^\w\s]+ as the Rust crate regex has it: its \w is Alphabetic, M, Nd, Pc and Join_Control.
#define DEEPINFER_RUST_WORD                                                                                  \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-" \
    "\\x{1f169}"                                                                                             \
    "\\x{1f170}-\\x{1f189}"
constexpr std::string_view kWhitespaceWords = "[" DEEPINFER_RUST_WORD "]+|[^\\s" DEEPINFER_RUST_WORD "]+";
#undef DEEPINFER_RUST_WORD

constexpr size_t kMaxStages = 64;  // of a sequence, nested ones included
constexpr std::string_view kMetaspace = "\xE2\x96\x81";

Error unsupported_kind(std::string_view where, std::string_view kind) {
    return Error{ErrorCode::unsupported, std::string(where) + ".type: " + quote(kind) + " is not supported"};
}

// Calls read(object, kind, where) for the object, or for each of a Sequence, depth first.
template <class Read>
Status for_each_stage(const json::value& value, std::string_view where, std::string_view list_key,
                      size_t& budget, Read read) {
    if (value.is_null()) return {};
    if (!value.is_object()) return bad_field(where, "", "an object or null");
    if (budget-- == 0)
        return Error{ErrorCode::resource_exhausted,
                     std::string(where) + ": more than " + std::to_string(kMaxStages) + " stages"};
    const json::object& object = value.get_object();
    const Result<std::string_view> kind = string_field(object, "type", where);
    if (!kind) return kind.error();
    if (kind->empty()) return bad_field(where, "type", "the name of a kind");
    if (*kind != "Sequence") return read(object, *kind, std::string(where));
    const json::value* list = member(object, list_key);
    if (!list || !list->is_array()) return bad_field(where, list_key, "an array");
    for (size_t i = 0; i < list->get_array().size(); ++i) {
        const std::string inner =
            std::string(where) + "." + std::string(list_key) + "[" + std::to_string(i) + "]";
        if (Status done = for_each_stage(list->get_array()[i], inner, list_key, budget, read); !done)
            return done;
    }
    return {};
}

struct PatternField {
    std::string_view text;
    bool is_regex;
};

// {"Regex": "..."} or {"String": "..."}.
Result<PatternField> read_pattern(const json::object& object, std::string_view where) {
    const json::value* value = member(object, "pattern");
    if (value && value->is_object() && value->get_object().size() == 1) {
        const auto& entry = *value->get_object().begin();
        const std::string_view key(entry.key().data(), entry.key().size());
        if (entry.value().is_string() && (key == "Regex" || key == "String"))
            return PatternField{view(entry.value().get_string()), key == "Regex"};
    }
    return bad_field(where, "pattern", "{\"Regex\": \"...\"} or {\"String\": \"...\"}");
}

Result<SplitBehavior> read_behavior(const json::object& object, std::string_view where,
                                    std::optional<SplitBehavior> otherwise) {
    const Result<std::string_view> name = string_field(object, "behavior", where);
    if (!name) return name.error();
    if (*name == "Isolated") return SplitBehavior::isolated;
    if (*name == "Removed") return SplitBehavior::removed;
    if (*name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
    if (*name == "MergedWithNext") return SplitBehavior::merged_with_next;
    if (*name == "Contiguous") return SplitBehavior::contiguous;
    if (name->empty() && otherwise) return *otherwise;
    return bad_field(where, "behavior",
                     "Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

Status read_normalizer_stage(const json::object& object, std::string_view kind, const std::string& where,
                             Normalizer& normalizer) {
    if (kind == "NFC") return normalizer.add(Normalizer::Form::nfc), Status();
    if (kind == "NFD") return normalizer.add(Normalizer::Form::nfd), Status();
    if (kind == "NFKC") return normalizer.add(Normalizer::Form::nfkc), Status();
    if (kind == "NFKD") return normalizer.add(Normalizer::Form::nfkd), Status();
    if (kind == "Prepend") {
        const Result<std::string_view> text = string_field(object, "prepend", where);
        if (!text) return text.error();
        if (!text->empty()) normalizer.add(Normalizer::Prepend{std::string(*text)});
        return {};
    }
    if (kind == "Replace") {
        const Result<PatternField> pattern = read_pattern(object, where);
        if (!pattern) return pattern.error();
        const Result<std::string_view> content = string_field(object, "content", where);
        if (!content) return content.error();
        if (pattern->is_regex) {
            Result<Pattern> compiled = Pattern::compile(pattern->text, where + ".pattern");
            if (!compiled) return compiled.error();
            normalizer.add(Normalizer::ReplacePattern{std::move(*compiled), std::string(*content)});
        } else if (pattern->text.empty()) {
            return bad_field(where, "pattern", "a string that is not empty");
        } else {
            normalizer.add(Normalizer::Replace{std::string(pattern->text), std::string(*content)});
        }
        return {};
    }
    return unsupported_kind(where, kind);
}

Status read_byte_level(const json::object& object, const std::string& where, PreTokenizer& pre_tokenizer) {
    const Result<bool> prefix = bool_field(object, "add_prefix_space", true, where);
    if (!prefix) return prefix.error();
    const Result<bool> use_regex = bool_field(object, "use_regex", true, where);
    if (!use_regex) return use_regex.error();
    if (*prefix) pre_tokenizer.add_prefix_space();
    if (*use_regex)
        return pre_tokenizer.add_split_pattern(kGpt2Pattern, SplitBehavior::isolated, false, where);
    return {};
}

Status read_metaspace(const json::object& object, const std::string& where, PreTokenizer& pre_tokenizer) {
    const Result<std::string_view> replacement = string_field(object, "replacement", where);
    if (!replacement) return replacement.error();
    const Result<std::string_view> scheme = string_field(object, "prepend_scheme", where);
    if (!scheme) return scheme.error();
    const Result<bool> legacy_prefix = bool_field(object, "add_prefix_space", true, where);
    if (!legacy_prefix) return legacy_prefix.error();
    const Result<bool> split = bool_field(object, "split", true, where);
    if (!split) return split.error();
    PreTokenizer::Prepend prepend;
    if (*scheme == "always" || (scheme->empty() && *legacy_prefix)) {
        prepend = PreTokenizer::Prepend::always;
    } else if (*scheme == "never" || scheme->empty()) {
        prepend = PreTokenizer::Prepend::never;
    } else if (*scheme == "first") {
        prepend = PreTokenizer::Prepend::first;
    } else {
        return bad_field(where, "prepend_scheme", "always, first or never");
    }
    pre_tokenizer.add_metaspace(std::string(replacement->empty() ? kMetaspace : *replacement), prepend,
                                *split);
    return {};
}

Status read_punctuation(const json::object& object, const std::string& where, PreTokenizer& pre_tokenizer) {
    const Result<SplitBehavior> behavior = read_behavior(object, where, SplitBehavior::isolated);
    if (!behavior) return behavior.error();
    if (*behavior == SplitBehavior::isolated || *behavior == SplitBehavior::contiguous) {
        pre_tokenizer.add_splitter(
            make_punctuation_splitter(*behavior == SplitBehavior::isolated ? 1 : SIZE_MAX));
        return {};
    }
    return pre_tokenizer.add_split_pattern("[\\p{P}$+<=>^`|~]", *behavior, false, where);
}

Status read_split(const json::object& object, const std::string& where, PreTokenizer& pre_tokenizer) {
    const Result<PatternField> pattern = read_pattern(object, where);
    if (!pattern) return pattern.error();
    const Result<SplitBehavior> behavior = read_behavior(object, where, std::nullopt);
    if (!behavior) return behavior.error();
    const Result<bool> invert = bool_field(object, "invert", false, where);
    if (!invert) return invert.error();
    if (pattern->is_regex)
        return pre_tokenizer.add_split_pattern(pattern->text, *behavior, *invert, where + ".pattern.Regex");
    pre_tokenizer.add_split_string(std::string(pattern->text), *behavior, *invert);
    return {};
}

Status read_pre_tokenizer_stage(const json::object& object, std::string_view kind, const std::string& where,
                                PreTokenizer& pre_tokenizer, PreTokenizerTraits& traits) {
    if (traits.byte_level)
        return Error{ErrorCode::unsupported,
                     where + ".type: " + quote(kind) + " after ByteLevel is not supported"};
    if (kind == "ByteLevel") {
        traits.byte_level = true;
        return read_byte_level(object, where, pre_tokenizer);
    }
    if (kind == "Split") return read_split(object, where, pre_tokenizer);
    if (kind == "Metaspace") return read_metaspace(object, where, pre_tokenizer);
    if (kind == "Punctuation") return read_punctuation(object, where, pre_tokenizer);
    if (kind == "Digits") {
        const Result<bool> individual = bool_field(object, "individual_digits", false, where);
        if (!individual) return individual.error();
        pre_tokenizer.add_splitter(find_scanner(*individual ? "\\p{N}" : "\\p{N}+"));
        return {};
    }
    if (kind == "Whitespace")
        return pre_tokenizer.add_split_pattern(kWhitespaceWords, SplitBehavior::removed, true, where);
    if (kind == "WhitespaceSplit")
        return pre_tokenizer.add_split_pattern("\\s", SplitBehavior::removed, false, where);
    return unsupported_kind(where, kind);
}

Status read_decoder_stage(const json::object& object, std::string_view kind, const std::string& where,
                          DecoderTraits& traits, bool& known) {
    known = true;
    if (kind == "ByteLevel") {
        traits.entries.byte_alphabet = true;
        return {};
    }
    if (kind == "Fuse") return {};
    if (kind == "ByteFallback") {
        traits.entries.byte_tokens = true;
        return {};
    }
    if (kind == "Metaspace") {
        const Result<std::string_view> replacement = string_field(object, "replacement", where);
        if (!replacement) return replacement.error();
        if (!replacement->empty() && *replacement != kMetaspace)
            return Error{ErrorCode::unsupported,
                         where + ".replacement: " + quote(*replacement) + " is not supported, only \"▁\""};
        const Result<std::string_view> scheme = string_field(object, "prepend_scheme", where);
        if (!scheme) return scheme.error();
        const Result<bool> legacy_prefix = bool_field(object, "add_prefix_space", true, where);
        if (!legacy_prefix) return legacy_prefix.error();
        traits.entries.metaspace = true;
        traits.strips_leading_space = scheme->empty() ? *legacy_prefix : *scheme != "never";
        return {};
    }
    if (kind == "Replace") {
        const Result<PatternField> pattern = read_pattern(object, where);
        if (!pattern) return pattern.error();
        const Result<std::string_view> content = string_field(object, "content", where);
        if (!content) return content.error();
        if (pattern->is_regex || pattern->text != kMetaspace || *content != " ")
            return Error{ErrorCode::unsupported,
                         where + ": only the replacement of \"▁\" by \" \" is supported"};
        traits.entries.metaspace = true;
        return {};
    }
    if (kind == "Strip") {
        const Result<std::string_view> content = string_field(object, "content", where);
        if (!content) return content.error();
        const json::value* start = member(object, "start");
        const json::value* stop = member(object, "stop");
        const bool starts_with_one = start && start->is_int64() && start->get_int64() == 1;
        const bool no_start = !start || (start->is_int64() && start->get_int64() == 0);
        const bool no_stop = !stop || (stop->is_int64() && stop->get_int64() == 0);
        if (*content != " " || !no_stop || !(starts_with_one || no_start))
            return Error{ErrorCode::unsupported, where + ": only stripping one leading space is supported"};
        traits.strips_leading_space = starts_with_one;
        return {};
    }
    return unsupported_kind(where, kind);
}

}  // namespace

Status read_normalizer(const json::value& value, Normalizer& normalizer) {
    size_t budget = kMaxStages;
    return for_each_stage(value, "normalizer", "normalizers", budget,
                          [&](const json::object& object, std::string_view kind, const std::string& where) {
                              return read_normalizer_stage(object, kind, where, normalizer);
                          });
}

Result<PreTokenizerTraits> read_pre_tokenizer(const json::value& value, PreTokenizer& pre_tokenizer) {
    PreTokenizerTraits traits;
    size_t budget = kMaxStages;
    const Status done =
        for_each_stage(value, "pre_tokenizer", "pretokenizers", budget,
                       [&](const json::object& object, std::string_view kind, const std::string& where) {
                           return read_pre_tokenizer_stage(object, kind, where, pre_tokenizer, traits);
                       });
    if (!done) return done.error();
    return traits;
}

Result<DecoderTraits> read_decoder(const json::value& value) {
    DecoderTraits traits;
    bool known = false;
    size_t budget = kMaxStages;
    const Status done =
        for_each_stage(value, "decoder", "decoders", budget,
                       [&](const json::object& object, std::string_view kind, const std::string& where) {
                           return read_decoder_stage(object, kind, where, traits, known);
                       });
    if (!done) return done.error();
    if (!known) return Error{ErrorCode::unsupported, "decoder: a tokenizer without one is not supported"};
    return traits;
}

}  // namespace deepinfer::tokenizer
