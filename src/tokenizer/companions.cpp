#include <filesystem>
#include <optional>
#include <string>

#include "tokenizer/json_fields.h"
#include "tokenizer/loaders.h"
#include "tokenizer/unicode.h"
#include "tokenizer/vocabulary.h"

namespace deepinfer::tokenizer {
namespace {

namespace json = boost::json;

Result<std::optional<json::object>> read_object(const std::filesystem::path& path) {
    Result<std::optional<std::string>> text = read_optional_file(path, kMaxConfigBytes);
    if (!text) return std::move(text).error();
    if (!*text) return std::optional<json::object>();
    Result<json::value> value = parse_json(**text, path.filename().string());
    if (!value) return std::move(value).error();
    if (!value->is_object()) return bad_field(path.filename().string(), "", "an object");
    return std::optional<json::object>(value->get_object());
}

// A token given as its spelling, or as an object with `content`.
Result<std::optional<TokenId>> named_token(const json::object& config, std::string_view key,
                                           std::string_view where, const TokenizerParts& parts) {
    const json::value* value = member(config, key);
    if (!value) return std::optional<TokenId>();
    if (value->is_object()) value = member(value->get_object(), "content");
    if (!value || !value->is_string()) return bad_field(where, key, "a token or an object with `content`");
    const std::string_view spelling = view(value->get_string());
    for (const AddedToken& token : parts.added) {
        if (token.content == spelling) return std::optional<TokenId>(token.id);
    }
    for (size_t id = 0; id < parts.bytes.size(); ++id) {
        if (parts.bytes[id] == spelling) return std::optional<TokenId>(TokenId(id));
    }
    return Error{ErrorCode::corrupt_data, std::string(where) + "." + std::string(key) + ": " +
                                              quote(spelling) + " is not in the vocabulary"};
}

// An id or a list of ids.
Status read_ids(const json::object& config, std::string_view key, std::string_view where,
                size_t vocabulary_size, std::vector<TokenId>& ids) {
    const json::value* value = member(config, key);
    if (!value) return {};
    const auto add = [&](const json::value& id) {
        if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= int64_t(kMaxVocabulary)) return false;
        // A model may have more ids than its tokenizer knows; those stop nothing.
        if (id.get_int64() < int64_t(vocabulary_size)) ids.push_back(TokenId(id.get_int64()));
        return true;
    };
    bool ok = value->is_array() || add(*value);
    if (value->is_array()) {
        for (const json::value& id : value->get_array()) ok = ok && add(id);
    }
    if (!ok) return bad_field(where, key, "an id or a list of ids");
    return {};
}

Result<std::string> read_template_field(const json::object& config, std::string_view where) {
    const json::value* value = member(config, "chat_template");
    if (!value) return std::string();
    if (value->is_string()) return std::string(view(value->get_string()));
    if (!value->is_array())
        return bad_field(where, "chat_template", "a string or a list of {name, template}");
    std::string first;
    for (const json::value& entry : value->get_array()) {
        if (!entry.is_object()) return bad_field(where, "chat_template", "a list of {name, template}");
        const Result<std::string_view> name = string_field(entry.get_object(), "name", "chat_template");
        if (!name) return name.error();
        const Result<std::string_view> text = string_field(entry.get_object(), "template", "chat_template");
        if (!text) return text.error();
        if (*name == "default") return std::string(*text);
        if (first.empty()) first = *text;
    }
    return first;
}

Status read_tokenizer_config(const std::filesystem::path& folder, TokenizerParts& parts) {
    constexpr std::string_view kName = "tokenizer_config.json";
    const Result<std::optional<json::object>> config = read_object(folder / kName);
    if (!config) return config.error();
    if (!*config) return {};
    const Result<std::optional<TokenId>> bos = named_token(**config, "bos_token", kName, parts);
    if (!bos) return bos.error();
    if (*bos) parts.bos = *bos;
    const Result<std::optional<TokenId>> eos = named_token(**config, "eos_token", kName, parts);
    if (!eos) return eos.error();
    if (*eos) parts.eos = *eos;
    const Result<bool> adds_bos = bool_field(**config, "add_bos_token", parts.adds_bos, kName);
    if (!adds_bos) return adds_bos.error();
    parts.adds_bos = *adds_bos && parts.bos;
    Result<std::string> chat_template = read_template_field(**config, kName);
    if (!chat_template) return std::move(chat_template).error();
    parts.chat_template = std::move(*chat_template);
    return {};
}

}  // namespace

Status read_companions(const std::filesystem::path& folder, std::string_view config_json,
                       TokenizerParts& parts) {
    if (Status done = read_tokenizer_config(folder, parts); !done) return done;

    Result<std::optional<std::string>> jinja =
        read_optional_file(folder / "chat_template.jinja", kMaxChatTemplateBytes);
    if (!jinja) return std::move(jinja).error();
    if (*jinja) parts.chat_template = std::move(**jinja);

    std::vector<TokenId> ends;
    const Result<std::optional<json::object>> generation = read_object(folder / "generation_config.json");
    if (!generation) return generation.error();
    if (*generation) {
        if (Status done =
                read_ids(**generation, "eos_token_id", "generation_config.json", parts.bytes.size(), ends);
            !done)
            return done;
    } else if (!config_json.empty()) {
        const Result<json::value> config = parse_json(config_json, "config.json");
        if (!config) return config.error();
        if (config->is_object()) {
            if (Status done =
                    read_ids(config->get_object(), "eos_token_id", "config.json", parts.bytes.size(), ends);
                !done)
                return done;
        }
    }
    if (!parts.eos && !ends.empty()) parts.eos = ends.front();
    find_end_of_generation(parts, std::move(ends));
    return {};
}

}  // namespace deepinfer::tokenizer
