// Reading typed fields out of a JSON request, with errors that name the field. Internal to the api layer:
// these throw FieldError, which the parse functions catch at their border.
//
// An explicit null counts as absent everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/error.h"
#include "base/json.h"

namespace deepinfer::api {

struct FieldError {
    ApiError error;
};

[[noreturn]] void fail(std::string param, std::string message, std::string code = {});

std::string in_quotes(std::string_view name);  // in single quotes

// "a string", "an object"… as in "expected a string, but got an object".
const char* kind_name(const boost::json::value& value);

class Fields {
  public:
    // `path` is put before names in messages: "" at the top, "messages[2]." inside.
    Fields(const boost::json::object& object, std::string path) : object_(object), path_(std::move(path)) {}

    const boost::json::value* find(std::string_view name) const;  // nullptr if absent or null
    std::string path(std::string_view name) const { return path_ + std::string(name); }
    const boost::json::object& object() const { return object_; }

    std::optional<std::string> string(std::string_view name) const;
    std::optional<bool> boolean(std::string_view name) const;
    std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max) const;
    std::optional<double> number(std::string_view name, double min, double max) const;
    const boost::json::array* array(std::string_view name) const;
    const boost::json::object* object(std::string_view name) const;

  private:
    const boost::json::object& object_;
    std::string path_;
};

std::string as_string(const boost::json::value& value, const std::string& path);
int64_t as_integer(const boost::json::value& value, const std::string& path, int64_t min, int64_t max);
const boost::json::object& as_object(const boost::json::value& value, const std::string& path);

// Parses a request body within the limits for requests: one JSON object.
boost::json::object parse_body(std::string_view body);

}  // namespace deepinfer::api
