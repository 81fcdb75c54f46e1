// OpenAI Chat Completions and Completions, answer side: bodies and stream chunks as JSON text. No I/O, no
// clock: id and time are given.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/token.h"
#include "engine/engine.h"

namespace deepinfer::api {

enum class Dialect { chat, completions };

struct ResponseHeader {
    Dialect dialect = Dialect::chat;
    std::string id = {};  // "chatcmpl-…", "cmpl-…"
    int64_t created = 0;  // Unix seconds
    std::string model = {};
};

struct Usage {
    int64_t prompt_tokens = 0;
    int64_t completion_tokens = 0;
    int64_t cached_tokens = 0;  // of the prompt, that were computed before
    std::map<std::string, int64_t> loaded_tokens =
        {};  // of these, by the store that they came from; the others: memory
};

struct TokenText {
    std::string bytes;  // of the token, perhaps no valid UTF-8 by themselves
    float logprob = 0;
};

struct TokenLogprobs {
    TokenText token;
    std::vector<TokenText> top;
    int64_t text_offset = 0;  // of the token in the text, in characters (Completions only)
    bool known = true;        // false: there is no logprob, as of a prompt's first token
};

// One place of a prompt: its token, and likely ones.
struct RankedToken {
    TokenId id = -1;
    int32_t rank = 0;  // by likelihood, from 1
    TokenText text;
};
using PromptLogprobs = std::vector<std::vector<RankedToken>>;  // empty at the first place

// [{"token", "logprob", "bytes", "top_logprobs"}, …]
std::string logprobs_json(const std::vector<TokenLogprobs>& tokens);

// New text of one choice. The finish reason is empty until its last one.
struct ChoiceDelta {
    int32_t index = 0;
    std::string text = {};
    std::optional<std::vector<TokenLogprobs>> logprobs = std::nullopt;  // set if the request asked for them
    std::string finish_reason = {};                                     // "stop", "length"
};

// One whole answer; the choices hold complete texts. `prompts`: none, or those of each prompt, which has an equal share of
// the choices.
std::string response_body(const ResponseHeader& header, const std::vector<ChoiceDelta>& choices,
                          const Usage& usage, const std::vector<PromptLogprobs>& prompts = {});

// The first chunk of a chat choice, which says who speaks.
std::string role_chunk(const ResponseHeader& header, int32_t index, bool with_usage);
// `with_usage`: the request asked for usage, so chunks before the last carry it as null.
std::string delta_chunk(const ResponseHeader& header, const ChoiceDelta& delta, bool with_usage);
std::string usage_chunk(const ResponseHeader& header, const Usage& usage);

// "stop" or "length"; cancelled and error have no name in the protocol and must not get here.
std::string finish_reason_name(engine::FinishReason reason);

std::string models_body(const std::string& model, int64_t created, int32_t context_length);
std::string model_body(const std::string& model, int64_t created, int32_t context_length);
std::string tokenize_body(const std::vector<TokenId>& tokens, const std::vector<std::string>* token_bytes,
                          int32_t context_length);
std::string detokenize_body(const std::string& text);

}  // namespace deepinfer::api
