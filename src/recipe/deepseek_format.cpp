#include "recipe/deepseek_format.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/sort_stably.h"

namespace deepinfer::recipe {
namespace {

namespace json = boost::json;

constexpr std::string_view blank_line = "\n\n";

constexpr std::string_view effort_high_v4 =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the "
    "root cause, rigorously "
    "stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered "
    "alternative, and "
    "rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n";
constexpr std::string_view effort_max_v4 =
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively "
    "decompose the problem "
    "into its most fundamental components, trace every causal chain to its root, and resolve the underlying "
    "cause rather than "
    "any surface symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from multiple angles and are "
    "certain that no "
    "assumption remains unchecked and no error remains undiscovered.\n\n";

constexpr std::string_view schema_heading =
    "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";
constexpr std::string_view json_object_v4 =
    "You are a helpful assistant designed to output JSON.\n## Response Format:\n\nReply with JSON object "
    "ONLY.";

constexpr JsonLimits argument_limits{.max_bytes = size_t{32} << 20, .max_depth = 64, .unique_keys = false};

// Puts a prompt together. The two versions differ in the order of things and in small words only.
class Writer {
  public:
    Writer(const DeepSeekFormat& format, const Conversation& conversation)
        : conversation_(conversation),
          marks_(format.marks()),
          style_(format.json_style()),
          v41_(format.version() == DeepSeekVersion::v41),
          thinks_(conversation.thinking.value_or(true)),
          keeps_reasoning_(conversation.offers_tools()),
          space_(v41_ ? " " : ""),
          calls_(v41_ ? " calls" : "tool_calls") {}

    void write() {
        out_.marked.add_special(marks_.bos);
        v41_ ? write_v41() : write_v4();
    }

    DeepSeekPrompt take() { return std::move(out_); }

  private:
    // --- V4: systems first, then turns.

    void write_v4() {
        if (thinks_) {
            const Effort effort = conversation_.effort.value_or(Effort::high);
            if (effort != Effort::low) add(effort == Effort::max ? effort_max_v4 : effort_high_v4);
        }
        write_systems_v4();
        const std::vector<const Message*> turns = turns_v4();
        const Message* previous = nullptr;
        for (const Message* turn : turns) {
            write_turn_v4(*turn, previous);
            previous = turn;
        }
        write_header(previous);
        if (conversation_.offers_tools() && conversation_.tool_choice == ToolChoice::required) open_calls();
    }

    void write_systems_v4() {
        bool any = false;
        const auto next = [&] {
            if (any) add(blank_line);
            any = true;
        };
        for (const Message& message : conversation_.messages) {
            if (!is_system(message) || !message.content || message.content->empty()) continue;
            next();
            add_content(message);
        }
        const bool has_format = conversation_.format.kind == ResponseFormat::Kind::json_object ||
                                conversation_.format.kind == ResponseFormat::Kind::json_schema;
        if (!any && (conversation_.offers_tools() || has_format)) any = true;  // an empty one
        if (conversation_.offers_tools()) {
            next();
            add_tool_prompt();
        }
        if (!has_format) return;
        next();
        if (conversation_.format.kind == ResponseFormat::Kind::json_object)
            add(json_object_v4);
        else
            add_schema(conversation_.format.schema);
    }

    // Without systems, and the results of a message's calls in the order of their ids.
    std::vector<const Message*> turns_v4() const {
        std::vector<const Message*> turns;
        for (const Message& message : conversation_.messages)
            if (!is_system(message)) turns.push_back(&message);
        for (size_t i = 0; i < turns.size(); ++i) {
            const size_t calls = turns[i]->role == Role::assistant ? turns[i]->tool_calls.size() : 0;
            if (calls == 0 || turns.size() - i - 1 < calls) continue;
            const auto first = turns.begin() + static_cast<ptrdiff_t>(i) + 1;
            sort_stably(first, first + static_cast<ptrdiff_t>(calls), [](const Message* a, const Message* b) {
                const bool a_result = a->role == Role::tool, b_result = b->role == Role::tool;
                if (a_result != b_result) return a_result;
                return a_result && a->tool_call_id < b->tool_call_id;
            });
        }
        return turns;
    }

