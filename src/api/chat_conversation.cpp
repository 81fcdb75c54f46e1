// Chat Completions: messages, tools and format of a request.
#include <algorithm>
#include <cctype>
#include <set>

#include "api/content.h"
#include "api/conversation_request.h"
#include "api/limits.h"

namespace deepinfer::api {
namespace {

namespace json = boost::json;
using recipe::Message;
using recipe::Role;

Role parse_role(const Fields& message, const ServiceRules& rules) {
    const std::optional<std::string> word = message.string("role");
    const std::string path = message.path("role");
    if (!word) fail_missing(path);
    if (rules.official) {
        constexpr Role roles[] = {Role::system, Role::user, Role::assistant, Role::tool,
                                  Role::latest_reminder};
        return roles[one_of(*word, {"system", "user", "assistant", "tool", "latest_reminder"}, path)];
    }
    if (rules.is_deepseek() && *word == "latest_reminder") return Role::latest_reminder;
    constexpr Role roles[] = {Role::system, Role::developer, Role::user, Role::assistant, Role::tool};
    return roles[one_of(*word, {"system", "developer", "user", "assistant", "tool"}, path)];
}

void add_file(ContentBuilder& content, const Fields& part, const std::string& path,
              const ServiceRules& rules) {
    if (!rules.takes_images()) {
        add_image(content, {}, {}, path, rules);
        return;
    }
    const json::object* nested = part.object("file");
    const Fields file(nested ? *nested : part.object(), nested ? part.path("file.") : part.path(""));
    if (file.find("file_id"))
        fail(file.path("file_id"), "Uploaded files are not supported. Send the picture as a data URL.",
             "image");
    const std::optional<std::string> data = file.string("file_data");
    if (!data) fail(path, in_quotes(path) + " has no 'file_data'.", "image");
    if (!data->starts_with("data:image/"))
        fail(path, "Of files only pictures of type png, jpeg, gif or webp are supported.", "image");
    add_image(content, *data, "high", path, rules);
}

// A string, or parts. Nothing if there is none.
std::optional<Content> parse_content(const Fields& message, Role role, size_t index,
                                     const ServiceRules& rules) {
    const json::value* value = message.find("content");
    if (!value) {
        if (role != Role::assistant)
            fail(message.path("content"),
                 in_quotes(message.path("content")) + " must be a string or an array of parts.",
                 "invalid_type");
        return std::nullopt;
    }
    const std::string path = message.path("content");
    if (value->is_string()) return Content{as_string(*value, path), {}};
    if (!value->is_array())
        fail(path,
             in_quotes(path) + " must be a string or an array of parts, but is " + kind_name(*value) + ".",
             "invalid_type");
    ContentBuilder content(rules.part_separator());
    const json::array& parts = value->get_array();
    for (size_t i = 0; i < parts.size(); ++i) {
        const std::string part_path = path + "[" + std::to_string(i) + "]";
        const Fields part(as_object(parts[i], part_path), part_path + ".");
        const std::optional<std::string> type = part.string("type");
        if (!type) fail_missing(part.path("type"));
        const std::string image_path =
            rules.official ? ".messages[" + std::to_string(index) + "]" : part_path;
        switch (one_of(*type, {"text", "image_url", "file", "refusal"}, part.path("type"))) {
            case 0:
            case 3: {
                const std::optional<std::string> text = part.string(*type == "text" ? "text" : "refusal");
                if (!text) fail_missing(part.path(*type));
                content.add_text(*text);
                break;
            }
            case 1: {
                if (role == Role::assistant)
                    fail(part_path, "A message of the assistant cannot hold pictures.", "image");
                const json::object* image = part.object("image_url");
                if (!image) fail_missing(part.path("image_url"));
                const Fields fields(*image, part.path("image_url."));
                const std::optional<std::string> url = fields.string("url");
                if (!url) fail_missing(fields.path("url"));
                add_image(content, *url, fields.string("detail").value_or("high"), image_path, rules);
                break;
            }
            case 2:
                if (role == Role::assistant)
                    fail(part_path, "A message of the assistant cannot hold files.", "image");
                add_file(content, part, image_path, rules);
                break;
        }
    }
    return content.take();
}

recipe::ToolCall parse_call(const json::value& value, const std::string& path) {
    const Fields call(as_object(value, path), path + ".");
    if (const std::string type = call.string("type").value_or("function"); type != "function")
        fail(
            call.path("type"),
            "Tool calls of type " + in_quotes(type.substr(0, 64)) + " are not supported; only 'function' is.",
            "unsupported_parameter");
    const json::object* function_object = call.object("function");
    if (!function_object) fail_missing(call.path("function"));
    const Fields function(*function_object, call.path("function."));
    const std::optional<std::string> name = function.string("name");
    if (!name || name->empty()) fail_missing(function.path("name"));
    return {.id = call.string("id").value_or(""),
            .name = *name,
            .arguments = function.string("arguments").value_or("{}")};
}

void parse_answer(Message& message, const Fields& fields) {
    if (const json::array* calls = fields.array("tool_calls")) {
        const std::string path = fields.path("tool_calls");
        if (calls->empty()) fail(path, in_quotes(path) + " must not be empty.", "tool_pairing");
        std::set<std::string> ids;
        for (size_t i = 0; i < calls->size(); ++i) {
            message.tool_calls.push_back(parse_call((*calls)[i], path + "[" + std::to_string(i) + "]"));
            const std::string& id = message.tool_calls.back().id;
            if (!ids.insert(id).second)
                fail(path, in_quotes(path) + ": two calls have the id " + in_quotes(id.substr(0, 64)) + ".",
                     "tool_pairing");
        }
    }
    for (const std::string_view name : {"reasoning_content", "reasoning"})
        if (const auto text = fields.string(name); text && !text->empty()) message.reasoning = *text;
    message.is_prefix = fields.boolean("prefix").value_or(false);
    if (!message.content)
        if (const auto refusal = fields.string("refusal")) message.content = *refusal;
    if (!message.content && message.tool_calls.empty())
        fail(fields.path("content"),
             "An answer must have " + in_quotes(fields.path("content")) + " or " +
                 in_quotes(fields.path("tool_calls")) + ".",
             "tool_pairing");
}

void check_belongs(const Fields& fields, std::string_view name, Role role, Role owner) {
    if (role == owner) return;
    const json::value* value = fields.find(name);
    if (!value || (value->is_array() && value->get_array().empty()) ||
        (value->is_string() && value->get_string().empty()))
        return;
    fail(fields.path(name),
         in_quotes(fields.path(name)) + " belongs to messages of role " + recipe::to_string(owner) + ".",
         "invalid_value");
}

Message parse_message(const json::value& value, size_t index, const ServiceRules& rules) {
    const std::string path = "messages[" + std::to_string(index) + "]";
    const Fields fields(as_object(value, path), path + ".");
    Message message;
    message.role = parse_role(fields, rules);
    if (auto content = parse_content(fields, message.role, index, rules))
        set_content(message, std::move(*content));
    if (!rules.is_deepseek()) message.name = fields.string("name").value_or("");
    if (!rules.official) {
        for (const std::string_view name : {"tool_calls", "reasoning_content", "reasoning", "prefix"})
            check_belongs(fields, name, message.role, Role::assistant);
        check_belongs(fields, "tool_call_id", message.role, Role::tool);
    }
    if (message.role == Role::assistant) parse_answer(message, fields);
    if (message.role == Role::system && rules.is_deepseek())
        message.content = without_billing_header(std::move(*message.content));
    if (message.role == Role::tool) {
        const std::optional<std::string> id = fields.string("tool_call_id");
        if (!id || (id->empty() && !rules.official)) fail_missing(fields.path("tool_call_id"));
        message.tool_call_id = *id;
    }
    return message;
}

// Every call is answered by exactly one of the messages that follow.
void check_pairing(const std::vector<Message>& messages) {
    std::set<std::string> open;
    std::set<std::string> answered;
    for (size_t i = 0; i < messages.size(); ++i) {
        const Message& message = messages[i];
        const std::string path = "messages[" + std::to_string(i) + "]";
        if (message.role == Role::tool) {
            if (open.erase(message.tool_call_id) == 0)
                fail(path + ".tool_call_id",
                     in_quotes(path + ".tool_call_id") + " is " +
                         in_quotes(message.tool_call_id.substr(0, 64)) +
                         (answered.contains(message.tool_call_id)
                              ? ", which has been answered already."
                              : ", but no call of that id stands before it."),
                     "tool_pairing");
            answered.insert(message.tool_call_id);
            continue;
        }
        if (!open.empty())
            fail(path,
                 "The call " + in_quotes(open.begin()->substr(0, 64)) +
                     " has no answer: a message of role tool must stand before " + in_quotes(path) + ".",
                 "tool_pairing");
        answered.clear();
        for (const recipe::ToolCall& call : message.tool_calls) open.insert(call.id);
    }
    if (!open.empty())
        fail("messages",
             "The call " + in_quotes(open.begin()->substr(0, 64)) +
                 " has no answer: a message of role tool must follow it.",
             "tool_pairing");
}

std::vector<GivenTool> parse_tools(const Fields& request) {
    std::vector<GivenTool> tools;
    const json::array* items = request.array("tools");
    if (!items) return tools;
    for (size_t i = 0; i < items->size(); ++i) {
        const std::string path = "tools[" + std::to_string(i) + "]";
        const Fields item(as_object((*items)[i], path), path + ".");
        const std::optional<std::string> type = item.string("type");
        if (!type) fail_missing(item.path("type"));
        one_of(*type, {"function"}, item.path("type"));
        const json::object* object = item.object("function");
        if (!object) fail_missing(item.path("function"));
        const Fields function(*object, item.path("function."));
        const std::optional<std::string> name = function.string("name");
        if (!name) fail_missing(function.path("name"));
        const json::value* parameters = function.find("parameters");
        GivenTool given{.tool = {.name = *name,
                                 .description = function.string("description"),
                                 .strict = function.boolean("strict")},
                        .has_parameters = parameters != nullptr,
                        .path = function.path(""),
                        .name_path = function.path("name")};
        if (parameters) given.tool.parameters = *parameters;
        check_tool_name(given.tool.name, given.name_path);
        tools.push_back(std::move(given));
    }
    check_unique_names(tools);
    return tools;
}

ToolWish parse_choice(const Fields& request) {
    ToolWish wish;
    wish.path = "tool_choice";
    const json::value* value = request.find("tool_choice");
    if (!value) return wish;
    if (value->is_string()) {
        constexpr recipe::ToolChoice choices[] = {recipe::ToolChoice::none, recipe::ToolChoice::automatic,
                                                  recipe::ToolChoice::required};
        wish.choice = choices[one_of(as_string(*value, wish.path), {"none", "auto", "required"}, wish.path)];
        return wish;
    }
    const Fields choice(as_object(*value, wish.path), "tool_choice.");
    one_of(choice.string("type").value_or(""), {"function"}, choice.path("type"));
    const json::object* object = choice.object("function");
    if (!object) fail_missing(choice.path("function"));
    const Fields function(*object, choice.path("function."));
    const std::optional<std::string> name = function.string("name");
    if (!name) fail_missing(function.path("name"));
    wish.choice = recipe::ToolChoice::required;
    wish.named = *name;
    return wish;
}

bool says_json(const std::vector<Message>& messages) {
    return std::ranges::any_of(messages, [](const Message& message) {
        if (!message.content) return false;
        std::string text = *message.content;
        std::ranges::transform(text, text.begin(),
                               [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        return text.find("json") != text.npos;
    });
}

enum class Format { none, text, json_object, json_schema, regex };

// Which format the request names, before it is judged.
Format format_kind(const Fields& request) {
    const json::object* object = request.object("response_format");
    if (!object) return Format::none;
    const Fields format(*object, "response_format.");
    const std::optional<std::string> type = format.string("type");
    if (!type) fail_missing(format.path("type"));
    return static_cast<Format>(
        1 + one_of(*type, {"text", "json_object", "json_schema", "regex"}, format.path("type")));
}

void put_format(recipe::Conversation& conversation, const Fields& request, Format kind) {
    using Kind = recipe::ResponseFormat::Kind;
    if (kind == Format::json_object) conversation.format = {.kind = Kind::json_object};
    if (kind != Format::json_schema && kind != Format::regex) return;
    const Fields format(*request.object("response_format"), "response_format.");
    if (kind == Format::regex) {
        const std::optional<std::string> pattern = format.string("regex");
        if (!pattern) fail_missing(format.path("regex"));
        conversation.format = {.kind = Kind::regex, .pattern = *pattern};
        return;
    }
    const json::object* object = format.object("json_schema");
    if (!object) fail_missing(format.path("json_schema"));
    const Fields wish(*object, format.path("json_schema."));
    const json::value* schema = wish.find("schema");
    if (!schema) fail_missing(wish.path("schema"));
    put_schema(conversation, *schema, wish.boolean("strict").value_or(false), wish.path("schema"));
}

void check_prefix(const std::vector<Message>& messages) {
    for (size_t i = 0; i < messages.size(); ++i)
        if (messages[i].is_prefix && i + 1 != messages.size())
            fail("messages[" + std::to_string(i) + "].prefix", "Only the last message can be a prefix.",
                 "prefix");
}

bool has_tool_history(const std::vector<Message>& messages) {
    return std::ranges::any_of(
        messages, [](const Message& m) { return m.role == Role::tool || !m.tool_calls.empty(); });
}

}  // namespace

ConversationRequest convert_chat(const Fields& request, const ServiceRules& rules) {
    ConversationRequest result;
    recipe::Conversation& conversation = result.conversation;
    result.model = request.string("model").value_or("");
    std::vector<GivenTool> tools = parse_tools(request);
    const json::array* messages = request.array("messages");
    if (!messages) fail_missing("messages");
    if (messages->empty()) fail("messages", "'messages' must not be empty.", "empty_input");
    if (messages->size() > limits::messages)
        fail("messages",
             "'messages' has " + std::to_string(messages->size()) + " elements; at most " +
                 std::to_string(limits::messages) + " are allowed.",
             "invalid_value");
    for (size_t i = 0; i < messages->size(); ++i)
        conversation.messages.push_back(parse_message((*messages)[i], i, rules));
    check_pairing(conversation.messages);

    const json::object* thinking = request.object("thinking");
    std::optional<std::string> thinking_type;
    if (thinking) {
        const Fields fields(*thinking, "thinking.");
        thinking_type = fields.string("type");
        if (!thinking_type) fail_missing("thinking.type");
    }
    put_thinking(conversation, thinking_type, request.string("reasoning_effort"), "reasoning_effort", rules);
    settle_reasoning(conversation, !tools.empty(), "reasoning_content", rules);
    check_prefix(conversation.messages);
    const Format format = format_kind(request);
    if (rules.official && format == Format::json_object && !says_json(conversation.messages))
        fail("messages", "With 'response_format' json_object some message must contain the word json.",
             "json_word");

    const bool any_tools = !tools.empty();
    const bool any_strict =
        std::ranges::any_of(tools, [](const GivenTool& g) { return g.tool.strict == true; });
    const bool all_strict =
        std::ranges::all_of(tools, [](const GivenTool& g) { return g.tool.strict == true; });
    const ToolWish wish = parse_choice(request);
    put_tools(conversation, std::move(tools), wish, rules);
    if (conversation.messages.back().is_prefix) {
        if (format == Format::json_object)
            fail("messages", "A prefix cannot be combined with 'response_format' json_object.", "prefix");
        if (any_tools || has_tool_history(conversation.messages))
            fail("messages", "A prefix cannot be combined with tools.", "prefix");
    }
    result.output.stops = parse_stops(request, "stop");
    if (request.object("stream_options") && !request.boolean("stream").value_or(false))
        fail("stream_options", "'stream_options' is only allowed with 'stream': true.", "stream_options");
    put_format(conversation, request, format);
    if (rules.official && any_strict && wish.choice != recipe::ToolChoice::none) {
        if (!all_strict) fail("tools", "Strict and other tools cannot be mixed.", "tool_or_output_schema");
        if (format != Format::none)
            fail("response_format", "'response_format' cannot be combined with strict tools.",
                 "format_conflict");
    }
    // Empty systems say nothing.
    if (rules.is_deepseek())
        std::erase_if(conversation.messages, [](const Message& m) {
            return m.role == Role::system && m.content->empty() && m.images.empty();
        });
    settle_output(result);
    return result;
}

}  // namespace deepinfer::api
