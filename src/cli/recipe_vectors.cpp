#include "cli/recipe_vectors.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "api/answer_events.h"
#include "api/official_codec.h"
#include "cli/json_difference.h"
#include "cli/recipe_json.h"
#include "cli/recipe_stream.h"
#include "recipe/image_size.h"
#include "recipe/text_stream.h"

namespace deepinfer::cli {

namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

std::string text_of(const json::value& value) { return std::string(value.as_string()); }

api::Protocol protocol_of(const json::object& vector) {
    const std::string_view name = vector.at("api").as_string();
    return name == "chat"        ? api::Protocol::chat
           : name == "responses" ? api::Protocol::responses
                                 : api::Protocol::messages;
}

api::OfficialService service_of(const json::object& vector) {
    api::OfficialService service;
    for (const auto& option : vector.at("options").as_object()) {
        const std::string_view name = option.key();
        const json::value& value = option.value();
        if (name == "default_thinking_mode") service.rules.thinks_by_default = value.as_bool();
        if (name == "reasoning_content_behavior") service.rules.wants_reasoning_back = value == "Reject";
        if (name == "responses_web_search") service.rules.drops_responses_web_search = value != "Reject";
        if (name == "messages_web_search") service.rules.drops_messages_web_search = value == "Drop";
        if (name == "non_thinking_max_tokens_upper_bound")
            service.rules.most_tokens_not_thinking = value.to_number<int64_t>();
        if (name == "thinking_max_tokens_upper_bound")
            service.rules.most_tokens_thinking = value.to_number<int64_t>();
        if (name == "model_aliases")
            for (const auto& alias : value.as_object())
                service.models[alias.key()] =
                    alias.value() == "v4" ? api::Wording::deepseek_v4 : api::Wording::deepseek_v41;
    }
    return service;
}

std::string body_of(const json::object& vector) {
    const json::value& request = vector.at("request");
    return request.is_string() ? text_of(request) : json::serialize(request);
}

// Our codes of errors, by the kinds of the recording.
std::string kind_of(const api::ApiError& error) {
    if (error.code == "missing_required_parameter") return "missing_field";
    if (error.code == "invalid_type" || error.code == "invalid_value") return "wrong_type_or_variant";
    return error.code;
}

bool is_of_parsing(std::string_view kind) {
    return kind == "invalid_json" || kind == "missing_field" || kind == "wrong_type_or_variant";
}

// A key with a space in it is cut there by the official parser, and a parameter that does not say whether it is a string
// swallows all that follows.
bool is_surpassed(std::string_view name) {
    return name.ends_with("_param_name_space") || name.ends_with("_string_attr_missing");
}

std::string sha256(const std::string& text) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
    std::string out;
    for (const unsigned char byte : digest) {
        char digits[4];
        std::snprintf(digits, sizeof digits, "%02x", byte);
        out += digits;
    }
    return out;
}

json::array ids_json(const std::vector<TokenId>& ids) { return json::array(ids.begin(), ids.end()); }

}  // namespace

Status RecipeVectors::check(const fs::path& path) {
    std::error_code error;
    if (!fs::exists(path, error)) return Error{ErrorCode::not_found, path.string() + " does not exist"};
    if (!fs::is_directory(path, error)) return check_file(path);
    std::vector<fs::path> files;
    for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error))
        if (at->is_regular_file(error) && at->path().extension() == ".json") files.push_back(at->path());
    if (error) return Error{ErrorCode::io_error, path.string() + " cannot be read: " + error.message()};
    std::ranges::sort(files);
    for (const fs::path& file : files)
        if (Status checked = check_file(file); !checked) return checked;
    return {};
}

