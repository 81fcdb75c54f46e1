// The tools of a request in all three protocols, and which of them must be called. Internal to the api layer: throws FieldError.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/fields.h"
#include "api/service_rules.h"
#include "recipe/conversation.h"

namespace deepinfer::api {

// How the client knows a tool that the model knows by another name.
struct ToolOrigin {
    enum class Kind { function, custom, tool_search } kind = Kind::function;
    std::string name = {};
    std::string name_space = {};  // Responses; empty: none
};
using ToolOrigins =
    std::map<std::string, ToolOrigin>;  // by the model's name; functions without namespace are left out

// A tool choice as all protocols can express it.
struct ToolWish {
    recipe::ToolChoice choice = recipe::ToolChoice::automatic;
    std::optional<std::string> named;  // only this one
    std::string path;                  // of the field that named it
};

// A function's name, description, schema and strictness. The schema is not judged yet: see judge_tools().
struct GivenTool {
    recipe::Tool tool;
    bool has_parameters = true;
    std::string path;       // "tools[3]."
    std::string name_path;  // "tools[3].function.name"
};

void check_tool_name(const std::string& name, const std::string& path);
void check_unique_names(const std::vector<GivenTool>& tools);

// Applies the wish and judges the schemas; then the conversation has its tools.
void put_tools(recipe::Conversation& conversation, std::vector<GivenTool> tools, const ToolWish& wish,
               const ServiceRules& rules);

// Sets conversation.format from a JSON schema, made strict if that is wanted.
void put_schema(recipe::Conversation& conversation, const boost::json::value& schema, bool strict,
                const std::string& path);

}  // namespace deepinfer::api
