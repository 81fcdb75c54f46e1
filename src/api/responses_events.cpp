// Responses (OpenAI): output items one after the other, every event numbered.
#include "api/answer_events.h"
#include "api/fields.h"
#include "api/json_writer.h"
#include "api/response_echo.h"

namespace deepinfer::api {
namespace {

namespace json = boost::json;
using recipe::OutputEvent;

// What a custom tool's one argument is wrapped in, as the model writes it.
constexpr std::string_view input_opening = "{\"input\": \"";

// The text inside that wrapping, as it comes: `{"input": "a\nb"}` -> a, line break, b. Any other object passes as it is.
class InputUnwrapper {
  public:
    std::string push(std::string_view text) {
        std::string out;
        for (const char c : text) {
            if (passes_) {
                out += c;
            } else if (opened_ < input_opening.size()) {
                opening_ += c;
                if (c != input_opening[opened_]) {
                    passes_ = true;
                    out += std::exchange(opening_, {});
                } else {
                    ++opened_;
                }
            } else if (!closed_) {
                take(c, out);
            }
        }
        return out;
    }

  private:
    void take(char c, std::string& out) {
        if (!escape_.empty()) {
            escape_ += c;
            if (escape_.size() < (escape_[1] == 'u' ? 6u : 2u)) return;
            append_unescaped(out, escape_);
            escape_.clear();
        } else if (c == '\\') {
            escape_ = c;
        } else if (c == '"') {
            closed_ = true;
        } else {
            out += c;
        }
    }

    // Of the escapes that the parser of the output writes.
    static void append_unescaped(std::string& out, std::string_view escape) {
        static constexpr std::string_view letters = "\"\\bfnrt", meant = "\"\\\b\f\n\r\t";
        if (const size_t at = letters.find(escape[1]); at != letters.npos) {
            out += meant[at];
        } else if (escape[1] == 'u') {
            int code = 0;
            std::from_chars(escape.data() + 2, escape.data() + escape.size(), code, 16);
            out += static_cast<char>(code);
        }
    }

    size_t opened_ = 0;
    std::string opening_, escape_;
    bool passes_ = false, closed_ = false;
};

class ResponsesEvents final : public AnswerEvents {
  public:
    ResponsesEvents(AnswerSetting setting, const json::object& request, ToolOrigins origins)
        : setting_(std::move(setting)), echo_(request), origins_(std::move(origins)) {}

    void start(const AnswerUsage&, const std::optional<std::string>&) override {
        for (const char* name : {"response.created", "response.in_progress"}) {
            begin(name);
            json_.member_raw("response", response("in_progress", nullptr));
            finish_event();
        }
    }

    void add(const OutputEvent& event, const std::vector<TokenLogprobs>& logprobs) override {
        switch (event.kind) {
            case OutputEvent::Kind::reasoning:
                if (!is_open(Item::Type::reasoning)) open(Item::Type::reasoning);
                text_delta("response.reasoning_text.delta", event.text, nullptr);
                break;
            case OutputEvent::Kind::content:
                if (!is_open(Item::Type::message)) open(Item::Type::message);
                items_.back().logprobs.insert(items_.back().logprobs.end(), logprobs.begin(), logprobs.end());
                text_delta("response.output_text.delta", event.text, &logprobs);
                break;
            case OutputEvent::Kind::call_begin:
                open_call(event.text);
                break;
            case OutputEvent::Kind::call_arguments:
                add_arguments(event.text);
                break;
            case OutputEvent::Kind::call_end:
                break;
        }
    }

    void end(AnswerReason reason, const std::optional<std::string>&, const AnswerUsage& usage) override {
        usage_ = usage;
        const bool cut = reason == AnswerReason::length || reason == AnswerReason::content_filter;
        close(cut ? "incomplete" : "completed");
        if (cut) incomplete_ = reason == AnswerReason::length ? "max_output_tokens" : "content_filter";
        ended_ = true;
        begin(cut ? "response.incomplete" : "response.completed");
        json_.member_raw("response", whole());
        finish_event();
    }

    std::string whole() const override {
        return response(incomplete_.empty() ? "completed" : "incomplete", &usage_);
    }

