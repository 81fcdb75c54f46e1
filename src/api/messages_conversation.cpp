// Messages (Anthropic): system, messages and tools of a request.
#include <algorithm>
#include <set>

#include "api/content.h"
#include "api/conversation_request.h"
#include "api/limits.h"

namespace deepinfer::api {
namespace {

namespace json = boost::json;
using recipe::Message;
using recipe::Role;

constexpr std::string_view separator = "\n\n";

class Converter {
  public:
    Converter(const Fields& request, const ServiceRules& rules) : request_(request), rules_(rules) {}

    ConversationRequest convert() {
        result_.model = request_.string("model").value_or("");
        std::vector<GivenTool> tools = parse_tools();
        check_unique_names(tools);
        for (const GivenTool& given : tools) tool_names_.insert(given.tool.name);
        parse_system();
        const json::array* messages = request_.array("messages");
        if (!messages) fail_missing("messages");
        if (messages->empty()) fail("messages", "'messages' must have at least one message.", "empty_input");
        if (messages->size() > limits::messages)
            fail("messages",
                 "'messages' has " + std::to_string(messages->size()) + " elements; at most " +
                     std::to_string(limits::messages) + " are allowed.",
                 "invalid_value");
        for (size_t i = 0; i < messages->size(); ++i) add_message((*messages)[i], i);
        if (!open_calls_.empty()) fail_open_call("messages[" + std::to_string(messages->size() - 1) + "]");

        parse_thinking();
        settle_reasoning(conversation(), !tools.empty(), "content[].thinking", rules_);
        put_tools(conversation(), std::move(tools), parse_choice(), rules_);
        parse_format();
        result_.output.stops = parse_stops(request_, "stop_sequences");
        if (!rules_.official) take_prefill();
        settle_output(result_);
        return std::move(result_);
    }

  private:
    recipe::Conversation& conversation() { return result_.conversation; }
    Message& push(Role role, Content content) {
        Message& message = conversation().messages.emplace_back();
        message.role = role;
        set_content(message, std::move(content));
        return message;
    }

    // --- system

    void parse_system() {
        const json::value* value = request_.find("system");
        if (!value) return;
        if (value->is_string()) {
            push(Role::system, {as_string(*value, "system"), {}});
            return;
        }
        const json::array* blocks = request_.array("system");
        ContentBuilder content(separator);
        for (size_t i = 0; i < blocks->size(); ++i) {
            const std::string path = "system[" + std::to_string(i) + "]";
            const Fields block(as_object((*blocks)[i], path), path + ".");
            one_of(block.string("type").value_or(""), {"text"}, block.path("type"));
            const std::optional<std::string> text = block.string("text");
            if (!text) fail_missing(block.path("text"));
            if (i == 0 && is_billing_header(*text)) continue;
            content.add_text(*text);
        }
        push(Role::system, content.take());
    }

    // --- messages

    void add_message(const json::value& value, size_t index) {
        const std::string path = "messages[" + std::to_string(index) + "]";
        const Fields message(as_object(value, path), path + ".");
        const std::optional<std::string> role = message.string("role");
        if (!role) fail_missing(message.path("role"));
        const size_t kind = one_of(*role, {"user", "assistant", "system"}, message.path("role"));
        const json::value* content = message.find("content");
        if (!content) fail_missing(message.path("content"));
        if (!content->is_string() && !content->is_array())
            fail(message.path("content"),
                 in_quotes(message.path("content")) + " must be a string or an array of blocks, but is " +
                     kind_name(*content) + ".",
                 "invalid_type");
        index_ = index;
        path_ = path;
        if (kind == 0)
            add_user(*content);
        else if (kind == 1)
            add_assistant(*content);
        else
            add_system(*content);
    }

    Fields block_at(const json::array& blocks, size_t i) const {
        const std::string path = path_ + ".content[" + std::to_string(i) + "]";
        return Fields(as_object(blocks[i], path), path + ".");
    }

    static std::string type_of(const Fields& block) {
        const std::optional<std::string> type = block.string("type");
        if (!type) fail_missing(block.path("type"));
        return *type;
    }

    std::string text_of(const Fields& block) const {
        const std::optional<std::string> text = block.string("text");
        if (!text) fail_missing(block.path("text"));
        return *text;
    }

    [[noreturn]] void fail_block(const Fields& block, const char* role) const {
        fail(block.path("type"),
             "A block of type " + in_quotes(type_of(block)) + " can only be in a message of role " + role +
                 ".",
             "block_role");
    }

    [[noreturn]] void fail_open_call(const std::string& path) const {
        fail(path,
             "The tool_use " + in_quotes(open_calls_.front().substr(0, 64)) +
                 " has no tool_result: the next message must begin with one for each tool_use.",
             "tool_pairing");
    }

