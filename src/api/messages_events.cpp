// Messages (Anthropic): content blocks one after the other.
#include "api/answer_events.h"
#include "api/json_writer.h"
#include "base/json.h"

namespace deepinfer::api {
namespace {

using recipe::OutputEvent;

const char* reason_name(AnswerReason reason) {
    switch (reason) {
        case AnswerReason::stop:
            return "end_turn";
        case AnswerReason::stop_sequence:
            return "stop_sequence";
        case AnswerReason::tool_calls:
            return "tool_use";
        case AnswerReason::length:
            return "max_tokens";
        case AnswerReason::content_filter:
            return "refusal";
    }
    return "end_turn";
}

void write_usage(JsonWriter& json, const AnswerUsage& usage) {
    json.begin()
        .member("input_tokens", usage.prompt_tokens - usage.cached_tokens)
        .member("cache_creation_input_tokens", 0)
        .member("cache_read_input_tokens", usage.cached_tokens)
        .member("output_tokens", usage.completion_tokens)
        .member("service_tier", "standard")
        .end();
}

class MessagesEvents final : public AnswerEvents {
  public:
    MessagesEvents(AnswerSetting setting, std::string signature)
        : setting_(std::move(setting)),
          signature_(signature.empty() ? setting_.header.id : std::move(signature)) {}

    void start(const AnswerUsage& usage, const std::optional<std::string>&) override {
        json_.begin().member("type", "message_start").key("message").begin();
        write_head(json_);
        json_.key("content")
            .begin_array()
            .end_array()
            .member("stop_reason", nullptr)
            .member("stop_sequence", nullptr);
        json_.key("usage");
        write_usage(json_, usage);
        json_.end().end();
        flush("message_start");
        if (setting_.first == recipe::FirstStage::reasoning ||
            setting_.first == recipe::FirstStage::reasoning_continued)
            open(Block::Type::thinking);
    }

    void add(const OutputEvent& event, const std::vector<TokenLogprobs>&) override {
        switch (event.kind) {
            case OutputEvent::Kind::reasoning:
                if (!is_open(Block::Type::thinking)) open(Block::Type::thinking);
                blocks_.back().text += event.text;
                delta("thinking_delta", "thinking", event.text);
                break;
            case OutputEvent::Kind::content:
                if (!is_open(Block::Type::text)) open(Block::Type::text);
                blocks_.back().text += event.text;
                delta("text_delta", "text", event.text);
                break;
            case OutputEvent::Kind::call_begin:
                open(Block::Type::tool_use, event.text);
                break;
            case OutputEvent::Kind::call_arguments:
                blocks_.back().text += event.text;
                delta("input_json_delta", "partial_json", event.text);
                break;
            case OutputEvent::Kind::call_end:
                break;
        }
    }

    void end(AnswerReason reason, const std::optional<std::string>& stop, const AnswerUsage& usage) override {
        reason_ = reason;
        stop_ = reason == AnswerReason::stop_sequence ? stop : std::nullopt;
        usage_ = usage;
        close();
        json_.begin().member("type", "message_delta").key("delta").begin();
        write_reason(json_);
        json_.end().key("usage");
        write_usage(json_, usage_);
        json_.end();
        flush("message_delta");
        json_.begin().member("type", "message_stop").end();
        flush("message_stop");
    }

    std::string whole() const override {
        JsonWriter json;
        json.begin();
        write_head(json);
        json.key("content").begin_array();
        for (const Block& block : blocks_) write_block(json, block, true);
        json.end_array();
        write_reason(json);
        json.key("usage");
        write_usage(json, usage_);
        return json.end().take();
    }

  private:
    struct Block {
        enum class Type { thinking, text, tool_use } type;
        std::string id, name, text;
    };

    void flush(const char* name) { send(name, json_.take()); }
    bool is_open(Block::Type type) const { return open_ && blocks_.back().type == type; }

    void write_head(JsonWriter& json) const {
        json.member("id", setting_.header.id)
            .member("type", "message")
            .member("role", "assistant")
            .member("model", setting_.header.model);
    }

    void write_reason(JsonWriter& json) const {
        json.member("stop_reason", reason_name(reason_)).key("stop_sequence");
        stop_ ? json.value(*stop_) : json.value(nullptr);
    }

    void write_block(JsonWriter& json, const Block& block, bool whole) const {
        json.begin();
        switch (block.type) {
            case Block::Type::thinking:
                json.member("type", "thinking").member("thinking", whole ? block.text : "");
                json.member("signature", whole ? signature_ : "");
                break;
            case Block::Type::text:
                json.member("type", "text").member("text", whole ? block.text : "");
                break;
            case Block::Type::tool_use: {
                json.member("type", "tool_use").member("id", block.id).member("name", block.name);
                const bool is_object = whole && parse_json(block.text, "input", {.max_depth = 128}).ok();
                json.member_raw("input", is_object ? block.text : "{}");
                break;
            }
        }
        json.end();
    }

    void open(Block::Type type, std::string name = {}) {
        close();
        Block block{.type = type, .id = {}, .name = std::move(name), .text = {}};
        if (type == Block::Type::tool_use) {
            bool thought = false;
            for (const Block& earlier : blocks_)
                if (earlier.type == Block::Type::thinking && !earlier.text.empty()) thought = true;
            block.id = setting_.call_ids(calls_++, thought);
        }
        blocks_.push_back(std::move(block));
        open_ = true;
        json_.begin()
            .member("type", "content_block_start")
            .member("index", blocks_.size() - 1)
            .key("content_block");
        write_block(json_, blocks_.back(), false);
        json_.end();
        flush("content_block_start");
        if (blocks_.size() > 1) return;
        json_.begin().member("type", "ping").end();
        flush("ping");
    }

    void delta(const char* type, const char* name, std::string_view text) {
        json_.begin().member("type", "content_block_delta").member("index", blocks_.size() - 1);
        json_.key("delta").begin().member("type", type).member(name, text).end().end();
        flush("content_block_delta");
    }

    void close() {
        if (!open_) return;
        if (blocks_.back().type == Block::Type::thinking) delta("signature_delta", "signature", signature_);
        json_.begin().member("type", "content_block_stop").member("index", blocks_.size() - 1).end();
        flush("content_block_stop");
        open_ = false;
    }

    const AnswerSetting setting_;
    const std::string signature_;
    JsonWriter json_;
    std::vector<Block> blocks_;
    bool open_ = false;  // the last block
    size_t calls_ = 0;
    AnswerReason reason_ = AnswerReason::stop;
    std::optional<std::string> stop_;
    AnswerUsage usage_;
};

}  // namespace

std::unique_ptr<AnswerEvents> messages_events(AnswerSetting setting, std::string signature) {
    return std::make_unique<MessagesEvents>(std::move(setting), std::move(signature));
}

}  // namespace deepinfer::api
