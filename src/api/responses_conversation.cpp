// Responses (OpenAI): instructions, input items and format of a request. Its tools: responses_tools.cpp.
#include <algorithm>
#include <cctype>
#include <set>

#include "api/content.h"
#include "api/conversation_request.h"
#include "api/limits.h"
#include "api/responses_tools.h"
#include "base/sort_stably.h"

namespace deepinfer::api {
namespace {

namespace json = boost::json;
using recipe::Message;
using recipe::Role;

constexpr std::string_view separator = "\n\n";

class Converter {
  public:
    Converter(const Fields& request, const ServiceRules& rules)
        : request_(request), rules_(rules), tools_(rules) {}

    ConversationRequest convert() {
        result_.model = request_.string("model").value_or("");
        if (const json::array* items = request_.array("tools")) tools_.add(*items, "tools");
        check_unique_names(tools_.given());
        parse_input();

        std::optional<std::string> effort;
        if (const json::object* object = request_.object("reasoning"))
            effort = Fields(*object, "reasoning.").string("effort");
        put_thinking(conversation(), std::nullopt, effort, "reasoning.effort", rules_);
        settle_reasoning(conversation(), !tools_.given().empty(), "reasoning_text", rules_);
        const bool json_object = format_is_json_object();
        if (rules_.official && json_object && !says_json())
            fail("input", "With 'text.format' json_object some message must contain the word json.",
                 "json_word");
        const ToolWish wish = tools_.parse_choice(request_);
        std::vector<GivenTool> given = tools_.given();
        const bool any_strict =
            std::ranges::any_of(given, [](const GivenTool& g) { return g.tool.strict == true; });
        const bool all_strict =
            std::ranges::all_of(given, [](const GivenTool& g) { return g.tool.strict == true; });
        put_tools(conversation(), std::move(given), wish, rules_);
        const bool has_format = put_format();
        if (rules_.official && any_strict && wish.choice != recipe::ToolChoice::none) {
            if (!all_strict)
                fail("tools", "Strict and other tools cannot be mixed.", "tool_or_output_schema");
            if (has_format)
                fail("text.format", "'text.format' cannot be combined with strict tools.", "format_conflict");
        }
        result_.origins = tools_.origins();
        settle_output(result_);
        return std::move(result_);
    }

  private:
    recipe::Conversation& conversation() { return result_.conversation; }
    std::vector<Message>& messages() { return result_.conversation.messages; }

    void parse_input() {
        const std::optional<std::string> instructions = request_.string("instructions");
        if (instructions && !instructions->empty())
            messages().push_back({.role = Role::system, .content = *instructions});
        const json::value* input = request_.find("input");
        if (!input) {
            if (messages().empty()) fail("input", "'input' or 'instructions' must be given.", "empty_input");
            return;
        }
        if (input->is_string()) {
            messages().push_back({.role = Role::user, .content = as_string(*input, "input")});
            return;
        }
        if (!input->is_array())
            fail("input",
                 std::string("'input' must be a string or an array of items, but is ") + kind_name(*input) +
                     ".",
                 "invalid_type");
        const json::array& items = input->get_array();
        if (items.empty()) fail("input", "'input' must not be empty.", "empty_input");
        if (items.size() > limits::messages)
            fail("input",
                 "'input' has " + std::to_string(items.size()) + " items; at most " +
                     std::to_string(limits::messages) + " are allowed.",
                 "invalid_value");
        for (size_t i = 0; i < items.size(); ++i) {
            path_ = "input[" + std::to_string(i) + "]";
            add_item(Fields(as_object(items[i], path_), path_ + "."));
        }
        if (!open_calls_.empty())
            fail("input", "The call " + in_quotes(open_calls_.begin()->substr(0, 64)) + " has no output.",
                 "tool_pairing");
        end_thought();
    }

    void add_item(const Fields& item) {
        std::string type = item.string("type").value_or("");
        if (type.empty()) {
            if (!item.find("role"))
                fail(path_, in_quotes(path_) + " is no input item: it has neither 'type' nor 'role'.",
                     "invalid_type");
            type = "message";
        }
        if (type == "message") {
            add_message(item);
        } else if (type == "reasoning") {
            add_reasoning(item);
        } else if (type == "function_call") {
            const std::string name = required(item, "name");
            add_call(item, tools_.model_name(item.string("namespace").value_or(""), name),
                     required(item, "arguments"));
        } else if (type == "custom_tool_call") {
            add_call(item, required(item, "name"),
                     recipe::to_text(json::object{{"input", required(item, "input")}}, {}));
        } else if (type == "function_call_output" || type == "custom_tool_call_output") {
            add_output(item, parse_output(item));
        } else if (type == "tool_search_call" && rules_.is_v41()) {
            const json::value* arguments = item.find("arguments");
            add_call(item, "tool_search", arguments ? recipe::to_text(*arguments, {}) : "{}");
        } else if (type == "tool_search_output" && rules_.is_v41()) {
            add_found_tools(item);
        }
        // Items of other types are what hosted tools and other servers leave behind: nothing for the model.
    }

