#include "api/tools.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "api/json_schema.h"
#include "api/limits.h"

namespace deepinfer::api {
namespace {

namespace json = boost::json;

constexpr size_t longest_name = 128;

[[noreturn]] void fail_schema(const GivenTool& given, const std::string& why) {
    fail(given.path + "parameters", "Invalid schema of the function '" + given.tool.name + "': " + why + ".",
         "tool_or_output_schema");
}

void judge_schema(GivenTool& given) {
    json::value& schema = given.tool.parameters;
    if (!given.has_parameters) {
        schema = json::object();
        if (given.tool.strict == true)
            schema = json::object{{"type", "object"},
                                  {"properties", json::object()},
                                  {"additionalProperties", false},
                                  {"required", json::array()}};
        return;
    }
    if (const auto fault = schema_fault(schema)) fail_schema(given, *fault);
    const json::object* members = schema.if_object();
    const json::value* type = members ? members->if_contains("type") : nullptr;
    if (!type || *type != "object") fail_schema(given, "its type must be \"object\"");
    if (given.tool.strict != true) return;
    StrictSchema strict = strict_schema(schema);
    if (!strict.fault.empty()) fail_schema(given, strict.fault);
    schema = std::move(strict.schema);
}

}  // namespace

void check_tool_name(const std::string& name, const std::string& path) {
    if (name.empty()) fail(path, in_quotes(path) + " must not be empty.", "tool_name");
    if (name.size() > longest_name)
        fail(path,
             in_quotes(path) + " has " + std::to_string(name.size()) + " bytes; at most " +
                 std::to_string(longest_name) + " are allowed.",
             "tool_name");
    const bool fits =
        std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
    if (!fits)
        fail(path,
             in_quotes(path) + " may have letters, digits, '_' and '-' only, but is " + in_quotes(name) + ".",
             "tool_name");
}

void check_unique_names(const std::vector<GivenTool>& tools) {
    if (tools.size() > limits::tools)
        fail("tools",
             "'tools' has " + std::to_string(tools.size()) + " elements; at most " +
                 std::to_string(limits::tools) + " are allowed.",
             "invalid_value");
    std::set<std::string_view> names;
    for (const GivenTool& given : tools)
        if (!names.insert(given.tool.name).second)
            fail(given.name_path,
                 "Two tools have the name " + in_quotes(given.tool.name) + "; names must be unique.",
                 "tool_name");
}

void put_tools(recipe::Conversation& conversation, std::vector<GivenTool> tools, const ToolWish& wish,
               const ServiceRules& rules) {
    using recipe::ToolChoice;
    conversation.tool_choice = wish.choice;
    if (wish.choice == ToolChoice::none) return;  // the prompt does not mention them
    if (wish.named) {
        const auto is_named = [&](const GivenTool& given) { return given.tool.name == *wish.named; };
        if (std::ranges::none_of(tools, is_named))
            fail(wish.path, "No tool of the name " + in_quotes(*wish.named) + " is in 'tools'.",
                 "tool_choice");
        std::erase_if(tools, [&](const GivenTool& given) { return !is_named(given); });
    }
    if (wish.choice == ToolChoice::required) {
        if (tools.empty()) {
            conversation.tool_choice = ToolChoice::automatic;
        } else if (rules.official && conversation.thinking.value_or(true)) {
            fail(wish.path, "A call cannot be forced while thinking is on.", "tool_choice");
        }
    }
    for (GivenTool& given : tools) judge_schema(given);
    if (!tools.empty() && std::ranges::all_of(tools, [](const GivenTool& g) { return g.tool.deferred; }))
        fail("tools", "All tools have 'defer_loading': true; at least one must be listed from the start.",
             "defer_loading");
    for (GivenTool& given : tools) conversation.tools.push_back(std::move(given.tool));
}

void put_schema(recipe::Conversation& conversation, const json::value& schema, bool strict,
                const std::string& path) {
    if (const auto fault = schema_fault(schema))
        fail(path, "Invalid JSON schema: " + *fault + ".", "tool_or_output_schema");
    conversation.format = {
        .kind = recipe::ResponseFormat::Kind::json_schema, .schema = schema, .enforced = schema};
    if (!strict) return;
    const json::object* members = schema.if_object();
    const json::value* type = members ? members->if_contains("type") : nullptr;
    if (!type || *type != "object")
        fail(path, in_quotes(path) + ": at its top a strict schema must have the type \"object\".",
             "tool_or_output_schema");
    StrictSchema made = strict_schema(schema);
    if (!made.fault.empty()) fail(path, "Invalid JSON schema: " + made.fault + ".", "tool_or_output_schema");
    conversation.format.enforced = std::move(made.schema);
}

}  // namespace deepinfer::api
