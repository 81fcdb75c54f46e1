// A conversation as every chat protocol can express it: what the wire objects are converted to, and what a prompt format turns
// into tokens. Plain values; texts are UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace deepinfer::recipe {

enum class Role {
    system,
    developer,
    user,
    assistant,
    tool,
    latest_reminder,  // DeepSeek: a note for the next answer only
};

struct ToolCall {
    std::string id;
    std::string name;
    std::string arguments;  // JSON text, as the model wrote it; need not be valid
};

// A picture in a message. Not decoded: the model's own stage does that.
struct Image {
    size_t offset = 0;   // it stands before this byte of the message's content
    std::string source;  // data URL or http(s) URL
    std::string detail;  // low, high, auto, original
    std::string path;    // of the place in the request, for messages
};

struct Message {
    Role role = Role::user;
    std::optional<std::string> content = std::nullopt;  // nothing: an assistant message that has only calls
    std::string name = {};                              // of the participant; empty if not given
    std::string reasoning = {};                         // assistant: what it thought before it answered
    std::vector<ToolCall> tool_calls = {};              // assistant
    std::string tool_call_id = {};                  // tool: the call that this is the result of; may be empty
    std::vector<Image> images = {};                 // by offset
    std::vector<std::string> announced_tools = {};  // system: deferred tools that can be called from here on
    bool is_prefix = false;  // assistant, the last message: the answer goes on from here
};

struct Tool {
    std::string name;
    std::optional<std::string> description = std::nullopt;
    boost::json::value parameters = boost::json::object();  // JSON Schema
    std::optional<bool> strict = std::nullopt;
    bool deferred = false;  // not listed; a message announces it
};

enum class ToolChoice { automatic, none, required };
enum class Effort { low, high, xhigh, max };

struct ResponseFormat {
    enum class Kind { text, json_object, json_schema, regex } kind = Kind::text;
    boost::json::value schema = nullptr;    // json_schema: as the prompt shows it
    boost::json::value enforced = nullptr;  // json_schema: what the answer has to keep to
    std::string pattern = {};               // regex
};

// Variables of the chat template that come from the conversation and the vocabulary.
inline constexpr std::string_view reserved_template_variables[] = {
    "messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"};

struct Conversation {
    std::vector<Message> messages;
    std::vector<Tool> tools = {};
    ToolChoice tool_choice = ToolChoice::automatic;
    std::optional<bool> thinking = std::nullopt;  // nothing: as the model does by itself
    std::optional<Effort> effort = std::nullopt;
    ResponseFormat format = {};
    // Further variables of the chat template ("enable_thinking"); none of the reserved ones.
    boost::json::object template_options = {};

    // The prompt describes the tools.
    bool offers_tools() const { return !tools.empty() && tool_choice != ToolChoice::none; }
};

const char* to_string(Role role);  // "system", as the wire formats and the templates write it
const char* to_string(Effort effort);

}  // namespace deepinfer::recipe
