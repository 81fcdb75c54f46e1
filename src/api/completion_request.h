// OpenAI Completions, /tokenize and /detokenize, request side. No I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/error.h"
#include "api/generation_options.h"
#include "base/token.h"
#include "recipe/conversation.h"

namespace deepinfer::api {

using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionRequest {
    std::string model;            // empty if not given
    std::vector<Prompt> prompts;  // one choice each, indexed in this order
    GenerationOptions options;
    bool echo = false;                  // the answer begins with the prompt
    bool add_special_tokens = true;     // BOS in front of text, if the vocabulary has it so
    bool parse_special_tokens = false;  // spellings of control tokens in text become control tokens
};

struct TokenizeRequest {
    std::string model;
    std::variant<std::string, recipe::Conversation> input;
    bool add_special_tokens = true;
    bool parse_special_tokens = false;
    bool add_generation_prompt = true;
    bool return_token_strings = false;
};

struct DetokenizeRequest {
    std::string model;
    std::vector<TokenId> tokens;
};

Outcome<CompletionRequest> parse_completion_request(std::string_view body);
Outcome<TokenizeRequest> parse_tokenize_request(std::string_view body);
Outcome<DetokenizeRequest> parse_detokenize_request(std::string_view body);

}  // namespace deepinfer::api
