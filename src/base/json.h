// JSON from outside the program: Boost.JSON behind limits, without exceptions.
//
// Include this instead of <boost/json.hpp>; the library itself is compiled once, in json.cpp.
#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace deepinfer {

struct JsonLimits {
    size_t max_bytes = size_t{64} << 20;
    size_t max_depth = 32;     // nesting of arrays and objects
    bool unique_keys = false;  // refuse an object that has a key twice; otherwise the last one wins
};

// Parses exactly one JSON value in strict RFC 8259 form (valid UTF-8, no comments, nothing but white space
// after it). `what` names the text in messages ("config.json"). Errors: corrupt_data with the byte position;
// resource_exhausted past a limit.
Result<boost::json::value> parse_json(std::string_view text, std::string_view what,
                                      const JsonLimits& limits = {});

}  // namespace deepinfer