    // Each block is a message of its own.
    void add_user(const json::value& content) {
        if (content.is_string()) {
            if (!open_calls_.empty()) fail_open_call(path_);
            push(Role::user, {as_string(content, path_ + ".content"), {}});
            return;
        }
        const json::array& blocks = content.get_array();
        std::set<std::string> answered;
        for (size_t i = 0; i < blocks.size(); ++i) {
            const Fields block = block_at(blocks, i);
            const std::string type = type_of(block);
            if (type == "tool_result") {
                add_result(block, i, answered);
                continue;
            }
            if (type == "thinking" || type == "redacted_thinking" || type == "tool_use")
                fail_block(block, "assistant");
            if (!open_calls_.empty()) fail_open_call(path_);
            ContentBuilder builder(separator);
            if (!add_block(builder, block, type, image_path(i))) continue;
            push(Role::user, builder.take());
        }
        if (!open_calls_.empty()) fail_open_call(path_);
    }

    std::string image_path(size_t block) const {
        return "messages." + std::to_string(index_) + ".content[" + std::to_string(block) + "]";
    }

    // Text, picture or document. False if nothing is to be shown.
    bool add_block(ContentBuilder& content, const Fields& block, const std::string& type,
                   const std::string& path) {
        if (type == "text") {
            content.add_text(text_of(block));
        } else if (type == "image") {
            add_picture(content, block, path);
        } else if (type == "document") {
            const json::object* source = block.object("source");
            std::string media = "unknown";
            if (source) media = Fields(*source, block.path("source.")).string("media_type").value_or(media);
            content.add_text("[Unsupported document type: " + media + "]");
        } else if (is_server_block(type)) {
            if (!drops(type)) fail(block.path("type"), "Server tools are not supported.", "server_tool");
            return false;
        } else {
            one_of(type,
                   {"text", "image", "document", "tool_result", "tool_use", "thinking", "redacted_thinking"},
                   block.path("type"));
        }
        return true;
    }

    void add_picture(ContentBuilder& content, const Fields& block, const std::string& path) {
        const json::object* object = block.object("source");
        if (!object) fail_missing(block.path("source"));
        const Fields source(*object, block.path("source."));
        const std::string type = source.string("type").value_or("");
        if (type == "base64") {
            const std::optional<std::string> media = source.string("media_type"),
                                             data = source.string("data");
            if (!media) fail_missing(source.path("media_type"));
            if (!data) fail_missing(source.path("data"));
            one_of(*media, {"image/jpeg", "image/jpg", "image/png", "image/gif", "image/webp"},
                   source.path("media_type"));
            add_image(content, image_data_url(*media == "image/jpg" ? "image/jpeg" : *media, *data), "high",
                      path, rules_);
        } else if (type == "url") {
            const std::optional<std::string> url = source.string("url");
            if (!url) fail_missing(source.path("url"));
            if (rules_.takes_images() && !url->starts_with("http"))
                fail(source.path("url"), in_quotes(source.path("url")) + " must begin with http.", "image");
            add_image(content, *url, "high", path, rules_);
        } else if (type == "file" && rules_.takes_images()) {
            fail(source.path("type"), "Uploaded files are not supported. Send the picture in base64.",
                 "image");
        } else if (type == "file") {
            add_image(content, {}, {}, path, rules_);
        } else {
            one_of(type, {"base64", "url", "file"}, source.path("type"));
        }
    }

    void add_result(const Fields& block, size_t i, std::set<std::string>& answered) {
        const std::optional<std::string> id = block.string("tool_use_id");
        if (!id) fail_missing(block.path("tool_use_id"));
        const auto open = std::ranges::find(open_calls_, *id);
        if (open == open_calls_.end())
            fail(block.path("tool_use_id"),
                 in_quotes(block.path("tool_use_id")) + " is " + in_quotes(id->substr(0, 64)) +
                     (answered.contains(*id) ? ", which has a result already."
                                             : ", but the message before has no tool_use of that id."),
                 "tool_pairing");
        open_calls_.erase(open);
        answered.insert(*id);
        ContentBuilder content(separator);
        std::vector<std::string> references;
        const std::string where =
            "messages." + std::to_string(index_) + ".content." + std::to_string(i) + ".tool_result";
        if (const json::value* value = block.find("content")) {
            if (value->is_string()) {
                content.add_text(as_string(*value, block.path("content")));
            } else {
                const json::array* parts = block.array("content");
                for (size_t k = 0; k < parts->size(); ++k)
                    add_result_part(content, (*parts)[k], block.path("content[" + std::to_string(k) + "]"),
                                    where, references);
            }
        }
        Content made = content.take();
        if (!rules_.official && block.boolean("is_error").value_or(false)) {
            constexpr std::string_view mark = "Error: ";
            made.text.insert(0, mark);
            for (recipe::Image& image : made.images) image.offset += mark.size();
        }
        push(Role::tool, std::move(made)).tool_call_id = *id;
        announce(std::move(references), {});
    }

