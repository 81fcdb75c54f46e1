#include "api/completion_request.h"

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <limits>

#include "api/chat_request.h"
#include "api/fields.h"
#include "api/limits.h"
#include "api/request_fields.h"

namespace deepinfer::api {
namespace {

namespace json = boost::json;

std::vector<TokenId> parse_tokens(const json::array& items, const std::string& path) {
    std::vector<TokenId> tokens;
    tokens.reserve(items.size());
    for (size_t i = 0; i < items.size(); ++i)
        tokens.push_back(static_cast<TokenId>(as_integer(items[i], path + "[" + std::to_string(i) + "]", 0,
                                                         std::numeric_limits<TokenId>::max())));
    return tokens;
}

Prompt parse_one_prompt(const json::value& value, const std::string& path) {
    if (value.is_string()) return as_string(value, path);
    if (value.is_array()) return parse_tokens(value.get_array(), path);
    fail(path,
         in_quotes(path) + " must be a string or an array of token ids, but is " + kind_name(value) + ".",
         "invalid_type");
}

std::vector<Prompt> parse_prompts(const Fields& fields) {
    const json::value* value = fields.find("prompt");
    if (!value) fail("prompt", "'prompt' is missing.", "missing_required_parameter");
    const json::array* items = value->if_array();
    if (!items) return {parse_one_prompt(*value, "prompt")};
    if (items->empty()) fail("prompt", "'prompt' must not be empty.", "invalid_value");
    if (items->front().is_number()) return {parse_tokens(*items, "prompt")};
    if (items->size() > limits::prompts)
        fail("prompt",
             "'prompt' has " + std::to_string(items->size()) + " elements; at most " +
                 std::to_string(limits::prompts) + " are allowed in one request.",
             "invalid_value");
    std::vector<Prompt> prompts;
    for (size_t i = 0; i < items->size(); ++i)
        prompts.push_back(parse_one_prompt((*items)[i], "prompt[" + std::to_string(i) + "]"));
    return prompts;
}

void parse_best_of(const Fields& fields, GenerationOptions& options) {
    const auto best_of = fields.integer("best_of", 1, engine::max_choices);
    if (!best_of) return;
    if (*best_of < options.n)
        fail("best_of",
             "'best_of' is " + std::to_string(*best_of) + ", less than 'n', which is " +
                 std::to_string(options.n) + ".",
             "invalid_value");
    if (*best_of > options.n && options.stream)
        fail("best_of",
             "With 'stream': true 'best_of' must not be greater than 'n': the best is known at the end.",
             "invalid_value");
    options.best_of = static_cast<int32_t>(*best_of);
}

CompletionRequest parse_completion(std::string_view body) {
    const json::object object = parse_body(body);
    const Fields fields(object, "");
    check_fields(fields, Endpoint::completions);
    CompletionRequest request;
    request.model = fields.string("model").value_or("");
    request.prompts = parse_prompts(fields);
    request.options = parse_generation_options(fields);
    if (const auto top = fields.integer("logprobs", 0, engine::max_top_logprobs))
        request.options.sampling.top_logprobs = static_cast<int32_t>(*top);
    constexpr int32_t usual_max_tokens = 16;
    request.options.max_tokens =
        static_cast<int32_t>(fields.integer("max_tokens", 1, limits::max_tokens).value_or(usual_max_tokens));
    parse_dependent_options(fields, request.options);
    parse_best_of(fields, request.options);
    request.echo = fields.boolean("echo").value_or(false);
    engine::SamplingParams& sampling = request.options.sampling;
    if (request.echo) sampling.prompt_logprobs = std::max(sampling.prompt_logprobs, sampling.top_logprobs);
    request.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
    request.parse_special_tokens = fields.boolean("parse_special_tokens").value_or(false);
    return request;
}

void check_known(const Fields& fields, std::initializer_list<std::string_view> known) {
    for (const auto& member : fields.object()) {
        const std::string name(member.key());
        if (std::find(known.begin(), known.end(), name) == known.end())
            fail(name, "Unrecognized request argument: '" + name + "'.", "unknown_parameter");
    }
}

void check_absent(const Fields& fields, std::initializer_list<std::string_view> names,
                  const char* belongs_to) {
    for (const std::string_view name : names)
        if (fields.find(name))
            fail(std::string(name), in_quotes(name) + " is only allowed with " + in_quotes(belongs_to) + ".",
                 "invalid_value");
}

TokenizeRequest parse_tokenize(std::string_view body) {
    const json::object object = parse_body(body);
    const Fields fields(object, "");
    check_known(fields, {"model", "prompt", "messages", "add_special_tokens", "parse_special_tokens",
                         "add_generation_prompt", "return_token_strs", "chat_template_kwargs"});
    TokenizeRequest request;
    request.model = fields.string("model").value_or("");
    const std::optional<std::string> prompt = fields.string("prompt");
    const json::array* messages = fields.array("messages");
    if (prompt.has_value() == (messages != nullptr))
        fail("prompt", "Give either 'prompt' (text) or 'messages'.", "missing_required_parameter");
    if (prompt) {
        check_absent(fields, {"add_generation_prompt", "chat_template_kwargs"}, "messages");
        request.input = *prompt;
    } else {
        check_absent(fields, {"add_special_tokens", "parse_special_tokens"}, "prompt");
        recipe::Conversation conversation;
        conversation.messages = parse_messages(*messages);
        conversation.template_options = parse_template_options(fields);
        request.input = std::move(conversation);
    }
    request.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
    request.parse_special_tokens = fields.boolean("parse_special_tokens").value_or(false);
    request.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
    request.return_token_strings = fields.boolean("return_token_strs").value_or(false);
    return request;
}

DetokenizeRequest parse_detokenize(std::string_view body) {
    const json::object object = parse_body(body);
    const Fields fields(object, "");
    check_known(fields, {"model", "tokens"});
    const json::array* tokens = fields.array("tokens");
    if (!tokens) fail("tokens", "'tokens' is missing.", "missing_required_parameter");
    return {.model = fields.string("model").value_or(""), .tokens = parse_tokens(*tokens, "tokens")};
}

template <class T>
Outcome<T> guarded(T (*parse)(std::string_view), std::string_view body) {
    try {
        return parse(body);
    } catch (const FieldError& error) {
        return error.error;
    } catch (const std::exception& error) {
        return internal_error(error.what());
    }
}

}  // namespace

Outcome<CompletionRequest> parse_completion_request(std::string_view body) {
    return guarded(parse_completion, body);
}
Outcome<TokenizeRequest> parse_tokenize_request(std::string_view body) {
    return guarded(parse_tokenize, body);
}
Outcome<DetokenizeRequest> parse_detokenize_request(std::string_view body) {
    return guarded(parse_detokenize, body);
}

}  // namespace deepinfer::api
