#include "api/response.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "base/utf8.h"

namespace deepinfer::api {
namespace {

namespace json = boost::json;

// The token as text; one that is no whole characters has all its bytes written \xNN.
std::string printable(const std::string& bytes) {
    std::string_view rest = bytes;
    while (const size_t size = rest.empty() ? 0 : valid_utf8_sequence(rest)) rest.remove_prefix(size);
    if (rest.empty()) return bytes;
    std::string out;
    for (const char byte : bytes) {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(byte));
        out += escaped;
    }
    return out;
}

// JSON has no infinity; the protocol's word for "impossible" is -9999. The double with the fewest digits that
// reads back as this float: it is what the serialiser then prints.
double json_logprob(float logprob) {
    if (!std::isfinite(logprob) || logprob < -9999) return -9999;
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, logprob).ptr;
    double value = 0;
    std::from_chars(digits, end, value);
    return value;
}

json::object chat_token(const TokenText& token) {
    json::array bytes;
    for (const char c : token.bytes) bytes.push_back(static_cast<unsigned char>(c));
    return {{"token", printable(token.bytes)},
            {"logprob", json_logprob(token.logprob)},
            {"bytes", std::move(bytes)}};
}

json::array token_list(const std::vector<TokenLogprobs>& tokens) {
    json::array content;
    for (const TokenLogprobs& token : tokens) {
        json::object entry = chat_token(token.token);
        json::array top;
        for (const TokenText& alternative : token.top) top.push_back(chat_token(alternative));
        entry["top_logprobs"] = std::move(top);
        content.push_back(std::move(entry));
    }
    return content;
}

json::value chat_logprobs(const std::vector<TokenLogprobs>& tokens) {
    return json::object{{"content", token_list(tokens)}, {"refusal", nullptr}};
}

json::value completion_logprobs(const std::vector<TokenLogprobs>& tokens) {
    json::array texts, logprobs, top_logprobs, offsets;
    for (const TokenLogprobs& token : tokens) {
        texts.push_back(json::string(printable(token.token.bytes)));
        if (!token.known) {
            logprobs.push_back(nullptr);
            offsets.push_back(token.text_offset);
            top_logprobs.push_back(nullptr);
            continue;
        }
        logprobs.push_back(json_logprob(token.token.logprob));
        offsets.push_back(token.text_offset);
        json::object top;
        for (const TokenText& alternative : token.top)
            top.emplace(printable(alternative.bytes), json_logprob(alternative.logprob));
        // The sampled token is always among them.
        top.emplace(printable(token.token.bytes), json_logprob(token.token.logprob));
        top_logprobs.push_back(std::move(top));
    }
    return json::object{{"tokens", std::move(texts)},
                        {"token_logprobs", std::move(logprobs)},
                        {"top_logprobs", std::move(top_logprobs)},
                        {"text_offset", std::move(offsets)}};
}

json::array prompt_logprobs(const PromptLogprobs& prompt) {
    json::array places;
    for (const std::vector<RankedToken>& tokens : prompt) {
        json::object place;
        for (const RankedToken& t : tokens)
            place.emplace(std::to_string(t.id), json::object{{"logprob", json_logprob(t.text.logprob)},
                                                             {"rank", t.rank},
                                                             {"decoded_token", printable(t.text.bytes)}});
        places.push_back(tokens.empty() ? json::value(nullptr) : json::value(std::move(place)));
    }
    return places;
}

json::value choice_logprobs(Dialect dialect, const ChoiceDelta& delta) {
    if (!delta.logprobs) return nullptr;
    return dialect == Dialect::chat ? chat_logprobs(*delta.logprobs) : completion_logprobs(*delta.logprobs);
}

json::value finish_json(const ChoiceDelta& delta) {
    return delta.finish_reason.empty() ? json::value(nullptr)
                                       : json::value(json::string(delta.finish_reason));
}

// The part by tier is ours.
json::object prompt_details(const Usage& usage) {
    json::object details{{"cached_tokens", usage.cached_tokens}};
    if (usage.cached_tokens == 0) return details;
    json::object tiers;
    int64_t memory = usage.cached_tokens;
    for (const auto& [name, tokens] : usage.loaded_tokens) memory -= tokens;
    tiers["memory"] = memory;
    for (const auto& [name, tokens] : usage.loaded_tokens) tiers[name] = tokens;
    details["cached_tokens_by_tier"] = std::move(tiers);
    return details;
}