    void add_result_part(ContentBuilder& content, const json::value& value, const std::string& path,
                         const std::string& where, std::vector<std::string>& references) {
        const Fields part(as_object(value, path), path + ".");
        const std::string type = type_of(part);
        if (type == "tool_reference") {
            const std::string name = referenced_tool(part, "tool_name");
            content.add_text(name);
            references.push_back(name);
        } else {
            add_block(content, part, type, where);
        }
    }

    std::string referenced_tool(const Fields& reference, std::string_view field) const {
        const std::optional<std::string> name = reference.string(field);
        if (!name) fail_missing(reference.path(field));
        if (!tool_names_.contains(*name))
            fail(reference.path(field),
                 in_quotes(reference.path(field)) + " is " + in_quotes(name->substr(0, 64)) +
                     ", but no tool has that name.",
                 "tool_pairing");
        return *name;
    }

    // Deferred tools can be called from here on.
    void announce(std::vector<std::string> names, std::string text) {
        if (!rules_.is_v41() || names.empty()) return;
        push(Role::system, {std::move(text), {}}).announced_tools = std::move(names);
    }

    void add_assistant(const json::value& content) {
        if (!open_calls_.empty()) fail_open_call(path_);
        Message message{.role = Role::assistant};
        if (content.is_string()) {
            message.content = as_string(content, path_ + ".content");
        } else {
            ContentBuilder text(separator), thinking(separator);
            const json::array& blocks = content.get_array();
            for (size_t i = 0; i < blocks.size(); ++i)
                add_answer_block(message, block_at(blocks, i), text, thinking);
            message.content = text.take().text;
            message.reasoning = thinking.take().text;
        }
        conversation().messages.push_back(std::move(message));
    }

    void add_answer_block(Message& message, const Fields& block, ContentBuilder& text,
                          ContentBuilder& thinking) {
        const std::string type = type_of(block);
        if (type == "tool_result") fail_block(block, "user");
        if (type == "image")
            fail(block.path("type"), "A message of the assistant cannot hold pictures.", "image");
        if (is_server_block(type)) {
            if (!drops(type)) fail(block.path("type"), "Server tools are not supported.", "server_tool");
        } else if (type == "tool_use") {
            const std::optional<std::string> id = block.string("id"), name = block.string("name");
            if (!id) fail_missing(block.path("id"));
            if (!name) fail_missing(block.path("name"));
            const json::value* input = block.find("input");
            if (!input) fail_missing(block.path("input"));
            if (std::ranges::count(open_calls_, *id) > 0)
                fail(block.path("id"),
                     "Two tool_use blocks have the id " + in_quotes(id->substr(0, 64)) + ".", "tool_pairing");
            open_calls_.push_back(*id);
            message.tool_calls.push_back({*id, *name, recipe::to_text(*input, {})});
        } else if (type == "thinking") {
            const std::optional<std::string> thought = block.string("thinking");
            if (!thought) fail_missing(block.path("thinking"));
            thinking.add_text(*thought);
        } else if (type == "redacted_thinking") {
            // Nothing that this server could read.
        } else if (type == "text") {
            if (!message.tool_calls.empty())
                fail(block.path("type"), "Text cannot follow a tool_use: its tool_result must come first.",
                     "tool_pairing");
            text.add_text(text_of(block));
        } else {
            one_of(type, {"text", "thinking", "redacted_thinking", "tool_use"}, block.path("type"));
        }
    }

    // In the middle of the conversation.
    void add_system(const json::value& content) {
        if (!open_calls_.empty()) fail_open_call(path_);
        ContentBuilder text(separator);
        std::vector<std::string> additions;
        if (content.is_string()) {
            text.add_text(as_string(content, path_ + ".content"));
        } else {
            const json::array& blocks = content.get_array();
            for (size_t i = 0; i < blocks.size(); ++i) {
                const Fields block = block_at(blocks, i);
                const std::string type = type_of(block);
                if (one_of(type, {"text", "tool_addition"}, block.path("type")) == 0) {
                    text.add_text(text_of(block));
                    continue;
                }
                const json::object* tool = block.object("tool");
                if (!tool) fail_missing(block.path("tool"));
                additions.push_back(referenced_tool(Fields(*tool, block.path("tool.")), "name"));
            }
        }
        std::string said = text.take().text;
        if (rules_.is_v41() || !rules_.is_deepseek()) {
            push(Role::system, {std::move(said), {}}).announced_tools = std::move(additions);
        } else if (!said.empty()) {
            push(Role::user, {"<system-reminder>\n" + said + "\n</system-reminder>", {}});
        }
    }