    void write_turn_v4(const Message& message, const Message* previous) {
        const auto follows = [&](Role role) { return previous && previous->role == role; };
        switch (message.role) {
            case Role::system:
            case Role::developer:
                break;
            case Role::user:
                if (follows(Role::user)) {
                    const bool nothing_before = user_run_is_empty_;
                    user_run_is_empty_ = user_run_is_empty_ && is_empty(message);
                    if (!nothing_before && !is_empty(message)) add(blank_line);
                } else {
                    user_run_is_empty_ = is_empty(message);
                    follows(Role::tool) ? add(blank_line) : add_special(marks_.user);
                }
                add_content(message);
                break;
            case Role::tool:
                follows(Role::tool) ? add(blank_line) : add_special(marks_.user);
                add_result(message);
                break;
            case Role::latest_reminder:
                add_special(marks_.latest_reminder);
                add_content(message);
                break;
            case Role::assistant:
                add_special(marks_.assistant);
                if (thinks_ && (message.is_prefix || keeps_reasoning_)) {
                    add_special(marks_.think_begin);
                    add_said(message.reasoning);
                }
                if (!(thinks_ && message.is_prefix && is_empty(message))) add_special(marks_.think_end);
                finish_answer(message);
                break;
        }
    }

    // --- V4.1: everything stays where it is.

    void write_v41() {
        std::vector<const Message*> messages;
        for (const Message& message : conversation_.messages) messages.push_back(&message);
        const Message empty_system{.role = Role::system, .content = ""};
        const bool introduces = conversation_.offers_tools() ||
                                conversation_.format.kind == ResponseFormat::Kind::json_object ||
                                conversation_.format.kind == ResponseFormat::Kind::json_schema;
        if (introduces && (messages.empty() || !is_system(*messages[0])))
            messages.insert(messages.begin(), &empty_system);
        order_results(messages);

        const Message* previous = nullptr;
        for (size_t i = 0; i < messages.size(); ++i) {
            const Message& message = *messages[i];
            if (message.role == Role::latest_reminder && previous && previous->role == Role::latest_reminder)
                continue;
            if (i == 0 && (thinks_ || is_system(message))) add_special(marks_.system);
            if (i == 0 && thinks_) add_effort_v41();
            write_turn_v41(message, previous, i == 0);
            previous = &message;
        }
        write_header(previous);
        if (conversation_.offers_tools() && conversation_.tool_choice == ToolChoice::required) open_calls();
    }

    void add_effort_v41() {
        const Effort effort = conversation_.effort.value_or(Effort::high);
        add("Reasoning Effort: ");
        add(effort == Effort::low ? "50" : effort == Effort::max ? "100" : "75");
        add(" (range 1-100, the higher the value, the more thorough the reasoning)\n\n");
    }

    // The results among adjoining messages of users and tools, in the order of the calls that they answer.
    void order_results(std::vector<const Message*>& messages) const {
        const auto is_turn = [](const Message* m) { return m->role == Role::user || m->role == Role::tool; };
        std::map<std::string_view, size_t> order;
        for (size_t i = 0; i < messages.size();) {
            if (messages[i]->role == Role::assistant && !messages[i]->tool_calls.empty()) {
                order.clear();
                for (const ToolCall& call : messages[i]->tool_calls) order.emplace(call.id, order.size() + 1);
            }
            size_t end = i + 1;
            if (is_turn(messages[i])) {
                while (end < messages.size() && is_turn(messages[end])) ++end;
                std::vector<size_t> slots;
                std::vector<const Message*> results;
                for (size_t j = i; j < end; ++j)
                    if (messages[j]->role == Role::tool && !messages[j]->tool_call_id.empty()) {
                        slots.push_back(j);
                        results.push_back(messages[j]);
                    }
                const auto place = [&](const Message* m) {
                    const auto found = order.find(m->tool_call_id);
                    return found == order.end() ? size_t{1} : found->second;  // unknown: as the first
                };
                sort_stably(results.begin(), results.end(),
                            [&](const Message* a, const Message* b) { return place(a) < place(b); });
                for (size_t k = 0; k < slots.size(); ++k) messages[slots[k]] = results[k];
            }
            i = end;
        }
    }

