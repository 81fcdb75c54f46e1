// OpenAI Chat Completions, request side: body -> Conversation and options. No I/O.
#pragma once

#include <string>
#include <string_view>

#include "api/error.h"
#include "api/generation_options.h"
#include "recipe/conversation.h"

namespace deepinfer::api {

struct ChatRequest {
    std::string model;  // empty if not given
    recipe::Conversation conversation;
    GenerationOptions options;
    bool add_generation_prompt = true;
};

Outcome<ChatRequest> parse_chat_request(std::string_view body);

// Parts that /tokenize shares. Both throw FieldError.
class Fields;
std::vector<recipe::Message> parse_messages(const boost::json::array& items);
boost::json::object parse_template_options(const Fields& fields);  // chat_template_kwargs

}  // namespace deepinfer::api