  private:
    struct Item {
        enum class Type { reasoning, message, function_call, custom_call, search_call } type;
        std::string id, call_id, name, name_space;
        std::string text;  // said, or the arguments
        std::vector<TokenLogprobs> logprobs;
        const char* status = "in_progress";
        const char* phase = "final_answer";
    };

    void begin(const char* name) {
        name_ = name;
        json_.begin().member("type", name);
    }
    void finish_event() {
        json_.member("sequence_number", sequence_++).end();
        send(name_, json_.take());
    }
    void at_item() { json_.member("item_id", items_.back().id).member("output_index", items_.size() - 1); }
    void at_part() {
        at_item();
        json_.member("content_index", 0);
    }

    bool is_open(Item::Type type) const { return open_ && items_.back().type == type; }

    // The arguments of a search as an object.
    static std::string search_arguments(const Item& item, bool whole) {
        const bool valid = whole && parse_json(item.text, "arguments", {.max_depth = 128}).ok();
        return valid ? item.text : "{}";
    }

    void write_part(JsonWriter& json, const Item& item, bool whole) const {
        json.begin();
        if (item.type == Item::Type::reasoning) {
            json.member("type", "reasoning_text");
        } else {
            json.member("type", "output_text").key("annotations").begin_array().end_array();
            json.member_raw("logprobs", whole ? logprobs_json(item.logprobs) : "[]");
        }
        json.member("text", whole ? std::string_view(item.text) : "").end();
    }

    void write_item(JsonWriter& json, const Item& item, bool whole) const {
        static constexpr const char* types[] = {"reasoning", "message", "function_call", "custom_tool_call",
                                                "tool_search_call"};
        json.begin()
            .member("type", types[static_cast<int>(item.type)])
            .member("id", item.id)
            .member("status", item.status);
        const auto content = [&] {
            json.key("content").begin_array();
            if (whole) write_part(json, item, true);
            json.end_array();
        };
        const std::string_view text = whole ? std::string_view(item.text) : "";
        switch (item.type) {
            case Item::Type::reasoning:
                content();
                json.key("summary").begin_array().end_array();
                json.member("encrypted_content", setting_.header.id + "-0");
                break;
            case Item::Type::message:
                json.member("role", "assistant").member("phase", item.phase);
                content();
                break;
            case Item::Type::function_call:
                json.member("call_id", item.call_id).member("name", item.name);
                if (!item.name_space.empty()) json.member("namespace", item.name_space);
                json.member("arguments", text);
                break;
            case Item::Type::custom_call:
                json.member("call_id", item.call_id).member("name", item.name).member("input", text);
                break;
            case Item::Type::search_call:
                json.member("call_id", item.call_id).member("execution", "client");
                json.member_raw("arguments", search_arguments(item, whole));
                break;
        }
        json.end();
    }

    void open(Item::Type type) {
        static constexpr const char* prefixes[] = {"rs_", "msg_", "fc_", "ctc_", "tsc_"};
        close("completed");
        Item& item = items_.emplace_back();
        item.type = type;
        item.id =
            prefixes[static_cast<int>(type)] + setting_.header.id + "_" + std::to_string(items_.size() - 1);
        open_ = true;
        if (type == Item::Type::reasoning || type == Item::Type::message) announce();
    }

    // The item has all that is known of it at its start.
    void announce() {
        const Item& item = items_.back();
        begin("response.output_item.added");
        json_.member("output_index", items_.size() - 1).key("item");
        write_item(json_, item, false);
        finish_event();
        if (item.type != Item::Type::reasoning && item.type != Item::Type::message) return;
        begin("response.content_part.added");
        at_part();
        json_.key("part");
        write_part(json_, item, false);
        finish_event();
    }

    void open_call(const std::string& name) {
        if (is_open(Item::Type::message)) items_.back().phase = "commentary";
        bool thought = false;
        for (const Item& item : items_) thought |= item.type == Item::Type::reasoning;
        const auto origin = origins_.find(name);
        Item::Type type = Item::Type::function_call;
        if (origin != origins_.end() && origin->second.kind == ToolOrigin::Kind::custom)
            type = Item::Type::custom_call;
        if (origin != origins_.end() && origin->second.kind == ToolOrigin::Kind::tool_search)
            type = Item::Type::search_call;
        open(type);
        Item& item = items_.back();
        item.call_id = setting_.call_ids(calls_++, thought);
        item.name = origin == origins_.end() ? name : origin->second.name;
        if (origin != origins_.end()) item.name_space = origin->second.name_space;
        input_ = {};
        announce();
    }