json::object usage_json(const Usage& usage) {
    return {{"prompt_tokens", usage.prompt_tokens},
            {"completion_tokens", usage.completion_tokens},
            {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
            {"prompt_tokens_details", prompt_details(usage)}};
}

json::object envelope(const ResponseHeader& header, bool chunk) {
    const char* object = header.dialect == Dialect::completions ? "text_completion"
                         : chunk                                ? "chat.completion.chunk"
                                                                : "chat.completion";
    return {{"id", header.id}, {"object", object}, {"created", header.created}, {"model", header.model}};
}

std::string chunk_text(const ResponseHeader& header, json::array choices, json::value usage,
                       bool with_usage) {
    json::object chunk = envelope(header, true);
    chunk["choices"] = std::move(choices);
    if (with_usage) chunk["usage"] = std::move(usage);
    return json::serialize(chunk);
}

}  // namespace

std::string logprobs_json(const std::vector<TokenLogprobs>& tokens) {
    return json::serialize(token_list(tokens));
}

std::string response_body(const ResponseHeader& header, const std::vector<ChoiceDelta>& choices,
                          const Usage& usage, const std::vector<PromptLogprobs>& prompts) {
    json::object body = envelope(header, false);
    json::array list;
    for (const ChoiceDelta& choice : choices) {
        json::object entry{{"index", choice.index}};
        if (header.dialect == Dialect::chat)
            entry["message"] =
                json::object{{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
        else
            entry["text"] = choice.text;
        entry["logprobs"] = choice_logprobs(header.dialect, choice);
        entry["finish_reason"] = finish_json(choice);
        if (!prompts.empty() && header.dialect == Dialect::completions)
            entry["prompt_logprobs"] =
                prompt_logprobs(prompts[list.size() / (choices.size() / prompts.size())]);
        list.push_back(std::move(entry));
    }
    body["choices"] = std::move(list);
    body["usage"] = usage_json(usage);
    if (!prompts.empty() && header.dialect == Dialect::chat)
        body["prompt_logprobs"] = prompt_logprobs(prompts.front());
    return json::serialize(body);
}

std::string role_chunk(const ResponseHeader& header, int32_t index, bool with_usage) {
    json::object choice{{"index", index},
                        {"delta", json::object{{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}},
                        {"logprobs", nullptr},
                        {"finish_reason", nullptr}};
    return chunk_text(header, {std::move(choice)}, nullptr, with_usage);
}

std::string delta_chunk(const ResponseHeader& header, const ChoiceDelta& delta, bool with_usage) {
    json::object choice{{"index", delta.index}};
    if (header.dialect == Dialect::chat)
        choice["delta"] =
            delta.text.empty() && !delta.logprobs ? json::object{} : json::object{{"content", delta.text}};
    else
        choice["text"] = delta.text;
    choice["logprobs"] = choice_logprobs(header.dialect, delta);
    choice["finish_reason"] = finish_json(delta);
    return chunk_text(header, {std::move(choice)}, nullptr, with_usage);
}

std::string usage_chunk(const ResponseHeader& header, const Usage& usage) {
    return chunk_text(header, {}, usage_json(usage), true);
}

std::string finish_reason_name(engine::FinishReason reason) {
    return reason == engine::FinishReason::length ? "length" : "stop";
}

std::string model_body(const std::string& model, int64_t created, int32_t context_length) {
    return json::serialize(json::object{{"id", model},
                                        {"object", "model"},
                                        {"created", created},
                                        {"owned_by", "deepinfer"},
                                        {"max_model_len", context_length}});
}

std::string models_body(const std::string& model, int64_t created, int32_t context_length) {
    return R"({"object":"list","data":[)" + model_body(model, created, context_length) + "]}";
}

std::string tokenize_body(const std::vector<TokenId>& tokens, const std::vector<std::string>* token_bytes,
                          int32_t context_length) {
    json::object body{{"count", tokens.size()}, {"max_model_len", context_length}};
    body["tokens"] = json::array(tokens.begin(), tokens.end());
    if (token_bytes) {
        json::array texts;
        for (const std::string& bytes : *token_bytes) texts.push_back(json::string(printable(bytes)));
        body["token_strs"] = std::move(texts);
    }
    return json::serialize(body);
}

std::string detokenize_body(const std::string& text) {
    return json::serialize(json::object{{"prompt", text}});
}

}  // namespace deepinfer::api