    static std::string required(const Fields& item, std::string_view name) {
        const std::optional<std::string> value = item.string(name);
        if (!value) fail_missing(item.path(name));
        return *value;
    }

    // --- messages and reasoning

    void add_message(const Fields& item) {
        const size_t kind =
            one_of(required(item, "role"), {"user", "assistant", "system", "developer"}, item.path("role"));
        if (!open_calls_.empty())
            fail(path_,
                 "No output for the call " + in_quotes(open_calls_.begin()->substr(0, 64)) +
                     " stands before " + in_quotes(path_) + ".",
                 "tool_pairing");
        Content content = parse_content(item, "content", kind == 1);
        if (kind == 1) {
            Message* last = last_answer();
            if (last && !thought_) {
                last->content = last->content.value_or("").append(separator).append(content.text);
                return;
            }
            Message message{.role = Role::assistant, .content = std::move(content.text)};
            if (thought_) message.reasoning = std::move(*thought_);
            thought_.reset();
            messages().push_back(std::move(message));
            return;
        }
        end_thought();
        const Role developer = rules_.wording == Wording::deepseek_v4     ? Role::user
                               : rules_.wording == Wording::chat_template ? Role::developer
                                                                          : Role::system;
        Message message{.role = kind == 0 ? Role::user : kind == 2 ? Role::system : developer};
        set_content(message, std::move(content));
        messages().push_back(std::move(message));
    }

    // The last message if it is an answer that calls nothing.
    Message* last_answer() {
        if (messages().empty()) return nullptr;
        Message& last = messages().back();
        return last.role == Role::assistant && last.tool_calls.empty() ? &last : nullptr;
    }

    Content parse_content(const Fields& item, std::string_view name, bool of_assistant) const {
        const json::value* value = item.find(name);
        if (!value) fail_missing(item.path(name));
        if (value->is_string()) return {as_string(*value, item.path(name)), {}};
        if (!value->is_array())
            fail(item.path(name),
                 in_quotes(item.path(name)) + " must be a string or an array of parts, but is " +
                     kind_name(*value) + ".",
                 "invalid_type");
        ContentBuilder content(separator);
        const json::array& parts = value->get_array();
        for (size_t i = 0; i < parts.size(); ++i) {
            const std::string path = item.path(name) + "[" + std::to_string(i) + "]";
            const Fields part(as_object(parts[i], path), path + ".");
            const std::string type = required(part, "type");
            switch (one_of(
                type,
                {"input_text", "output_text", "text", "refusal", "summary_text", "input_image", "input_file"},
                part.path("type"))) {
                case 5:
                    if (of_assistant) fail(path, "A message of the assistant cannot hold pictures.", "image");
                    add_picture(content, part, path);
                    break;
                case 6:
                    content.add_text("[Unsupported Document]");
                    break;
                default:
                    content.add_text(required(part, type == "refusal" ? "refusal" : "text"));
            }
        }
        return content.take();
    }

    void add_picture(ContentBuilder& content, const Fields& part, const std::string& path) const {
        const std::string detail = part.string("detail").value_or("high");
        const std::string where = rules_.official ? path_ : path;
        const std::optional<std::string> url = part.string("image_url");
        if (!url && rules_.takes_images()) {
            if (part.find("file_id"))
                fail(part.path("file_id"),
                     "Uploaded files are not supported. Send the picture as a data URL.", "image");
            fail(path, in_quotes(path) + " has no 'image_url'.", "image");
        }
        add_image(content, url.value_or(""), detail, where, rules_);
    }

    void add_reasoning(const Fields& item) {
        if (!open_calls_.empty())
            fail(path_,
                 "No output for the call " + in_quotes(open_calls_.begin()->substr(0, 64)) +
                     " stands before " + in_quotes(path_) + ".",
                 "tool_pairing");
        end_thought();
        std::string text;
        bool any = false;
        if (const json::array* parts = item.array("content"))
            for (size_t i = 0; i < parts->size(); ++i) {
                const std::string path = item.path("content[" + std::to_string(i) + "]");
                const Fields part(as_object((*parts)[i], path), path + ".");
                if (any) text += '\n';
                any = true;
                text += required(part, "text");
            }
        thought_ = std::move(text);
    }

