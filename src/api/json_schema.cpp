#include "api/json_schema.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace deepinfer::api {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 7> type_names = {"string", "number",  "integer", "object",
                                                        "array",  "boolean", "null"};

bool is_type_name(const json::value& value) {
    const json::string* name = value.if_string();
    return name && std::ranges::count(type_names, std::string_view(*name)) > 0;
}

// The shapes that values of keywords may have.
bool is_type(const json::value& v) {
    if (const json::array* names = v.if_array()) {
        std::set<std::string_view> seen;
        return !names->empty() && std::ranges::all_of(*names, [&](const json::value& name) {
            return is_type_name(name) && seen.insert(std::string_view(name.get_string())).second;
        });
    }
    return is_type_name(v);
}
bool is_string(const json::value& v) { return v.is_string(); }
bool is_bool(const json::value& v) { return v.is_bool(); }
bool is_number(const json::value& v) { return v.is_number(); }
bool is_positive(const json::value& v) { return v.is_number() && v.to_number<double>() > 0; }
bool is_array(const json::value& v) { return v.is_array(); }
bool is_count(const json::value& v) {
    if (!v.is_number()) return false;
    const double number = v.to_number<double>();
    return number >= 0 && number == static_cast<double>(static_cast<int64_t>(number));
}
bool is_names(const json::value& v) {
    const json::array* names = v.if_array();
    if (!names) return false;
    std::set<std::string_view> seen;
    return std::ranges::all_of(*names, [&](const json::value& name) {
        return name.is_string() && seen.insert(std::string_view(name.get_string())).second;
    });
}

struct Shape {
    std::string_view keyword;
    bool (*fits)(const json::value&);
    const char* wanted;
};
constexpr Shape shapes[] = {
    {"type", is_type, "a type or an array of types"},
    {"enum", is_array, "an array"},
    {"required", is_names, "an array of different strings"},
    {"minimum", is_number, "a number"},
    {"maximum", is_number, "a number"},
    {"exclusiveMinimum", is_number, "a number"},
    {"exclusiveMaximum", is_number, "a number"},
    {"multipleOf", is_positive, "a number above 0"},
    {"minLength", is_count, "a count"},
    {"maxLength", is_count, "a count"},
    {"minItems", is_count, "a count"},
    {"maxItems", is_count, "a count"},
    {"minProperties", is_count, "a count"},
    {"maxProperties", is_count, "a count"},
    {"minContains", is_count, "a count"},
    {"maxContains", is_count, "a count"},
    {"uniqueItems", is_bool, "a boolean"},
    {"pattern", is_string, "a string"},
    {"format", is_string, "a string"},
    {"title", is_string, "a string"},
    {"description", is_string, "a string"},
    {"$ref", is_string, "a string"},
    {"$id", is_string, "a string"},
    {"$schema", is_string, "a string"},
    {"$anchor", is_string, "a string"},
    {"$comment", is_string, "a string"},
};
constexpr std::string_view keywords_of_schema[] = {"additionalProperties",
                                                   "propertyNames",
                                                   "unevaluatedProperties",
                                                   "unevaluatedItems",
                                                   "contains",
                                                   "not",
                                                   "if",
                                                   "then",
                                                   "else"};
constexpr std::string_view keywords_of_schemas[] = {"anyOf", "oneOf", "allOf", "prefixItems"};
constexpr std::string_view keywords_of_named_schemas[] = {"properties", "patternProperties", "$defs",
                                                          "definitions", "dependentSchemas"};

