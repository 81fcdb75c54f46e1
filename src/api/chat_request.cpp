#include "api/chat_request.h"

#include <algorithm>
#include <exception>

#include "api/fields.h"
#include "api/limits.h"
#include "api/request_fields.h"

namespace deepinfer::api {
namespace {

namespace json = boost::json;
using recipe::Role;

Role parse_role(const Fields& fields) {
    const std::optional<std::string> word = fields.string("role");
    if (!word)
        fail(fields.path("role"), in_quotes(fields.path("role")) + " is missing.",
             "missing_required_parameter");
    for (const Role role : {Role::system, Role::developer, Role::user, Role::assistant, Role::tool})
        if (*word == recipe::to_string(role)) return role;
    fail(fields.path("role"),
         in_quotes(fields.path("role")) +
             " must be one of system, developer, user, assistant, tool, but is '" + word->substr(0, 64) +
             "'.",
         "invalid_value");
}

// A string, or text parts, which are joined by line breaks.
std::optional<std::string> parse_content(const Fields& message) {
    const json::value* value = message.find("content");
    if (!value) return std::nullopt;
    const std::string path = message.path("content");
    if (value->is_string()) return as_string(*value, path);
    if (!value->is_array())
        fail(path,
             in_quotes(path) + " must be a string or an array of parts, but is " + kind_name(*value) + ".",
             "invalid_type");
    std::string text;
    const json::array& parts = value->get_array();
    for (size_t i = 0; i < parts.size(); ++i) {
        const std::string part_path = path + "[" + std::to_string(i) + "]";
        const Fields part(as_object(parts[i], part_path), part_path + ".");
        const std::string type = part.string("type").value_or("");
        if (type != "text")
            fail(part.path("type"),
                 type.empty()
                     ? in_quotes(part.path("type")) + " is missing."
                     : "Content of type '" + type.substr(0, 64) + "' is not supported; only 'text' is.",
                 "unsupported_parameter");
        for (const auto& member : part.object()) {
            if (member.key() != "type" && member.key() != "text" && member.key() != "cache_control" &&
                member.key() != "prompt_cache_breakpoint" && member.key() != "annotations")
                fail(part.path(member.key()),
                     "Unrecognized request argument: '" + part.path(member.key()) + "'.",
                     "unknown_parameter");
        }
        // Hints and leftovers of answers: without effect, but not of any type. (cache_control: see below.)
        (void)part.object("cache_control"), (void)part.object("prompt_cache_breakpoint");
        (void)part.array("annotations");
        const std::optional<std::string> part_text = part.string("text");
        if (!part_text)
            fail(part.path("text"), in_quotes(part.path("text")) + " is missing.",
                 "missing_required_parameter");
        if (i > 0) text += '\n';
        text += *part_text;
    }
    return text;
}

recipe::ToolCall parse_tool_call(const json::value& value, const std::string& path) {
    const Fields call(as_object(value, path), path + ".");
    if (const std::string type = call.string("type").value_or("function"); type != "function")
        fail(call.path("type"),
             "Tool calls of type '" + type.substr(0, 64) + "' are not supported; only 'function' is.",
             "unsupported_parameter");
    const json::object* function_object = call.object("function");
    if (!function_object)
        fail(call.path("function"), in_quotes(call.path("function")) + " is missing.",
             "missing_required_parameter");
    const Fields function(*function_object, call.path("function."));
    recipe::ToolCall result{.id = call.string("id").value_or(""),
                            .name = function.string("name").value_or(""),
                            .arguments = function.string("arguments").value_or("{}")};
    if (result.name.empty())
        fail(function.path("name"), in_quotes(function.path("name")) + " is missing.",
             "missing_required_parameter");
    return result;
}

constexpr std::string_view message_members[] = {"role", "content", "name", "tool_calls", "tool_call_id",
                                                "reasoning_content", "reasoning",
                                                // parts of an answer that clients send back as they got it
                                                "refusal", "annotations", "audio", "function_call"};

recipe::Message parse_message(const json::value& value, const std::string& path) {
    const Fields fields(as_object(value, path), path + ".");
    for (const auto& member : fields.object()) {
        if (std::find(std::begin(message_members), std::end(message_members),
                      std::string_view(member.key())) == std::end(message_members))
            fail(fields.path(member.key()),
                 "Unrecognized request argument: '" + fields.path(member.key()) + "'.", "unknown_parameter");
    }
    for (const std::string_view name : {"audio", "function_call"})
        if (fields.find(name))
            fail(fields.path(name), in_quotes(fields.path(name)) + " is not supported.",
                 "unsupported_parameter");

    (void)fields.array("annotations");
    recipe::Message message;
    message.role = parse_role(fields);
    message.content = parse_content(fields);
    message.name = fields.string("name").value_or("");
    const auto check_is_answer = [&](std::string_view name) {
        if (message.role != Role::assistant)
            fail(fields.path(name), in_quotes(fields.path(name)) + " belongs to messages of role assistant.",
                 "invalid_value");
    };
    if (const json::array* calls = fields.array("tool_calls")) {
        if (!calls->empty()) check_is_answer("tool_calls");
        for (size_t i = 0; i < calls->size(); ++i)
            message.tool_calls.push_back(
                parse_tool_call((*calls)[i], fields.path("tool_calls[" + std::to_string(i) + "]")));
    }
    for (const std::string_view name : {"reasoning_content", "reasoning"}) {
        const std::optional<std::string> text = fields.string(name);
        if (!text || text->empty()) continue;
        check_is_answer(name);
        message.reasoning = *text;
    }
    if (const std::optional<std::string> refusal = fields.string("refusal"); refusal && !message.content)
        message.content = *refusal;
    message.tool_call_id = fields.string("tool_call_id").value_or("");
    if (message.role == Role::tool && message.tool_call_id.empty())
        fail(fields.path("tool_call_id"), in_quotes(fields.path("tool_call_id")) + " is missing.",
             "missing_required_parameter");
    if (message.role != Role::tool && !message.tool_call_id.empty())
        fail(fields.path("tool_call_id"),
             in_quotes(fields.path("tool_call_id")) + " belongs to messages of role tool.", "invalid_value");
    if (!message.content && message.tool_calls.empty())
        fail(fields.path("content"), in_quotes(fields.path("content")) + " is missing.",
             "missing_required_parameter");
    return message;
}

// Tools are taken where the request forbids calling them; then the prompt does not mention them.
void check_tools(const Fields& fields) {
    const json::array* tools = fields.array("tools");
    if (!tools || tools->empty()) return;
    if (tools->size() > limits::tools)
        fail("tools",
             "'tools' has " + std::to_string(tools->size()) + " elements; at most " +
                 std::to_string(limits::tools) + " are allowed.",
             "invalid_value");
    for (size_t i = 0; i < tools->size(); ++i)
        (void)as_object((*tools)[i], "tools[" + std::to_string(i) + "]");
    if (fields.string("tool_choice") != "none")
        fail("tools", "'tools' is not supported yet. Leave it out, or set 'tool_choice' to 'none'.",
             "unsupported_parameter");
}

void parse_logprobs(const Fields& fields, engine::SamplingParams& sampling) {
    const bool wanted = fields.boolean("logprobs").value_or(false);
    const std::optional<int64_t> top = fields.integer("top_logprobs", 0, engine::max_top_logprobs);
    if (top && *top > 0 && !wanted)
        fail("top_logprobs", "'top_logprobs' is only allowed with 'logprobs': true.", "invalid_value");
    if (wanted) sampling.top_logprobs = static_cast<int32_t>(top.value_or(0));
}

// Anthropic's way to say how long a prefix is wanted, which its clients and gateways put into text parts: minutes are for loops,
// an hour is for people. We keep both longer. The longest counts, for the whole prompt. Of messages that parse_messages() took.
std::optional<engine::Retention> parse_cache_control(const json::array& messages) {
    std::optional<engine::Retention> longest;
    for (size_t m = 0; m < messages.size(); ++m) {
        const json::value* content = messages[m].get_object().if_contains("content");
        if (!content || !content->is_array()) continue;
        for (size_t i = 0; i < content->get_array().size(); ++i) {
            const json::value* control = content->get_array()[i].get_object().if_contains("cache_control");
            if (!control || !control->is_object()) continue;
            const Fields fields(control->get_object(), "messages[" + std::to_string(m) + "].content[" +
                                                           std::to_string(i) + "].cache_control.");
            const std::string ttl = fields.string("ttl").value_or("5m");
            if (ttl != "5m" && ttl != "1h")
                fail(fields.path("ttl"),
                     in_quotes(fields.path("ttl")) + " must be one of 5m, 1h, but is " +
                         in_quotes(ttl.substr(0, 64)) + ".",
                     "invalid_value");
            if (longest != engine::Retention::chat)
                longest = ttl == "1h" ? engine::Retention::chat : engine::Retention::agent;
        }
    }
    return longest;
}

ChatRequest parse(std::string_view body) {
    const json::object object = parse_body(body);
    const Fields fields(object, "");
    check_fields(fields, Endpoint::chat);
    ChatRequest request;
    request.model = fields.string("model").value_or("");
    const json::array* messages = fields.array("messages");
    if (!messages) fail("messages", "'messages' is missing.", "missing_required_parameter");
    request.conversation.messages = parse_messages(*messages);
    check_tools(fields);
    request.options = parse_generation_options(fields);
    const auto by_parts = parse_cache_control(*messages);
    if (!request.options.retention) request.options.retention = by_parts;
    parse_logprobs(fields, request.options.sampling);
    const auto max_tokens = fields.integer("max_tokens", 1, limits::max_tokens);
    const auto max_completion_tokens = fields.integer("max_completion_tokens", 1, limits::max_tokens);
    if (max_tokens && max_completion_tokens && *max_tokens != *max_completion_tokens)
        fail("max_tokens", "'max_tokens' and 'max_completion_tokens' mean the same; give one of them.",
             "invalid_value");
    if (const auto limit = max_completion_tokens ? max_completion_tokens : max_tokens)
        request.options.max_tokens = static_cast<int32_t>(*limit);
    parse_dependent_options(fields, request.options);
    request.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
    request.conversation.template_options = parse_template_options(fields);
    return request;
}

}  // namespace

std::vector<recipe::Message> parse_messages(const json::array& items) {
    if (items.empty()) fail("messages", "'messages' must not be empty.", "invalid_value");
    if (items.size() > limits::messages)
        fail("messages",
             "'messages' has " + std::to_string(items.size()) + " elements; at most " +
                 std::to_string(limits::messages) + " are allowed.",
             "invalid_value");
    std::vector<recipe::Message> messages;
    for (size_t i = 0; i < items.size(); ++i)
        messages.push_back(parse_message(items[i], "messages[" + std::to_string(i) + "]"));
    return messages;
}

json::object parse_template_options(const Fields& fields) {
    const json::object* options = fields.object("chat_template_kwargs");
    if (!options) return {};
    for (const std::string_view reserved : recipe::reserved_template_variables)
        if (options->contains(json::string_view(reserved.data(), reserved.size())))
            fail("chat_template_kwargs", "'chat_template_kwargs' must not set " + in_quotes(reserved) + ".",
                 "invalid_value");
    return *options;
}

Outcome<ChatRequest> parse_chat_request(std::string_view body) {
    try {
        return parse(body);
    } catch (const FieldError& error) {
        return error.error;
    } catch (const std::exception& error) {
        return internal_error(error.what());
    }
}

}  // namespace deepinfer::api
