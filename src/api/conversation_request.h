// The part of a request that says what is to be answered, for all three protocols: Chat Completions, Responses, Messages.
// Internal to the api layer: throws FieldError.
#pragma once

#include <optional>
#include <string>

#include "api/fields.h"
#include "api/service_rules.h"
#include "api/tools.h"
#include "recipe/conversation.h"
#include "recipe/json_text.h"
#include "recipe/output_options.h"

namespace deepinfer::api {

struct ConversationRequest {
    std::string model;
    recipe::Conversation conversation;
    recipe::OutputOptions output;
    ToolOrigins origins;
};

ConversationRequest convert_chat(const Fields& request, const ServiceRules& rules);
ConversationRequest convert_responses(const Fields& request, const ServiceRules& rules);
ConversationRequest convert_messages(const Fields& request, const ServiceRules& rules);

// --- What the three have in common.

// One of `names`, or an error that lists them.
size_t one_of(const std::string& word, std::initializer_list<std::string_view> names,
              const std::string& path);
[[noreturn]] void fail_missing(const std::string& path);

// `type`: of the request's thinking object; `effort`: none, minimal … max. Decides on thinking and effort.
void put_thinking(recipe::Conversation& conversation, const std::optional<std::string>& type,
                  const std::optional<std::string>& effort, const std::string& effort_path,
                  const ServiceRules& rules);

// Once the messages are known: no reasoning in the history of one that does not think; where the rules want it, none may be
// missing. `reasoning_name`: how the protocol calls it.
void settle_reasoning(recipe::Conversation& conversation, bool has_tools, const std::string& reasoning_name,
                      const ServiceRules& rules);

void settle_output(ConversationRequest& request);

std::vector<std::string> parse_stops(const Fields& request, const std::string& name);

}  // namespace deepinfer::api