    // What was thought and led to nothing is an empty answer.
    void end_thought() {
        if (!thought_) return;
        messages().push_back({.role = Role::assistant, .content = "", .reasoning = std::move(*thought_)});
        thought_.reset();
    }

    // --- calls and their outputs: calls in a row are one answer's, until each has its output.

    void add_call(const Fields& item, std::string name, std::string arguments) {
        const std::string id = required(item, "call_id");
        const std::string path = item.path("call_id");
        if (id.empty()) fail(path, in_quotes(path) + " must not be empty.", "tool_pairing");
        if (!call_ids_.insert(id).second)
            fail(path, in_quotes(path) + " is " + in_quotes(id.substr(0, 64)) + ", as that of another call.",
                 "tool_pairing");
        open_calls_.insert(id);
        calls_.push_back({id, std::move(name), std::move(arguments)});
    }

    Content parse_output(const Fields& item) const {
        return item.find("output") ? parse_content(item, "output", false) : Content{};
    }

    void add_output(const Fields& item, Content content, std::vector<std::string> announced = {}) {
        const std::optional<std::string> id = item.string("call_id");
        Message message{.role = Role::tool};
        set_content(message, std::move(content));
        if (!id) {
            end_thought();
            messages().push_back(std::move(message));
            return;
        }
        const std::string path = item.path("call_id");
        if (id->empty()) fail(path, in_quotes(path) + " must not be empty.", "tool_pairing");
        if (open_calls_.erase(*id) == 0)
            fail(path,
                 in_quotes(path) + " is " + in_quotes(id->substr(0, 64)) +
                     (call_ids_.contains(*id) ? ", which has an output already."
                                              : ", but there is no call of that id before it."),
                 "tool_pairing");
        message.tool_call_id = *id;
        outputs_.push_back(std::move(message));
        if (!announced.empty())
            outputs_.push_back(
                {.role = Role::system, .content = "", .announced_tools = std::move(announced)});
        if (open_calls_.empty()) end_calls();
    }

    void end_calls() {
        sort_stably(calls_.begin(), calls_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
        Message* answer = thought_ ? nullptr : last_answer();
        if (!answer) {
            answer = &messages().emplace_back();
            answer->role = Role::assistant;
            if (thought_) answer->reasoning = std::move(*thought_);
            thought_.reset();
        }
        answer->tool_calls = std::exchange(calls_, {});
        for (Message& output : outputs_) messages().push_back(std::move(output));
        outputs_.clear();
    }

    void add_found_tools(const Fields& item) {
        std::vector<std::string> names;
        const json::array* found = item.array("tools");
        const std::string shown = found ? tools_.add_found(*found, item.path("tools"), names) : "[]";
        add_output(item, {shown, {}}, std::move(names));
    }

    // --- format

    const json::object* format() const {
        const json::object* text = request_.object("text");
        return text ? Fields(*text, "text.").object("format") : nullptr;
    }

    std::optional<size_t> format_kind() const {
        const json::object* object = format();
        if (!object) return std::nullopt;
        const Fields fields(*object, "text.format.");
        return one_of(required(fields, "type"), {"text", "json_object", "json_schema"}, fields.path("type"));
    }
    bool format_is_json_object() const { return format_kind() == size_t{1}; }

    // True if the request names one.
    bool put_format() {
        const std::optional<size_t> kind = format_kind();
        if (kind == size_t{1}) conversation().format = {.kind = recipe::ResponseFormat::Kind::json_object};
        if (kind == size_t{2}) {
            const Fields fields(*format(), "text.format.");
            (void)required(fields, "name");
            const json::value* schema = fields.find("schema");
            if (!schema) fail_missing(fields.path("schema"));
            put_schema(conversation(), *schema, fields.boolean("strict").value_or(false),
                       fields.path("schema"));
        }
        return kind.has_value();
    }

    bool says_json() const {
        return std::ranges::any_of(result_.conversation.messages, [](const Message& message) {
            if (!message.content) return false;
            std::string text = *message.content;
            std::ranges::transform(text, text.begin(),
                                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
            return text.find("json") != text.npos;
        });
    }

    const Fields& request_;
    const ServiceRules& rules_;
    ResponsesTools tools_;
    ConversationRequest result_;
    std::string path_;                    // of the item at hand
    std::optional<std::string> thought_;  // of the answer that follows
    std::vector<recipe::ToolCall> calls_;
    std::vector<Message> outputs_;
    std::set<std::string> open_calls_, call_ids_;
};

}  // namespace

ConversationRequest convert_responses(const Fields& request, const ServiceRules& rules) {
    return Converter(request, rules).convert();
}

}  // namespace deepinfer::api
