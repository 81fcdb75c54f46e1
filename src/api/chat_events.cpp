// Chat Completions: one choice.
#include "api/answer_events.h"
#include "api/json_writer.h"

namespace deepinfer::api {
namespace {

using recipe::OutputEvent;

const char* reason_name(AnswerReason reason) {
    switch (reason) {
        case AnswerReason::stop:
        case AnswerReason::stop_sequence:
            return "stop";
        case AnswerReason::tool_calls:
            return "tool_calls";
        case AnswerReason::length:
            return "length";
        case AnswerReason::content_filter:
            return "content_filter";
    }
    return "stop";
}

void write_usage(JsonWriter& json, const AnswerUsage& usage) {
    json.begin()
        .member("prompt_tokens", usage.prompt_tokens)
        .member("completion_tokens", usage.completion_tokens)
        .member("total_tokens", usage.prompt_tokens + usage.completion_tokens);
    json.key("prompt_tokens_details").begin().member("cached_tokens", usage.cached_tokens).end();
    if (usage.reasoning_tokens)
        json.key("completion_tokens_details")
            .begin()
            .member("reasoning_tokens", *usage.reasoning_tokens)
            .end();
    json.member("prompt_cache_hit_tokens", usage.cached_tokens)
        .member("prompt_cache_miss_tokens", usage.prompt_tokens - usage.cached_tokens)
        .end();
}

class ChatEvents final : public AnswerEvents {
  public:
    ChatEvents(AnswerSetting setting, ChatStyle style) : setting_(std::move(setting)), style_(style) {}

    void start(const AnswerUsage&, const std::optional<std::string>& fingerprint) override {
        fingerprint_ = fingerprint;
        has_reasoning_ = setting_.first == recipe::FirstStage::reasoning ||
                         setting_.first == recipe::FirstStage::reasoning_continued;
        begin_chunk();
        json_.key("delta").begin().member("role", "assistant");
        if (!style_.official) {
            json_.member("content", "").member("refusal", nullptr);
        } else if (has_reasoning_) {
            json_.member("content", nullptr).member("reasoning_content", "");
        } else {
            json_.member("content", "");
            if (setting_.thinks) json_.member("reasoning_content", nullptr);
        }
        json_.end();
        end_chunk({}, nullptr);
    }

    void add(const OutputEvent& event, const std::vector<TokenLogprobs>& logprobs) override {
        if (event.kind == OutputEvent::Kind::call_end) return;
        begin_chunk();
        json_.key("delta").begin();
        std::string shown;
        switch (event.kind) {
            case OutputEvent::Kind::reasoning:
                reasoning_ += event.text;
                if (style_.official) json_.member("content", nullptr);
                json_.member("reasoning_content", event.text);
                shown = keep_logprobs("reasoning_content", reasoning_logprobs_, logprobs);
                break;
            case OutputEvent::Kind::content:
                content_ += event.text;
                json_.member("content", event.text);
                if (style_.official && setting_.thinks) json_.member("reasoning_content", nullptr);
                shown = keep_logprobs("content", content_logprobs_, logprobs);
                break;
            case OutputEvent::Kind::call_begin: {
                calls_.push_back({setting_.call_ids(calls_.size(), !reasoning_.empty()), event.text, {}});
                json_.key("tool_calls").begin_array();
                write_call(json_, calls_.size() - 1, "", true);
                json_.end_array();
                break;
            }
            case OutputEvent::Kind::call_arguments:
                calls_.back().arguments += event.text;
                json_.key("tool_calls").begin_array().begin().member("index", calls_.size() - 1);
                json_.key("function").begin().member("arguments", event.text).end().end().end_array();
                break;
            case OutputEvent::Kind::call_end:
                break;
        }
        json_.end();
        end_chunk(shown, nullptr);
    }

    void end(AnswerReason reason, const std::optional<std::string>&, const AnswerUsage& usage) override {
        reason_ = reason;
        usage_ = usage;
        begin_chunk();
        json_.key("delta").begin();
        if (style_.official) json_.member("content", "");
        if (style_.official && setting_.thinks) json_.member("reasoning_content", nullptr);
        json_.end();
        end_chunk({}, reason_name(reason));
    }

