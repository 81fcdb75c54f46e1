#include "cli/recipe_stream.h"

#include <algorithm>

#include "api/answer_stream.h"
#include "cli/json_difference.h"
#include "recipe/deepseek_output.h"

namespace deepinfer::cli {

namespace json = boost::json;

namespace {

std::string text_of(const json::value& value) { return std::string(value.as_string()); }

// As the recording shows ids, of which it left out what is random.
std::string normalised_call_id(size_t index, bool unthought) {
    constexpr size_t random = 20, check = 4;
    std::string id = api::tool_call_id(index, unthought, std::string(random, 'x'));
    id.resize(id.size() - random - check);
    return id + "<R20><C4>";
}

// [logprob, [[id, logprob], …]]
api::TokenLogprobs logprobs_of(const json::value& recorded, TokenId token,
                               const tokenizer::Tokenizer& tokenizer) {
    const auto text = [&](TokenId id, const json::value& logprob) {
        return api::TokenText{tokenizer.token_bytes(id, true),
                              static_cast<float>(logprob.to_number<double>())};
    };
    api::TokenLogprobs result;
    const json::array& pair = recorded.as_array();
    result.token = text(token, pair.at(0));
    for (const json::value& top : pair.at(1).as_array())
        result.top.push_back(text(top.as_array().at(0).to_number<TokenId>(), top.as_array().at(1)));
    return result;
}

// The text of an event that is more of what the event before it began, or nothing.
json::string* delta_text(json::object& event) {
    json::object& data = event.at("data").as_object();
    const auto member = [](json::object& object, std::string_view name) -> json::value* {
        return object.if_contains(name);
    };
    if (json::value* choices = member(data, "choices")) {
        json::object& choice = choices->as_array().at(0).as_object();
        json::object& delta = choice.at("delta").as_object();
        if (delta.contains("role") || !choice.at("finish_reason").is_null()) return nullptr;
        if (json::value* calls = member(delta, "tool_calls")) {
            json::object& call = calls->as_array().at(0).as_object();
            return call.contains("id") ? nullptr
                                       : &call.at("function").as_object().at("arguments").as_string();
        }
        for (const char* name : {"reasoning_content", "content"})
            if (json::value* text = member(delta, name); text && text->is_string())
                return &text->get_string();
        return nullptr;
    }
    json::value* delta = member(data, "delta");
    if (!delta) return nullptr;
    if (delta->is_string()) return &delta->get_string();
    if (delta->is_object())
        for (const char* name : {"text", "thinking", "partial_json"})
            if (json::value* text = member(delta->get_object(), name)) return &text->as_string();
    return nullptr;
}

// The log probabilities of a delta, in either protocol that has them.
json::array* delta_logprobs(json::object& event) {
    json::object& data = event.at("data").as_object();
    json::value* logprobs = data.if_contains("logprobs");
    if (json::value* choices = data.if_contains("choices"))
        logprobs = choices->as_array().at(0).as_object().if_contains("logprobs");
    if (!logprobs || logprobs->is_null()) return nullptr;
    if (logprobs->is_array()) return &logprobs->get_array();
    for (auto& member : logprobs->as_object()) return &member.value().as_array();
    return nullptr;
}

// Whether two deltas are of one stretch: equal but for their text and log probabilities.
bool same_stretch(json::object a, json::object b) {
    delta_text(a)->clear();
    delta_text(b)->clear();
    for (json::object* event : {&a, &b}) {
        json::object& data = event->at("data").as_object();
        data.erase("sequence_number");
        data.erase("logprobs");
        if (json::value* choices = data.if_contains("choices"))
            choices->as_array().at(0).as_object().erase("logprobs");
    }
    return a == b;
}

// Neighbouring deltas of one stretch joined, numbers left out.
json::array merged(const json::array& events) {
    json::array out;
    for (const json::value& one : events) {
        json::object event = one.as_object();
        event.at("data").as_object().erase("sequence_number");
        if (!out.empty() && delta_text(event) && delta_text(out.back().as_object()) &&
            same_stretch(out.back().as_object(), event)) {
            json::object& last = out.back().as_object();
            const std::string all = std::string(*delta_text(last)) + std::string(*delta_text(event));
            *delta_text(last) = all;
            json::array* logprobs = delta_logprobs(last);
            json::array* more = delta_logprobs(event);
            if (logprobs && more) {
                for (json::value& token : *more) logprobs->push_back(token);
            } else if (more) {
                const std::string text(*delta_text(last));
                last = event;
                *delta_text(last) = text;
            }
            continue;
        }
        out.push_back(std::move(event));
    }
    return out;
}

size_t text_size(const json::array& events) {
    size_t size = 0;
    for (const json::value& one : events) {
        json::object event = one.as_object();
        if (const json::string* text = delta_text(event)) size += text->size();
    }
    return size;
}

std::string check_numbers(const json::array& events) {
    for (size_t i = 0; i < events.size(); ++i) {
        const json::value* number = events[i].at("data").as_object().if_contains("sequence_number");
        if (number && number->to_number<size_t>() != i)
            return "sequence_number has a gap at event " + std::to_string(i);
    }
    return {};
}

}  // namespace

struct StreamPlayer::State {
    std::unique_ptr<api::AnswerStream> stream;
    const tokenizer::Tokenizer* tokenizer = nullptr;
};

StreamPlayer::StreamPlayer(api::Protocol protocol, const PlayedAnswer& answer,
                           const api::OfficialRequest& request, const tokenizer::Tokenizer* tokenizer)
    : state_(std::make_unique<State>()) {
    const json::object body = parse_json(answer.body, "request")->as_object();  // it was read before
    const bool thinks = request.converted.conversation.thinking.value_or(true);
    api::AnswerSetting setting;
    setting.header = {.id = answer.response_id, .created = 0, .model = text_of(body.at("model"))};
    setting.thinks = thinks;
    setting.first = request.converted.output.first;
    setting.logprobs = request.options.logprobs;
    setting.call_ids = [thinks](size_t index, bool thought) {
        return normalised_call_id(index, thinks && !thought);
    };
    std::unique_ptr<api::AnswerEvents> events;
    if (protocol == api::Protocol::chat) {
        const json::value* options = body.if_contains("stream_options");
        const json::value* usage =
            options && options->is_object() ? options->get_object().if_contains("include_usage") : nullptr;
        events =
            api::chat_events(std::move(setting),
                             {.official = true, .null_usage = !request.stream || (usage && *usage == true)});
    } else if (protocol == api::Protocol::messages) {
        events = api::messages_events(std::move(setting), answer.signature);
    } else {
        events = api::responses_events(std::move(setting), body, request.converted.origins);
    }
    state_->tokenizer = tokenizer;
    state_->stream = std::make_unique<api::AnswerStream>(
        std::move(events), std::make_unique<recipe::DeepSeekOutput>(request.converted.output),
        state_->tokenizer,
        api::AnswerStreamOptions{
            .thinks = thinks, .drops_half_characters = true, .recounts_reasoning = true});
}

StreamPlayer::~StreamPlayer() = default;

json::array StreamPlayer::take() {
    json::array out;
    for (api::ServerEvent& event : state_->stream->take()) {
        json::object shown;
        if (!event.name.empty()) shown["event"] = event.name;
        shown["data"] = json::parse(event.data);
        out.push_back(std::move(shown));
    }
    return out;
}

Result<json::array> StreamPlayer::push(const json::object& chunk) {
    api::AnswerStream& stream = *state_->stream;
    if (const json::value* ready = chunk.if_contains("ready")) {
        const json::object& known = ready->as_object();
        const json::value* fingerprint = known.if_contains("system_fingerprint");
        stream.ready(
            known.at("prompt_tokens").to_number<int64_t>(),
            known.at("prompt_cache_hit_tokens").to_number<int64_t>(),
            fingerprint && fingerprint->is_string() ? std::optional(text_of(*fingerprint)) : std::nullopt);
    } else if (const json::value* text = chunk.if_contains("text")) {
        stream.push_text(text_of(*text), chunk.at("token_count").to_number<int64_t>());
    } else if (const json::value* tokens = chunk.if_contains("tokens")) {
        const auto ids = json::value_to<std::vector<TokenId>>(*tokens);
        std::vector<api::TokenLogprobs> logprobs;
        if (const json::value* recorded = chunk.if_contains("logprobs");
            recorded && recorded->is_array() && state_->tokenizer)
            for (size_t i = 0; i < recorded->get_array().size(); ++i)
                logprobs.push_back(
                    logprobs_of(recorded->get_array()[i], i < ids.size() ? ids[i] : -1, *state_->tokenizer));
        if (Status pushed = stream.push_tokens(ids, logprobs); !pushed) return pushed.error();
    } else if (const json::value* reason = chunk.if_contains("finish")) {
        std::optional<api::AnswerReason> cut;
        if (*reason == "length") cut = api::AnswerReason::length;
        if (*reason == "content_filter") cut = api::AnswerReason::content_filter;
        stream.finish(cut);
    }
    if (stream.stopped()) stream.finish();
    return take();
}

json::array StreamPlayer::finish() {
    state_->stream->finish(api::AnswerReason::stop);  // the recording just ended
    return take();
}

json::value StreamPlayer::whole() const { return json::parse(state_->stream->whole()); }

std::string check_stream(const json::object& vector, api::Protocol protocol,
                         const api::OfficialRequest& request, const tokenizer::Tokenizer* tokenizer) {
    const json::value& signature = vector.at("signature");
    StreamPlayer player(protocol,
                        {.response_id = text_of(vector.at("response_id")),
                         .body = json::serialize(vector.at("request")),
                         .signature = signature.is_null() ? "" : text_of(signature)},
                        request, vector.at("tokenizer_attached").as_bool() ? tokenizer : nullptr);
    const json::array& expected = vector.at("expected_events").as_array();
    const json::array& chunks = vector.at("chunks").as_array();
    json::array ours, theirs;
    size_t our_text = 0, their_text = 0;
    const auto add_expected = [&](size_t i) {
        if (i >= expected.size()) return;
        for (const json::value& event : expected[i].as_array()) theirs.push_back(event);
        their_text += text_size(expected[i].as_array());
    };
    const auto add_ours = [&](const json::array& events) {
        for (const json::value& event : events) ours.push_back(event);
        our_text += text_size(events);
    };
    const bool fails = vector.contains("expected_stream_error");
    bool failed = false;
    for (size_t i = 0; i < chunks.size() && !failed; ++i) {
        const auto events = player.push(chunks[i].as_object());
        if (!events) {
            if (!fails) return events.error().message;
            failed = true;
        } else {
            add_ours(*events);
        }
        add_expected(i);
        if (our_text < their_text)
            return "after chunk " + std::to_string(i) + " " + std::to_string(our_text) +
                   " bytes of text are out, but " + std::to_string(their_text) + " could be";
    }
    if (fails && !failed) return "no error, expected: " + text_of(vector.at("expected_stream_error"));
    if (!failed) {
        add_ours(player.finish());
        for (size_t i = chunks.size(); i < expected.size(); ++i) add_expected(i);
    }
    const json::array our_events = merged(ours), their_events = merged(theirs);
    for (size_t i = 0; i < std::max(our_events.size(), their_events.size()); ++i) {
        const json::value nothing = nullptr;
        const std::string found =
            difference("event " + std::to_string(i), i < our_events.size() ? our_events[i] : nothing,
                       i < their_events.size() ? their_events[i] : nothing);
        if (!found.empty()) return found;
    }
    if (std::string found = check_numbers(ours); !found.empty()) return found;
    if (failed) return {};
    const json::value* whole = vector.if_contains("expected_final");
    return whole && !whole->is_null() ? difference("final object", player.whole(), *whole) : std::string();
}

}  // namespace deepinfer::cli
