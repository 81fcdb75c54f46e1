// How the official DeepSeek service samples an answer: its limits, and what it sets whatever the request says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/conversation_request.h"

namespace deepinfer::api {

enum class Protocol { chat, responses, messages };

// What the answer has to keep to, for a decoder that can enforce it.
struct OutputConstraint {
    enum class Kind { tool_call, tool_call_required, json, regex } kind = Kind::json;
    std::string schema;  // JSON of the tools or of the schema, compact; the pattern; empty: any JSON
};
const char* to_string(OutputConstraint::Kind kind);

struct OfficialOptions {
    std::optional<int64_t> max_tokens;
    double temperature = 1, top_p = 1;
    bool logprobs = false;
    std::optional<int64_t> top_logprobs, seed;
    std::optional<OutputConstraint> constraint;
};

// Throws FieldError.
OfficialOptions official_options(Protocol protocol, const Fields& request,
                                 const ConversationRequest& converted, const ServiceRules& rules);

std::optional<OutputConstraint> output_constraint(const recipe::Conversation& conversation);

// Of an answer whose request sets none.
int64_t official_max_tokens(const recipe::Conversation& conversation, int64_t prompt_tokens,
                            int64_t context_length);

}  // namespace deepinfer::api