    void write_turn_v41(const Message& message, const Message* previous, bool first) {
        const bool goes_on = previous && (previous->role == Role::user || previous->role == Role::tool);
        switch (message.role) {
            case Role::system:
            case Role::developer:
                if (!first) add_special(marks_.system);
                add_content(message);
                if (first) add_introductions();
                add_announced(message);
                break;
            case Role::user:
                goes_on ? add(blank_line) : add_special(marks_.user);
                add_content(message);
                break;
            case Role::tool:
                goes_on ? add(blank_line) : add_special(marks_.user);
                add_result(message);
                break;
            case Role::latest_reminder:
                add_special(marks_.latest_reminder);
                add_content(message);
                break;
            case Role::assistant:
                add_special(marks_.assistant);
                if (thinks_ && !first && (keeps_reasoning_ || message.is_prefix)) {
                    add_special(marks_.think_begin);
                    add_said(message.reasoning);
                    if (!(message.is_prefix && is_empty(message) && message.tool_calls.empty()))
                        add_special(marks_.think_end);
                } else {
                    add_special(marks_.think_end);
                }
                finish_answer(message);
                break;
        }
    }

    void add_introductions() {
        if (conversation_.offers_tools()) {
            add(blank_line);
            add_tool_prompt();
        }
        const ResponseFormat& format = conversation_.format;
        if (format.kind == ResponseFormat::Kind::json_object) {
            add(blank_line);
            add_schema(json::object{{"type", "json_object"}});
        } else if (format.kind == ResponseFormat::Kind::json_schema) {
            add(blank_line);
            add_schema(format.schema);
        }
    }

    void add_announced(const Message& message) {
        bool any = false;
        for (const std::string& name : message.announced_tools) {
            const auto tool =
                std::ranges::find_if(conversation_.tools, [&](const Tool& t) { return t.name == name; });
            if (tool == conversation_.tools.end()) continue;
            add(any ? "\n" : "\n\n### Updated Tool Schemas\n\n");
            any = true;
            add_tool(*tool);
        }
    }

    // --- What both have in common.

    static bool is_system(const Message& message) {
        return message.role == Role::system || message.role == Role::developer;
    }
    static bool is_empty(const Message& message) {
        return (!message.content || message.content->empty()) && message.images.empty();
    }

    void add(std::string_view text) { out_.marked.add(text); }
    void add_special(std::string_view spelling) { out_.marked.add_special(spelling); }

    void add_content(const Message& message) {
        const std::string_view text = message.content ? std::string_view(*message.content) : "";
        size_t at = 0;
        for (const Image& image : message.images) {
            add(text.substr(at, image.offset - at));
            at = image.offset;
            add_special(marks_.image);
            out_.images.push_back(image);
        }
        add(text.substr(at));
    }

    // What the assistant said: its grounding marks are tokens.
    void add_said(std::string_view text) {
        while (true) {
            size_t at = std::string_view::npos;
            const std::string* mark = nullptr;
            for (const std::string& candidate : marks_.grounding)
                if (const size_t found = text.find(candidate); found < at) at = found, mark = &candidate;
            if (!mark) break;
            add(text.substr(0, at));
            add_special(*mark);
            text.remove_prefix(at + mark->size());
        }
        add(text);
    }

    void add_result(const Message& message) {
        add("<tool_result>");
        add_content(message);
        add("</tool_result>");
    }

    void finish_answer(const Message& message) {
        if (message.content) add_said(*message.content);
        if (!message.tool_calls.empty()) add_calls(message.tool_calls);
        if (!message.is_prefix) add_special(marks_.eos);
    }

    void write_header(const Message* last) {
        if (last && last->role == Role::assistant && last->is_prefix) return;
        add_special(marks_.assistant);
        add_special(thinks_ ? marks_.think_begin : marks_.think_end);
    }

    void open_tag(std::string_view name) {
        add("<");
        add_special(marks_.dsml);
        add(name);
    }
    void close_tag(std::string_view name) {
        add("</");
        add_special(marks_.dsml);
        add(name);
        add(">");
    }
    void open_calls() {
        add(blank_line);
        open_tag(calls_);
        add(">\n");
    }

