// JSON Schemas in requests: whether they are ones, and the form that "strict": true gives them.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"

namespace deepinfer::api {

// What is wrong with a schema, or nothing. Judges the keywords of JSON Schema 2020-12 that have a shape of their own;
// references are not followed, patterns not compiled.
std::optional<std::string> schema_fault(const boost::json::value& schema);

// The schema as strict mode has it: every object closed and all its properties required, keywords that strict mode does not
// know left out. Or what strict mode does not allow.
struct StrictSchema {
    boost::json::value schema;
    std::string fault;  // empty if there is none
};
StrictSchema strict_schema(const boost::json::value& schema);

}  // namespace deepinfer::api
