#include "api/responses_tools.h"

#include <algorithm>

#include "api/apply_patch.h"
#include "api/conversation_request.h"

namespace deepinfer::api {

namespace json = boost::json;

void ResponsesTools::add(const json::array& items, const std::string& path) {
    for (size_t i = 0; i < items.size(); ++i) {
        const std::string item_path = path + "[" + std::to_string(i) + "]";
        const Fields item(as_object(items[i], item_path), item_path + ".");
        const std::optional<std::string> type = item.string("type");
        if (!type) fail_missing(item.path("type"));
        if (*type == "function") {
            add_function(item, nullptr);
        } else if (*type == "namespace") {
            add_namespace(item);
        } else if (*type == "custom") {
            add_custom(item);
        } else if (*type == "tool_search" && rules_.is_v41() && item.string("execution") == "client") {
            GivenTool given{.tool = {.name = "tool_search",
                                     .description = item.string("description"),
                                     .deferred = deferred_},
                            .path = item.path(""),
                            .name_path = item.path("type")};
            const json::value* parameters = item.find("parameters");
            given.has_parameters = parameters != nullptr;
            if (parameters) given.tool.parameters = *parameters;
            given_.push_back(std::move(given));
            origins_["tool_search"] = {.kind = ToolOrigin::Kind::tool_search, .name = "tool_search"};
        } else if (type->starts_with("web_search") && rules_.official && !rules_.drops_responses_web_search) {
            fail(item.path("type"), "Server tools are not supported.", "server_tool");
        }
        // Other types are tools that a server runs; this one has none.
    }
}

GivenTool& ResponsesTools::add_function(const Fields& item, const NameSpace* name_space) {
    const std::optional<std::string> name = item.string("name");
    if (!name) fail_missing(item.path("name"));
    check_tool_name(*name, item.path("name"));
    GivenTool given{
        .tool = {.name = *name,
                 .description = item.string("description"),
                 .strict = item.boolean("strict"),
                 .deferred = deferred_ || (rules_.is_v41() && item.boolean("defer_loading").value_or(false))},
        .path = item.path(""),
        .name_path = item.path("name")};
    const json::value* parameters = item.find("parameters");
    given.has_parameters = parameters != nullptr;
    if (parameters) given.tool.parameters = *parameters;

    if (deferred_) {
        const auto or_null = [](const auto& value) {
            return value ? json::value(*value) : json::value(nullptr);
        };
        json::object shown{{"type", "function"},
                           {"name", *name},
                           {"description", or_null(given.tool.description)},
                           {"parameters", parameters ? *parameters : json::value(nullptr)},
                           {"strict", or_null(given.tool.strict)}};
        if (name_space)
            shown["namespace"] =
                json::object{{"name", name_space->name}, {"description", name_space->description}};
        shown_.push_back(std::move(shown));
    }
    if (name_space) {
        const std::string wanted = joined(name_space->name, *name);
        given.tool.name = wanted;
        for (int i = 1; is_taken(given.tool.name); ++i) given.tool.name = wanted + "_" + std::to_string(i);
        if (rules_.is_v41())
            given.tool.description = name_space->description + "\n" + given.tool.description.value_or("");
        origins_[given.tool.name] = {.name = *name, .name_space = name_space->name};
    }
    return given_.emplace_back(std::move(given));
}

void ResponsesTools::add_namespace(const Fields& item) {
    NameSpace name_space{.name = item.string("name").value_or(""),
                         .description = item.string("description").value_or("")};
    if (name_space.name.empty()) fail_missing(item.path("name"));
    check_tool_name(name_space.name, item.path("name"));
    const json::array* items = item.array("tools");
    if (!items) fail_missing(item.path("tools"));
    for (size_t i = 0; i < items->size(); ++i) {
        const std::string path = item.path("tools[" + std::to_string(i) + "]");
        const Fields inner(as_object((*items)[i], path), path + ".");
        if (const std::string type = inner.string("type").value_or(""); type != "function")
            fail(path,
                 "A namespace can hold functions only, but " + in_quotes(path) + " is of type " +
                     in_quotes(type.substr(0, 64)) + ".",
                 "tool_name");
        add_function(inner, &name_space);
    }
}

void ResponsesTools::add_custom(const Fields& item) {
    const std::string name = item.string("name").value_or("");
    if (name != "apply_patch")
        fail(item.path("name"), "Custom tools are not supported, but for apply_patch.", "tool_name");
    json::object input{{"type", "string"}, {"description", apply_patch_input}};
    GivenTool given{
        .tool = {.name = name,
                 .description = apply_patch_description(rules_.is_v41()),
                 .parameters = json::object{{"type", "object"},
                                            {"additionalProperties", false},
                                            {"properties", json::object{{"input", std::move(input)}}},
                                            {"required", json::array{"input"}}},
                 .deferred = deferred_},
        .path = item.path(""),
        .name_path = item.path("name")};
    given_.push_back(std::move(given));
    origins_[name] = {.kind = ToolOrigin::Kind::custom, .name = name};
}

std::string ResponsesTools::add_found(const json::array& items, const std::string& path,
                                      std::vector<std::string>& names) {
    const size_t before = given_.size();
    shown_.clear();
    deferred_ = true;
    add(items, path);
    deferred_ = false;
    for (size_t i = before; i < given_.size(); ++i) names.push_back(given_[i].tool.name);
    return recipe::to_text(json::array(shown_.begin(), shown_.end()), {.spaced = false});
}

std::string ResponsesTools::joined(const std::string& name_space, const std::string& name) const {
    if (rules_.is_v41()) return name_space + "::" + name;
    const bool has_line = name_space.ends_with('_') || name.starts_with('_');
    return name_space + (has_line ? "" : "__") + name;
}

bool ResponsesTools::is_taken(const std::string& name) const {
    return std::ranges::any_of(given_, [&](const GivenTool& given) { return given.tool.name == name; });
}

std::string ResponsesTools::model_name(const std::string& name_space, const std::string& name) const {
    if (name_space.empty()) return name;
    for (const auto& [model_name, origin] : origins_)
        if (origin.name_space == name_space && origin.name == name) return model_name;
    return joined(name_space, name);
}

ToolWish ResponsesTools::parse_choice(const Fields& request) const {
    ToolWish wish;
    wish.path = "tool_choice";
    const json::value* value = request.find("tool_choice");
    if (!value) return wish;
    if (value->is_string()) {
        constexpr recipe::ToolChoice choices[] = {recipe::ToolChoice::none, recipe::ToolChoice::automatic,
                                                  recipe::ToolChoice::required};
        wish.choice = choices[one_of(as_string(*value, wish.path), {"none", "auto", "required"}, wish.path)];
        return wish;
    }
    const Fields choice(as_object(*value, wish.path), "tool_choice.");
    const std::optional<std::string> type = choice.string("type");
    if (!type) fail_missing(choice.path("type"));
    if (*type != "function" && *type != "custom") return wish;  // a tool that this server does not have
    const std::optional<std::string> name = choice.string("name");
    if (!name) fail_missing(choice.path("name"));
    wish.choice = recipe::ToolChoice::required;
    wish.named = model_name(choice.string("namespace").value_or(""), *name);
    return wish;
}

}  // namespace deepinfer::api
