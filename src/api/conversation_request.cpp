#include "api/conversation_request.h"

#include <algorithm>

#include "api/limits.h"

namespace deepinfer::api {

namespace json = boost::json;
using recipe::Effort;
using recipe::Message;
using recipe::Role;

size_t one_of(const std::string& word, std::initializer_list<std::string_view> names,
              const std::string& path) {
    const auto found = std::ranges::find(names, word);
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
    std::string list;
    for (const std::string_view name : names) list.append(list.empty() ? "" : ", ").append(name);
    fail(path,
         in_quotes(path) + " must be one of " + list + ", but is " + in_quotes(word.substr(0, 64)) + ".",
         "invalid_value");
}

void fail_missing(const std::string& path) {
    fail(path, in_quotes(path) + " is missing.", "missing_required_parameter");
}

void put_thinking(recipe::Conversation& conversation, const std::optional<std::string>& type,
                  const std::optional<std::string>& effort, const std::string& effort_path,
                  const ServiceRules& rules) {
    std::optional<size_t> level;
    if (effort)
        level = one_of(*effort, {"none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max"},
                       effort_path);
    if (type) {
        conversation.thinking = one_of(*type, {"disabled", "enabled", "adaptive"}, "thinking.type") > 0;
    } else if (level) {
        conversation.thinking = *level > 0;
    } else if (rules.official) {
        conversation.thinking = rules.thinks_by_default;
    }
    if (conversation.thinking == false) return;
    constexpr Effort efforts[] = {Effort::high, Effort::low,   Effort::low, Effort::high,
                                  Effort::high, Effort::xhigh, Effort::max, Effort::max};
    if (level)
        conversation.effort = efforts[*level];
    else if (conversation.thinking)
        conversation.effort = Effort::high;
}

// An id of a call that this service gave to a model that called without having thought says so.
static bool marks_no_thinking(const std::string& id) {
    return (id.size() >= 11 && id.substr(8, 3) == "ET_") || (id.size() >= 8 && id.substr(6, 2) == "ET");
}

void settle_reasoning(recipe::Conversation& conversation, bool has_tools, const std::string& reasoning_name,
                      const ServiceRules& rules) {
    std::vector<Message>& messages = conversation.messages;
    if (conversation.thinking == false) {
        for (Message& message : messages) message.reasoning.clear();
        return;
    }
    if (!rules.official || !rules.wants_reasoning_back) return;
    const auto last_user = std::find_if(messages.rbegin(), messages.rend(),
                                        [](const Message& m) { return m.role == Role::user; });
    const auto after = static_cast<size_t>(messages.rend() - last_user);
    for (size_t i = 0; i < messages.size(); ++i) {
        const Message& message = messages[i];
        if (message.role != Role::assistant || !message.reasoning.empty() || message.is_prefix) continue;
        if (!(i >= after || !message.tool_calls.empty() || has_tools)) continue;
        if (std::ranges::any_of(message.tool_calls,
                                [](const recipe::ToolCall& call) { return marks_no_thinking(call.id); }))
            continue;
        fail("messages",
             "While thinking is on, the " + in_quotes(reasoning_name) + " of past answers must be sent back.",
             "reasoning_missing");
    }
}

void settle_output(ConversationRequest& request) {
    const recipe::Conversation& conversation = request.conversation;
    recipe::OutputOptions& output = request.output;
    output.parse_calls = conversation.offers_tools();
    output.starts_in_calls = output.parse_calls && conversation.tool_choice == recipe::ToolChoice::required;
    output.json_only = conversation.format.kind == recipe::ResponseFormat::Kind::json_object;
    if (conversation.thinking.value_or(true)) output.first = recipe::FirstStage::reasoning;
    if (output.first == recipe::FirstStage::reasoning && !conversation.messages.empty() &&
        conversation.messages.back().is_prefix) {
        const Message& prefix = conversation.messages.back();
        if (prefix.content && !prefix.content->empty())
            output.first = recipe::FirstStage::content_continued;
        else if (!prefix.reasoning.empty())
            output.first = recipe::FirstStage::reasoning_continued;
    }
}

std::vector<std::string> parse_stops(const Fields& request, const std::string& name) {
    const json::value* value = request.find(name);
    if (!value) return {};
    std::vector<std::string> stops;
    const auto add = [&](const json::value& item, const std::string& path) {
        stops.push_back(as_string(item, path));
        if (stops.back().empty()) fail(path, in_quotes(path) + " must not be empty.", "stop");
    };
    if (value->is_string()) {
        add(*value, name);
        return stops;
    }
    const json::array* items = request.array(name);
    if (items->size() > limits::stop_strings)
        fail(name,
             in_quotes(name) + " has " + std::to_string(items->size()) + " elements; at most " +
                 std::to_string(limits::stop_strings) + " are allowed.",
             "stop");
    for (size_t i = 0; i < items->size(); ++i) add((*items)[i], name + "[" + std::to_string(i) + "]");
    return stops;
}

}  // namespace deepinfer::api