    void add_arguments(const std::string& text) {
        Item& item = items_.back();
        const std::string shown = item.type == Item::Type::custom_call ? input_.push(text) : text;
        item.text += shown;
        if (item.type == Item::Type::search_call || shown.empty()) return;
        begin(item.type == Item::Type::custom_call ? "response.custom_tool_call_input.delta"
                                                   : "response.function_call_arguments.delta");
        at_item();
        json_.member("delta", shown);
        finish_event();
    }

    void text_delta(const char* name, const std::string& text, const std::vector<TokenLogprobs>* logprobs) {
        items_.back().text += text;
        begin(name);
        at_part();
        json_.member("delta", text);
        if (logprobs) json_.member_raw("logprobs", logprobs->empty() ? "[]" : logprobs_json(*logprobs));
        finish_event();
    }

    void close(const char* status) {
        if (!open_) return;
        open_ = false;
        Item& item = items_.back();
        item.status = status;
        switch (item.type) {
            case Item::Type::reasoning:
            case Item::Type::message: {
                const bool is_message = item.type == Item::Type::message;
                begin(is_message ? "response.output_text.done" : "response.reasoning_text.done");
                at_part();
                json_.member("text", item.text);
                if (is_message) json_.member_raw("logprobs", logprobs_json(item.logprobs));
                finish_event();
                begin("response.content_part.done");
                at_part();
                json_.key("part");
                write_part(json_, item, true);
                finish_event();
                break;
            }
            case Item::Type::function_call:
                begin("response.function_call_arguments.done");
                at_item();
                json_.member("arguments", item.text);
                finish_event();
                break;
            case Item::Type::custom_call:
                begin("response.custom_tool_call_input.done");
                at_item();
                json_.member("input", item.text);
                finish_event();
                break;
            case Item::Type::search_call:
                break;
        }
        begin("response.output_item.done");
        json_.member("output_index", items_.size() - 1).key("item");
        write_item(json_, item, true);
        finish_event();
    }

    std::string response(const char* status, const AnswerUsage* usage) const {
        JsonWriter json;
        json.begin()
            .member("id", setting_.header.id)
            .member("object", "response")
            .member("created_at", setting_.header.created)
            .member("status", status)
            .member("model", setting_.header.model)
            .member("error", nullptr);
        json.key("completed_at");
        ended_ ? json.value(setting_.header.created) : json.value(nullptr);
        json.key("incomplete_details");
        if (incomplete_.empty())
            json.value(nullptr);
        else
            json.begin().member("reason", incomplete_).end();
        json.key("output").begin_array();
        for (const Item& item : items_) write_item(json, item, true);
        json.end_array().key("usage");
        if (usage) {
            json.begin().member("input_tokens", usage->prompt_tokens);
            json.key("input_tokens_details").begin().member("cached_tokens", usage->cached_tokens).end();
            json.member("output_tokens", usage->completion_tokens);
            json.key("output_tokens_details")
                .begin()
                .member("reasoning_tokens", usage->reasoning_tokens.value_or(0))
                .end();
            json.member("total_tokens", usage->prompt_tokens + usage->completion_tokens).end();
        } else {
            json.value(nullptr);
        }
        echo_.write(json);
        return json.end().take();
    }

    const AnswerSetting setting_;
    const ResponseEcho echo_;
    const ToolOrigins origins_;
    JsonWriter json_;
    const char* name_ = "";
    int64_t sequence_ = 0;
    std::vector<Item> items_;
    bool open_ = false;  // the last item
    bool ended_ = false;
    size_t calls_ = 0;
    InputUnwrapper input_;
    std::string incomplete_;
    AnswerUsage usage_;
};

}  // namespace

std::unique_ptr<AnswerEvents> responses_events(AnswerSetting setting, const json::object& request,
                                               ToolOrigins origins) {
    return std::make_unique<ResponsesEvents>(std::move(setting), request, std::move(origins));
}

}  // namespace deepinfer::api