    std::string whole() const override {
        JsonWriter json;
        json.begin();
        write_head(json, "chat.completion");
        json.key("choices").begin_array();
        write_choice(json, 0);
        json.end_array().key("usage");
        write_usage(json, usage_);
        return json.end().take();
    }

    std::string choice(int32_t index) const override {
        JsonWriter json;
        write_choice(json, index);
        return json.take();
    }

  private:
    struct Call {
        std::string id, name, arguments;
    };

    void write_head(JsonWriter& json, const char* object) const {
        json.member("id", setting_.header.id)
            .member("object", object)
            .member("created", setting_.header.created)
            .member("model", setting_.header.model);
        if (!style_.official) return;
        json.key("system_fingerprint");
        fingerprint_ ? json.value(*fingerprint_) : json.value(nullptr);
    }

    void write_choice(JsonWriter& json, int32_t index) const {
        json.begin().member("index", index).key("message").begin().member("role", "assistant").key("content");
        const bool only_calls = !style_.official && content_.empty() && !calls_.empty();
        only_calls ? json.value(nullptr) : json.value(content_);
        if (!style_.official) json.member("refusal", nullptr);
        if (has_reasoning_ || !reasoning_.empty()) json.member("reasoning_content", reasoning_);
        if (!calls_.empty()) {
            json.key("tool_calls").begin_array();
            for (size_t i = 0; i < calls_.size(); ++i)
                write_call(json, i, calls_[i].arguments, style_.official);
            json.end_array();
        }
        json.end();
        write_all_logprobs(json);
        json.member("finish_reason", reason_name(reason_)).end();
    }

    void write_all_logprobs(JsonWriter& json) const {
        if (!setting_.logprobs ||
            (style_.official && content_logprobs_.empty() && reasoning_logprobs_.empty())) {
            json.member("logprobs", nullptr);
            return;
        }
        json.key("logprobs").begin();
        if (!style_.official || !content_logprobs_.empty())
            json.member_raw("content", logprobs_json(content_logprobs_));
        if (!reasoning_logprobs_.empty())
            json.member_raw("reasoning_content", logprobs_json(reasoning_logprobs_));
        if (!style_.official) json.member("refusal", nullptr);
        json.end();
    }

    // OpenAI numbers calls in chunks only.
    void write_call(JsonWriter& json, size_t index, std::string_view arguments, bool numbered) const {
        const Call& call = calls_[index];
        json.begin();
        if (numbered) json.member("index", index);
        json.member("id", call.id).member("type", "function");
        json.key("function").begin().member("name", call.name).member("arguments", arguments).end().end();
    }

    std::string keep_logprobs(std::string_view name, std::vector<TokenLogprobs>& kept,
                              const std::vector<TokenLogprobs>& logprobs) {
        if (logprobs.empty()) return {};
        kept.insert(kept.end(), logprobs.begin(), logprobs.end());
        JsonWriter json;
        json.begin().member_raw(name, logprobs_json(logprobs));
        if (!style_.official) json.member("refusal", nullptr);
        return json.end().take();
    }

    void begin_chunk() {
        json_.begin();
        write_head(json_, "chat.completion.chunk");
        json_.key("choices").begin_array().begin().member("index", style_.index);
    }
    void end_chunk(const std::string& logprobs, const char* reason) {
        logprobs.empty() ? json_.member("logprobs", nullptr) : json_.member_raw("logprobs", logprobs);
        reason ? json_.member("finish_reason", reason) : json_.member("finish_reason", nullptr);
        json_.end().end_array();
        if (reason && style_.official) {
            json_.key("usage");
            write_usage(json_, usage_);
        } else if (style_.null_usage) {
            json_.member("usage", nullptr);
        }
        send({}, json_.end().take());
    }

    const AnswerSetting setting_;
    const ChatStyle style_;
    JsonWriter json_;
    std::optional<std::string> fingerprint_;
    bool has_reasoning_ = false;
    std::string content_, reasoning_;
    std::vector<TokenLogprobs> content_logprobs_, reasoning_logprobs_;
    std::vector<Call> calls_;
    AnswerReason reason_ = AnswerReason::stop;
    AnswerUsage usage_;
};

}  // namespace

std::unique_ptr<AnswerEvents> chat_events(AnswerSetting setting, ChatStyle style) {
    return std::make_unique<ChatEvents>(std::move(setting), style);
}

}  // namespace deepinfer::api