Status RecipeVectors::check_file(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) return Error{ErrorCode::io_error, file.string() + " cannot be read"};
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const auto parsed = parse_json(text, file.string(), {.max_depth = 128});
    if (!parsed) return parsed.error();
    const json::object* vector = parsed->if_object();
    const std::string name = file.stem().string();
    const auto has = [&](std::string_view member) { return vector && vector->contains(member); };
    try {
        if (has("expected_prompt_text")) {
            record("prompt", name, check_prompt(*vector));
        } else if (has("expected") && has("request")) {
            record("errors", name, check_error(*vector));
        } else if (is_surpassed(name)) {
            excluded_.push_back(name);
        } else if (has("valid_ids")) {
            check_call_ids(*vector, name);
        } else if (has("resolve")) {
            check_image_sizes(*vector, name);
        } else if (has("expected_events")) {
            const auto read =
                api::read_official_request(service_of(*vector), protocol_of(*vector), body_of(*vector));
            const tokenizer::Tokenizer* tokenizer = tokenizer_of(vector->at("version").as_string());
            std::string found = read ? "" : "refused: " + read.error().message;
            if (!tokenizer) found = "needs the V4.1 tokenizer: give --added-tokens";
            if (found.empty()) found = check_stream(*vector, protocol_of(*vector), *read, tokenizer);
            record("stream", name, found);
        } else if (has("cases") && vector->at("cases").is_array() &&
                   !vector->at("cases").get_array().empty()) {
            const json::value& first = vector->at("cases").get_array()[0];
            if (first.is_array() && first.get_array().size() == 3)
                check_token_counts(*vector, name);
            else if (first.is_object() && first.get_object().contains("unit"))
                check_long_runs(*vector, name);
            else if (first.is_object() && first.get_object().contains("literal"))
                check_numbers(*vector, name);
            else if (first.is_object() &&
                     (first.get_object().contains("ids_plain") || first.get_object().contains("ids")))
                check_encoding(*vector, name);
            else
                skipped_.push_back(file.string());
        } else {
            skipped_.push_back(file.string());
        }
    } catch (const std::exception& error) {
        return Error{ErrorCode::corrupt_data,
                     file.string() + " has not the form of its kind: " + error.what()};
    }
    return {};
}

void RecipeVectors::record(const std::string& kind, const std::string& name, const std::string& difference) {
    Tally& tally = by_kind_[kind];
    ++(difference.empty() ? tally.passed : tally.failed);
    if (!difference.empty()) failures_.push_back({kind + "/" + name, difference});
}

std::string RecipeVectors::check_prompt(const json::object& vector) const {
    const tokenizer::Tokenizer* tokenizer = tokenizer_of(vector.at("version").as_string());
    if (!tokenizer) return "needs the V4.1 tokenizer: give --added-tokens";
    const auto read = api::read_official_request(service_of(vector), protocol_of(vector), body_of(vector));
    if (!read) return "refused: " + read.error().message;
    const recipe::DeepSeekPrompt& prompt = read->prompt;
    const auto ids = recipe::encode(*tokenizer, prompt.marked);
    if (!ids) return ids.error().message;
    const recipe::Conversation& conversation = read->converted.conversation;
    const int64_t max_tokens = read->options.max_tokens.value_or(
        api::official_max_tokens(conversation, static_cast<int64_t>(ids->size()), int64_t{1} << 20));
    std::string found = difference("text", prompt.marked.text, text_of(vector.at("expected_prompt_text")));
    const auto also = [&](std::string_view what, const json::value& ours, const char* member) {
        if (found.empty()) found = difference(what, ours, vector.at(member));
    };
    also("special ranges", ranges_json(prompt.marked), "expected_special_ranges_codepoints");
    also("token ids", ids_json(*ids), "expected_token_ids");
    also("images", images_json(prompt.images), "expected_image_sources");
    also("sampling", options_json(read->options), "expected_inference_options");
    also("reading", output_json(read->converted.output), "expected_parsing_options");
    also("stream", read->stream, "expected_stream");
    also("conversation", conversation_json(conversation), "expected_conversation");
    also("default of max_tokens", max_tokens, "expected_default_max_tokens");
    return found;
}

std::string RecipeVectors::check_error(const json::object& vector) const {
    const json::object& expected = vector.at("expected").as_object();
    const auto read = api::read_official_request(service_of(vector), protocol_of(vector), body_of(vector));
    if (read) return "not refused";
    const std::string kind = kind_of(read.error());
    std::string found = difference("kind (" + read.error().message + ")", kind, text_of(expected.at("kind")));
    if (found.empty())
        found = difference("stage", is_of_parsing(kind) ? "parse" : "convert", text_of(expected.at("stage")));
    if (found.empty())
        found = difference("status", json::value(read.error().status), expected.at("http_status"));
    return found;
}

