#include "recipe/chat_format.h"

#include <algorithm>
#include <utility>

namespace deepinfer::recipe {
namespace {

namespace json = boost::json;

std::string spelling_of(const tokenizer::Tokenizer& tokenizer, std::optional<TokenId> id) {
    if (!id) return {};
    for (const tokenizer::SpecialToken& token : tokenizer.special_tokens())
        if (token.id == *id) return token.text;
    return {};
}

bool mentions(const std::string& source, std::string_view word) {
    return source.find(word) != std::string::npos;
}

void collect_strings(const json::value& value, std::vector<std::string_view>& texts) {
    if (const json::string* text = value.if_string()) {
        texts.emplace_back(text->data(), text->size());
    } else if (const json::array* items = value.if_array()) {
        for (const json::value& item : *items) collect_strings(item, texts);
    } else if (const json::object* members = value.if_object()) {
        for (const auto& member : *members) {
            texts.emplace_back(member.key().data(), member.key().size());
            collect_strings(member.value(), texts);
        }
    }
}

// Marks every string of a JSON value. Values of "type" and "role" are words that templates compare and build
// tags from.
json::value mark_strings(const json::value& value, const SpecialMarks& marks, std::string_view mark) {
    if (const json::string* text = value.if_string())
        return json::string(marks.mark({text->data(), text->size()}, mark));
    if (const json::array* items = value.if_array()) {
        json::array out;
        for (const json::value& item : *items) out.push_back(mark_strings(item, marks, mark));
        return out;
    }
    if (const json::object* members = value.if_object()) {
        json::object out;
        for (const auto& member : *members) {
            const std::string key = marks.mark_inside({member.key().data(), member.key().size()}, mark);
            const bool is_word = member.key() == "type" || member.key() == "role";
            const json::string* text = is_word ? member.value().if_string() : nullptr;
            out[key] = text ? json::value(json::string(marks.mark_inside({text->data(), text->size()}, mark)))
                            : mark_strings(member.value(), marks, mark);
        }
        return out;
    }
    return value;
}

// An answer that still has its thinking in front ("<think>…</think>answer"), taken apart the way templates do
// it. After marking, a template can no longer find the tags itself.
void split_thinking(Message& message) {
    static constexpr std::string_view open = "<think>", close = "</think>";
    if (!message.content || !message.reasoning.empty()) return;
    const size_t end = message.content->rfind(close);
    if (end == std::string::npos) return;
    const auto trim_lines = [](std::string_view text) {
        const size_t first = text.find_first_not_of('\n');
        if (first == std::string_view::npos) return std::string_view();
        return text.substr(first, text.find_last_not_of('\n') - first + 1);
    };
    std::string_view thinking(message.content->data(), end);
    thinking = thinking.substr(0, thinking.find(close));
    if (const size_t begin = thinking.rfind(open); begin != std::string_view::npos)
        thinking.remove_prefix(begin + open.size());
    message.reasoning = trim_lines(thinking);
    std::string rest = message.content->substr(end + close.size());
    message.content = rest.substr(std::min(rest.find_first_not_of('\n'), rest.size()));
}

constexpr JsonLimits argument_limits{.max_bytes = size_t{32} << 20, .max_depth = 64, .unique_keys = false};

json::object tool_call_json(const ToolCall& call, bool as_object) {
    json::value arguments = json::string(call.arguments);
    if (as_object) {
        Result<json::value> parsed = parse_json(call.arguments, "arguments", argument_limits);
        if (parsed && parsed->is_object()) arguments = std::move(*parsed);
    }
    json::object function{{"name", call.name}, {"arguments", std::move(arguments)}};
    json::object out{{"type", "function"}, {"function", std::move(function)}};
    if (!call.id.empty()) out["id"] = call.id;
    return out;
}

json::object message_json(const Message& message, bool knows_developer, bool object_arguments) {
    const bool as_system = message.role == Role::developer && !knows_developer;
    json::object out{{"role", to_string(as_system ? Role::system : message.role)}};
    out["content"] = message.content ? json::value(json::string(*message.content)) : json::value(nullptr);
    if (!message.name.empty()) out["name"] = message.name;
    if (!message.tool_call_id.empty()) out["tool_call_id"] = message.tool_call_id;
    if (!message.reasoning.empty()) {
        out["reasoning_content"] = message.reasoning;
        out["thinking"] = message.reasoning;  // the name of some templates
    }
    if (!message.tool_calls.empty()) {
        json::array calls;
        for (const ToolCall& call : message.tool_calls)
            calls.push_back(tool_call_json(call, object_arguments));
        out["tool_calls"] = std::move(calls);
    }
    return out;
}

// Null if there are none to show: templates test for that.
json::value tools_json(const Conversation& conversation) {
    if (!conversation.offers_tools()) return nullptr;
    json::array tools;
    for (const Tool& tool : conversation.tools) {
        json::object function{{"name", tool.name}};
        if (tool.description) function["description"] = *tool.description;
        function["parameters"] = tool.parameters;
        tools.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
    }
    return tools;
}

}  // namespace

ChatFormat::ChatFormat(const tokenizer::Tokenizer& tokenizer, ChatTemplate compiled)
    : tokenizer_(tokenizer),
      template_(std::move(compiled)),
      marks_(tokenizer.special_tokens()),
      bos_text_(spelling_of(tokenizer, tokenizer.bos())),
      eos_text_(spelling_of(tokenizer, tokenizer.eos())),
      knows_developer_(mentions(template_.source(), "developer")),
      splits_thinking_(mentions(template_.source(), "</think>")) {}

Result<std::unique_ptr<ChatFormat>> ChatFormat::create(const tokenizer::Tokenizer& tokenizer,
                                                       std::string_view template_source) {
    Result<ChatTemplate> compiled = ChatTemplate::compile(template_source);
    if (!compiled) return compiled.error();
    std::unique_ptr<ChatFormat> format(new ChatFormat(tokenizer, std::move(*compiled)));
    if (Status probed = format->probe_arguments(); !probed) return std::move(probed).error();
    return format;
}

// Some templates print the arguments of a call as JSON (they want an object), some paste them (they want
// text). Sets object_arguments_: tells them apart by what an object looks like when printed.
Status ChatFormat::probe_arguments() {
    Conversation probe;
    probe.messages.push_back({.role = Role::user, .content = "q"});
    Message call{.role = Role::assistant, .content = ""};
    call.tool_calls.push_back(
        {.id = "call00000", .name = "f", .arguments = R"({"probe_key": "probe_value"})"});
    probe.messages.push_back(std::move(call));
    probe.messages.push_back({.role = Role::tool, .content = "r", .tool_call_id = "call00000"});
    const Result<std::string> printed = render(probe, {});
    object_arguments_ = printed && mentions(*printed, "probe_key") && !mentions(*printed, "'probe_key'");
    // A template may refuse this conversation, but what takes it too long will do so again.
    if (!printed && printed.error().code == ErrorCode::deadline_exceeded) return printed.error();
    return {};
}

Result<ChatFormat::Rendered> ChatFormat::render_marked(const Conversation& conversation,
                                                       const PromptOptions& options) const {
    for (const std::string_view name : reserved_template_variables)
        if (conversation.template_options.contains(json::string_view(name.data(), name.size())))
            return Error{ErrorCode::invalid_argument,
                         "the template's variable '" + std::string(name) + "' is reserved"};
    json::array messages;
    for (const Message& message : conversation.messages) {
        if (splits_thinking_ && message.role == Role::assistant && message.reasoning.empty()) {
            Message split = message;
            split_thinking(split);
            messages.push_back(message_json(split, knows_developer_, object_arguments_));
        } else {
            messages.push_back(message_json(message, knows_developer_, object_arguments_));
        }
    }
    json::object context = conversation.template_options;
    context["messages"] = std::move(messages);
    context["tools"] = tools_json(conversation);

    const json::value unmarked = std::move(context);
    std::vector<std::string_view> texts{template_.source()};
    collect_strings(unmarked, texts);
    std::optional<std::string> mark = SpecialMarks::choose_mark(texts);
    if (!mark)
        return Error{
            ErrorCode::invalid_argument,
            "the conversation contains every Unicode noncharacter (U+FDD0 … U+10FFFF); one must be free"};
    json::value marked = mark_strings(unmarked, marks_, *mark);
    json::object& variables = marked.as_object();
    variables["documents"] = nullptr;
    variables["bos_token"] = bos_text_;
    variables["eos_token"] = eos_text_;
    variables["add_generation_prompt"] = options.add_generation_prompt;
    Result<std::string> text = template_.render(json::serialize(marked), options.unix_seconds);
    if (!text) return std::move(text).error();
    return Rendered{std::move(*text), std::move(*mark)};
}

Result<std::string> ChatFormat::render(const Conversation& conversation, const PromptOptions& options) const {
    Result<Rendered> rendered = render_marked(conversation, options);
    if (!rendered) return std::move(rendered).error();
    std::string text;
    for (const Piece& piece : marks_.split(rendered->text, rendered->mark)) text += piece.text;
    return text;
}

Result<std::vector<TokenId>> ChatFormat::encode(const Conversation& conversation,
                                                const PromptOptions& options) const {
    Result<Rendered> rendered = render_marked(conversation, options);
    if (!rendered) return std::move(rendered).error();
    const std::vector<Piece> pieces = marks_.split(rendered->text, rendered->mark);
    std::vector<tokenizer::TextPart> parts;
    for (const Piece& piece : pieces)
        parts.push_back(
            {piece.text, piece.token >= 0 ? tokenizer::Special::parse : tokenizer::Special::as_text});
    std::vector<TokenId> tokens = tokenizer_.encode_parts(parts);
    // The template may write BOS, or leave it to the tokenizer, or both may.
    if (const std::optional<TokenId> bos = tokenizer_.bos()) {
        size_t leading = 0;
        while (leading < tokens.size() && tokens[leading] == *bos) ++leading;
        if (leading > 1) tokens.erase(tokens.begin() + 1, tokens.begin() + static_cast<ptrdiff_t>(leading));
        if (leading == 0 && tokenizer_.adds_bos()) tokens.insert(tokens.begin(), *bos);
    }
    return tokens;
}

}  // namespace deepinfer::recipe