    // An answer that ends the messages is to be continued.
    void take_prefill() {
        Message& last = conversation().messages.back();
        if (last.role != Role::assistant || !last.tool_calls.empty()) return;
        last.is_prefix = true;
    }

    // --- options

    void parse_thinking() {
        std::optional<std::string> type, effort;
        if (const json::object* object = request_.object("thinking")) {
            const Fields thinking(*object, "thinking.");
            type = thinking.string("type");
            if (!type) fail_missing("thinking.type");
        }
        if (const json::object* object = request_.object("output_config"))
            effort = Fields(*object, "output_config.").string("effort");
        put_thinking(conversation(), type, effort, "output_config.effort", rules_);
    }

    void parse_format() {
        const json::object* object = request_.object("output_config");
        if (!object || rules_.official) return;
        const json::object* given = Fields(*object, "output_config.").object("format");
        if (!given) return;
        const Fields format(*given, "output_config.format.");
        one_of(format.string("type").value_or(""), {"json_schema"}, format.path("type"));
        const json::value* schema = format.find("schema");
        if (!schema) fail_missing(format.path("schema"));
        put_schema(conversation(), *schema, false, format.path("schema"));
    }

    static bool is_web_search(std::string_view type) { return type.starts_with("web_search"); }
    static bool is_server_block(std::string_view type) {
        return type == "server_tool_use" || (type.ends_with("_tool_result") && type != "tool_result");
    }
    bool drops(std::string_view type) const {
        if (!rules_.official) return true;
        return rules_.drops_messages_web_search && (is_web_search(type) || type == "server_tool_use");
    }

    std::vector<GivenTool> parse_tools() {
        std::vector<GivenTool> tools;
        const json::array* items = request_.array("tools");
        if (!items) return tools;
        for (size_t i = 0; i < items->size(); ++i) {
            const std::string path = "tools[" + std::to_string(i) + "]";
            const Fields item(as_object((*items)[i], path), path + ".");
            const std::optional<std::string> name = item.string("name");
            if (!name) fail_missing(item.path("name"));
            if (const std::string type = item.string("type").value_or("custom"); type != "custom") {
                if (!drops(type))
                    fail(path, in_quotes(path) + ": server tools are not supported.", "server_tool");
                dropped_.insert(*name);
                continue;
            }
            GivenTool given{
                .tool = {.name = *name,
                         .description = item.string("description"),
                         .parameters = nullptr,
                         .strict = item.boolean("strict"),
                         .deferred = rules_.is_v41() && item.boolean("defer_loading").value_or(false)},
                .path = item.path(""),
                .name_path = item.path("name")};
            if (const json::value* schema = item.find("input_schema")) given.tool.parameters = *schema;
            check_tool_name(given.tool.name, given.name_path);
            tools.push_back(std::move(given));
        }
        return tools;
    }

    ToolWish parse_choice() const {
        ToolWish wish;
        wish.path = "tool_choice";
        const json::object* object = request_.object("tool_choice");
        if (!object) return wish;
        const Fields choice(*object, "tool_choice.");
        const std::optional<std::string> type = choice.string("type");
        if (!type) fail_missing(choice.path("type"));
        switch (one_of(*type, {"auto", "any", "tool", "none"}, choice.path("type"))) {
            case 1:
                if (!rules_.official) wish.choice = recipe::ToolChoice::required;
                break;
            case 2: {
                const std::optional<std::string> name = choice.string("name");
                if (!name) fail_missing(choice.path("name"));
                if (dropped_.contains(*name)) break;
                wish.choice = recipe::ToolChoice::required;
                wish.named = *name;
                break;
            }
            case 3:
                wish.choice = recipe::ToolChoice::none;
                break;
            default:
                break;
        }
        return wish;
    }

    const Fields& request_;
    const ServiceRules& rules_;
    ConversationRequest result_;
    std::set<std::string> tool_names_, dropped_;
    std::vector<std::string> open_calls_;  // ids of tool_use without a result yet
    size_t index_ = 0;                     // of the message at hand
    std::string path_;
};

}  // namespace

ConversationRequest convert_messages(const Fields& request, const ServiceRules& rules) {
    return Converter(request, rules).convert();
}

}  // namespace deepinfer::api