void RecipeVectors::check_numbers(const json::object& vector, const std::string& name) {
    for (const json::value& one : vector.at("cases").as_array()) {
        const std::string literal = text_of(one.at("literal"));
        for (const auto version : {recipe::DeepSeekVersion::v4, recipe::DeepSeekVersion::v41}) {
            const char* member = version == recipe::DeepSeekVersion::v4 ? "v4" : "v41";
            const auto parsed = parse_json(literal, "number");
            std::string ours = "(arguments fallback: not valid JSON for the oracle)";
            if (parsed) ours = recipe::to_text(*parsed, recipe::DeepSeekFormat(version).json_style());
            record("numbers", name + " " + literal + " " + member,
                   difference("text", ours, text_of(one.at(member))));
        }
    }
}

void RecipeVectors::check_encoding(const json::object& vector, const std::string& name) {
    size_t index = 0;
    for (const json::value& one : vector.at("cases").as_array()) {
        const std::string case_name = name + " case " + std::to_string(index++);
        const json::object& members = one.as_object();
        if (!v41_) {
            record("tokenize", case_name, "needs the V4.1 tokenizer: give --added-tokens");
            continue;
        }
        if (members.contains("ids")) {
            const auto ids = json::value_to<std::vector<TokenId>>(members.at("ids"));
            record("tokenize", case_name,
                   difference("text", v41_->decode(ids, true), text_of(members.at("text"))));
            continue;
        }
        const std::string text = text_of(members.at("text"));
        const json::value& plain = members.at("ids_plain");
        const json::value& with_v4 = members.at("ids_v4").is_null() ? plain : members.at("ids_v4");
        const json::value& with_v41 = members.at("ids_v41").is_null() ? with_v4 : members.at("ids_v41");
        using tokenizer::Special;
        std::string found = difference("plain ids", ids_json(v4_.encode(text)), plain);
        if (found.empty()) found = difference("ids", ids_json(v4_.encode(text, Special::parse)), with_v4);
        if (found.empty())
            found = difference("V4.1 ids", ids_json(v41_->encode(text, Special::parse)), with_v41);
        record("tokenize", case_name, found);
    }
}

void RecipeVectors::check_long_runs(const json::object& vector, const std::string& name) {
    for (const json::value& one : vector.at("cases").as_array()) {
        const std::string unit = text_of(one.at("unit"));
        std::string text, ids;
        for (auto n = one.at("repeat").to_number<size_t>(); n > 0; --n) text += unit;
        for (const TokenId id : v4_.encode(text)) ids += (ids.empty() ? "" : ",") + std::to_string(id);
        record("tokenize", name + " " + unit,
               difference("hash of ids", sha256(ids), text_of(one.at("plain").at("sha256"))));
    }
}

void RecipeVectors::check_token_counts(const json::object& vector, const std::string& name) {
    for (const json::value& one : vector.at("cases").as_array()) {
        const auto at = [&](size_t i) { return one.as_array().at(i).to_number<int64_t>(); };
        record("image", name + " " + json::serialize(one),
               difference("tokens", json::value(recipe::settle_image({at(0), at(1)}).tokens),
                          json::value(at(2))));
    }
}

// [width, height, format, detail] -> [width, height, …]; a picture counts as one token of its prompt before it is known.
void RecipeVectors::check_image_sizes(const json::object& vector, const std::string& name) {
    for (const json::value& one : vector.at("resolve").as_array()) {
        const json::array& in = one.at("in").as_array();
        const json::array& out = one.at("out").as_array();
        const recipe::ImageGrid grid = recipe::service_image(
            {in.at(0).to_number<int64_t>(), in.at(1).to_number<int64_t>()}, in.at(3) == "low");
        const json::value ours = json::array{grid.canvas.width, grid.canvas.height, grid.tokens - 1};
        const json::value theirs = json::array{out.at(0), out.at(1), one.at("adjustment")};
        record("image", name + " " + json::serialize(in), difference("size and tokens", ours, theirs));
    }
}

void RecipeVectors::check_call_ids(const json::object& vector, const std::string& name) {
    for (const json::value& id : vector.at("valid_ids").as_array())
        record("ids", name + " " + text_of(id),
               api::is_tool_call_id(text_of(id)) ? "" : "its last four digits are not its hash");
}

}  // namespace deepinfer::cli