    void add_calls(const std::vector<ToolCall>& given) {
        std::vector<const ToolCall*> calls;
        for (const ToolCall& call : given) calls.push_back(&call);
        if (!v41_)
            sort_stably(calls.begin(), calls.end(),
                        [](const ToolCall* a, const ToolCall* b) { return a->id < b->id; });
        open_calls();
        for (const ToolCall* call : calls) {
            add_call(*call);
            add("\n");
        }
        close_tag(calls_);
    }

    void add_call(const ToolCall& call) {
        open_tag(space_ + "invoke name=\"");
        add(call.name);
        add("\">\n");
        Result<json::value> parsed = parse_json(call.arguments, "arguments", argument_limits);
        if (!parsed || !parsed->is_object())
            parsed = json::value(json::object{{"arguments", call.arguments}});
        const json::object& arguments = parsed->get_object();
        for (const auto& argument : arguments) add_argument(argument.key(), argument.value());
        if (v41_ && arguments.empty()) add("\n");
        close_tag(space_ + "invoke");
    }

    void add_argument(std::string_view key, const json::value& value) {
        open_tag(space_ + "parameter name=\"");
        add(key);
        add(value.is_string() ? "\" string=\"true\">" : "\" string=\"false\">");
        add(value.is_string() ? std::string(value.get_string()) : to_text(value, style_));
        close_tag(space_ + "parameter");
        add("\n");
    }

    void add_schema(const json::value& schema) {
        add(schema_heading);
        add(to_text(schema, style_));
    }

    void add_tool(const Tool& tool) {
        const json::object listed{{"name", tool.name},
                                  {"description", tool.description.value_or("")},
                                  {"parameters", tool.parameters}};
        add(to_text(listed, style_));
    }

    void add_tool_prompt() {
        add("## Tools\n\nYou have access to a set of tools to help answer the user's question. You can "
            "invoke tools by writing a \"");
        open_tag(calls_);
        add(">\" block like the following:\n\n");
        open_tag(calls_);
        add(">\n");
        open_tag(space_ + "invoke name=\"$TOOL_NAME\">\n");
        open_tag(space_ + "parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE");
        close_tag(space_ + "parameter");
        add("\n...\n");
        close_tag(space_ + "invoke");
        add("\n");
        open_tag(space_ + "invoke name=\"$TOOL_NAME2\">\n...\n");
        close_tag(space_ + "invoke");
        add("\n");
        close_tag(calls_);
        add("\n\nString parameters should be specified as is and set `string=\"true\"`. For all other types "
            "(numbers, booleans, "
            "arrays, objects), pass the value in JSON format and set `string=\"false\"`.\n\n"
            "If thinking_mode is enabled (triggered by ");
        add_special(marks_.think_begin);
        add("), you MUST output your complete reasoning inside ");
        add_special(marks_.think_begin);
        add("...");
        add_special(marks_.think_end);
        add(" BEFORE any tool calls or final response.\n\nOtherwise, output directly after ");
        add_special(marks_.think_end);
        add(" with tool calls or final response.\n\n### Available Tool Schemas\n\n");
        bool any = false;
        for (const Tool& tool : conversation_.tools) {
            if (tool.deferred) continue;
            if (v41_ && any) add("\n");
            any = true;
            add_tool(tool);
            if (!v41_) add("\n");
        }
        add(v41_ ? "\n\n" : "\n");
        add("You MUST strictly follow the above defined tool name and parameter schemas to invoke tool "
            "calls.\n");
    }

    const Conversation& conversation_;
    const DeepSeekMarks& marks_;
    const JsonStyle style_;
    const bool v41_, thinks_, keeps_reasoning_;
    const std::string space_, calls_;
    bool user_run_is_empty_ = false;
    DeepSeekPrompt out_;
};

}  // namespace

DeepSeekFormat::DeepSeekFormat(DeepSeekVersion version, DeepSeekMarks marks)
    : version_(version), marks_(std::move(marks)) {}

JsonStyle DeepSeekFormat::json_style() const {
    return {.numbers = version_ == DeepSeekVersion::v41 ? NumberStyle::python : NumberStyle::rust};
}

DeepSeekPrompt DeepSeekFormat::render(const Conversation& conversation) const {
    Writer writer(*this, conversation);
    writer.write();
    return writer.take();
}

}  // namespace deepinfer::recipe