// Depth is that of the JSON text, which is limited.
std::optional<std::string> fault_at(const json::value& schema, const std::string& path) {
    if (schema.is_bool()) return std::nullopt;
    const json::object* members = schema.if_object();
    if (!members) return "'" + path + "' must be an object or a boolean";
    for (const auto& member : *members) {
        const std::string_view keyword = member.key();
        const json::value& value = member.value();
        const std::string at = path + "." + std::string(keyword);
        const auto is_in = [&](const auto& keywords) { return std::ranges::count(keywords, keyword) > 0; };
        for (const Shape& shape : shapes)
            if (shape.keyword == keyword && !shape.fits(value)) return "'" + at + "' must be " + shape.wanted;
        const bool is_list = is_in(keywords_of_schemas) || (keyword == "items" && value.is_array());
        if (is_in(keywords_of_schema) || (keyword == "items" && !is_list)) {
            if (auto fault = fault_at(value, at)) return fault;
        } else if (is_list) {
            if (!value.is_array()) return "'" + at + "' must be an array of schemas";
            for (size_t i = 0; i < value.get_array().size(); ++i)
                if (auto fault = fault_at(value.get_array()[i], at + "[" + std::to_string(i) + "]"))
                    return fault;
        } else if (is_in(keywords_of_named_schemas)) {
            if (!value.is_object()) return "'" + at + "' must be an object of schemas";
            for (const auto& named : value.get_object())
                if (auto fault = fault_at(named.value(), at + "." + std::string(named.key()))) return fault;
        }
    }
    return std::nullopt;
}

// What strict mode keeps of a schema, by its type.
constexpr std::string_view kept_always[] = {"type", "description", "enum", "const", "default", "$ref"};
constexpr std::string_view kept_of_string[] = {"pattern", "format"};
constexpr std::string_view kept_of_number[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                               "multipleOf"};

struct StrictFault {
    std::string message;
};

enum class Level { top, nested };

json::value made_strict(const json::value& schema, Level level = Level::nested);

json::object strict_object(const json::object& schema, Level level) {
    if (const json::value* open = schema.if_contains("additionalProperties"); open && *open != false)
        throw StrictFault{"additionalProperties must be false in strict mode"};
    json::object properties;
    json::array names;
    if (const json::value* given = schema.if_contains("properties"); given && given->is_object())
        for (const auto& property : given->get_object()) {
            properties[property.key()] = made_strict(property.value());
            names.emplace_back(property.key());
        }
    if (level == Level::nested && properties.empty())
        throw StrictFault{"in strict mode an object within must have properties"};
    if (const json::value* required = schema.if_contains("required"); required && required->is_array()) {
        std::set<std::string_view> wanted, present;
        for (const json::value& name : required->get_array()) wanted.insert(name.get_string());
        for (const auto& property : properties) present.insert(property.key());
        if (wanted != present)
            throw StrictFault{"in strict mode 'required' must name all properties of the object"};
    }
    return {{"properties", std::move(properties)},
            {"additionalProperties", false},
            {"required", std::move(names)}};
}

json::value made_strict(const json::value& schema, Level level) {
    const json::object* given = schema.if_object();
    if (!given) throw StrictFault{"in strict mode a schema must be an object"};
    const json::value* type = given->if_contains("type");
    if (!type && !given->contains("anyOf") && !given->contains("$ref"))
        throw StrictFault{"in strict mode a schema must have one of type, anyOf, $ref"};
    const auto is_of = [&](std::string_view name) {
        if (!type) return false;
        if (type->is_string()) return std::string_view(type->get_string()) == name;
        return std::ranges::any_of(type->get_array(), [&](const json::value& one) {
            return std::string_view(one.get_string()) == name;
        });
    };
    json::object out;
    for (const auto& member : *given) {
        const std::string_view keyword = member.key();
        const auto is_in = [&](const auto& keywords) { return std::ranges::count(keywords, keyword) > 0; };
        if (is_in(kept_always) || (is_of("string") && is_in(kept_of_string)) ||
            ((is_of("number") || is_of("integer")) && is_in(kept_of_number))) {
            out[keyword] = member.value();
        } else if (keyword == "items" && is_of("array")) {
            out[keyword] = made_strict(member.value());
        } else if (keyword == "anyOf") {
            json::array choices;
            for (const json::value& choice : member.value().get_array())
                choices.push_back(made_strict(choice));
            out[keyword] = std::move(choices);
        }
    }
    if (is_of("object"))
        for (auto& member : strict_object(*given, level)) out[member.key()] = std::move(member.value());
    return out;
}

}  // namespace

std::optional<std::string> schema_fault(const json::value& schema) { return fault_at(schema, "schema"); }

StrictSchema strict_schema(const json::value& schema) {
    try {
        return {made_strict(schema, Level::top), {}};
    } catch (const StrictFault& fault) {
        return {nullptr, fault.message};
    }
}

}  // namespace deepinfer::api
