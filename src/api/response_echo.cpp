#include "api/response_echo.h"

namespace deepinfer::api {
namespace {

namespace json = boost::json;

json::value or_null(const json::object& object, std::string_view name) {
    const json::value* value = object.if_contains(name);
    return value ? *value : json::value(nullptr);
}

json::value or_value(const json::object& object, std::string_view name, json::value usual) {
    const json::value* value = object.if_contains(name);
    return value && !value->is_null() ? *value : std::move(usual);
}

json::object nested(const json::object& object, std::string_view name) {
    const json::value* value = object.if_contains(name);
    return value && value->is_object() ? value->get_object() : json::object();
}

// Functions with all the members that the protocol gives them.
json::value shown_tool(const json::value& given) {
    const json::object* tool = given.if_object();
    if (!tool) return given;
    json::object out = *tool;
    const json::value type = or_null(*tool, "type");
    if (type == "function")
        for (const char* name : {"description", "strict"})
            if (!out.contains(name)) out[name] = nullptr;
    const json::value* inner = tool->if_contains("tools");
    if (type == "namespace" && inner && inner->is_array()) {
        json::array tools;
        for (const json::value& one : inner->get_array()) tools.push_back(shown_tool(one));
        out["tools"] = std::move(tools);
    }
    return out;
}

}  // namespace

ResponseEcho::ResponseEcho(const json::object& request) {
    for (const char* name : {"instructions", "max_output_tokens", "user"})
        members_[name] = or_null(request, name);
    const json::object reasoning = nested(request, "reasoning"), text = nested(request, "text");
    members_["reasoning"] = json::object{{"effort", or_null(reasoning, "effort")}, {"summary", nullptr}};
    members_["temperature"] = or_value(request, "temperature", 1.0);
    members_["top_p"] = or_value(request, "top_p", 1.0);
    members_["top_logprobs"] = or_value(request, "top_logprobs", 0);
    members_["text"] = json::object{{"format", or_value(text, "format", json::object{{"type", "text"}})},
                                    {"verbosity", or_null(text, "verbosity")}};
    members_["tool_choice"] = or_value(request, "tool_choice", "auto");
    json::array tools;
    const json::value* given = request.if_contains("tools");
    if (given && given->is_array())
        for (const json::value& tool : given->get_array()) tools.push_back(shown_tool(tool));
    members_["tools"] = std::move(tools);
    // What this server does not have, as the protocol says so.
    members_["background"] = false;
    members_["frequency_penalty"] = 0.0;
    members_["presence_penalty"] = 0.0;
    members_["parallel_tool_calls"] = true;
    members_["service_tier"] = "default";
    members_["store"] = false;
    members_["truncation"] = "disabled";
    members_["metadata"] = json::object();
    for (const char* name : {"content_filters", "max_tool_calls", "moderation", "previous_response_id",
                             "prompt_cache_key", "prompt_cache_retention", "safety_identifier"})
        members_[name] = nullptr;
}

void ResponseEcho::write(JsonWriter& out) const {
    for (const auto& member : members_) out.member_raw(member.key(), json::serialize(member.value()));
}

}  // namespace deepinfer::api
