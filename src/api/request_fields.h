// The one table of request fields: which are implemented, which are harmless hints, which are refused by
// name.
//
// A field that is not in the table is refused, too: a parameter is never silently without effect.
#pragma once

#include <span>
#include <string_view>

#include "api/fields.h"

namespace deepinfer::api {

enum Endpoint : unsigned { chat = 1, completions = 2 };

enum class FieldUse {
    implemented,
    hint,          // of the right type: accepted and without effect on the answer, by its very meaning
    neutral_only,  // accepted with the value that asks for nothing; any other is refused by name
};

struct RequestField {
    std::string_view name;
    unsigned endpoints;  // bits of Endpoint
    FieldUse use;
    bool (*accepts)(const boost::json::value&) =
        nullptr;                   // the value that asks for nothing; of a hint: its type
    std::string_view advice = {};  // what to do instead, one sentence; of a hint: the type in words
};

std::span<const RequestField> request_fields();

// Throws FieldError naming the first field that `endpoint` does not take.
void check_fields(const Fields& fields, Endpoint endpoint);

}  // namespace deepinfer::api
