// A conversation as every chat protocol can express it: what the wire objects are converted to, and what a
// ChatFormat turns into tokens. Plain values; texts are UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace deepinfer::recipe {

enum class Role { system, developer, user, assistant, tool };

struct ToolCall {
    std::string id;
    std::string name;
    std::string arguments;  // JSON text, as the model wrote it; need not be valid
};

struct Message {
    Role role = Role::user;
    std::optional<std::string> content = std::nullopt;  // nothing: an assistant message that has only calls
    std::string name = {};                              // of the participant; empty if not given
    std::string reasoning = {};                         // assistant: what it thought before it answered
    std::vector<ToolCall> tool_calls = {};              // assistant
    std::string tool_call_id = {};                      // tool: the call that this is the result of
};

// Variables of the chat template that come from the conversation and the vocabulary.
inline constexpr std::string_view reserved_template_variables[] = {
    "messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"};

struct Conversation {
    std::vector<Message> messages;
    boost::json::array tools;  // {"type":"function","function":{…}} in the order given; empty: none
    // Further variables of the chat template ("enable_thinking"); none of the reserved ones.
    boost::json::object template_options;
};

const char* to_string(Role role);  // "system", as the wire formats and the templates write it

}  // namespace deepinfer::recipe
