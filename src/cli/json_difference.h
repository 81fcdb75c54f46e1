// Where two texts or JSON values differ, in words.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace deepinfer::cli {

// The first place at which two texts differ; empty if there is none.
std::string difference(std::string_view what, std::string_view ours, std::string_view expected);

// The first member that differs. Numbers are equal if they are as floats of 32 bits; the order of members does not count.
std::string difference(std::string_view what, const boost::json::value& ours,
                       const boost::json::value& expected);

}  // namespace deepinfer::cli
