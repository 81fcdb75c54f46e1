// What the official codec makes of a request, as JSON: for people, and to compare.
#pragma once

#include <vector>

#include "api/official_codec.h"
#include "base/json.h"

namespace deepinfer::cli {

boost::json::value ranges_json(const recipe::MarkedText& marked);  // [[begin, end], …] in code points
boost::json::value images_json(const std::vector<recipe::Image>& images);
boost::json::value options_json(const api::OfficialOptions& options);
boost::json::value output_json(const recipe::OutputOptions& output);
boost::json::value conversation_json(const recipe::Conversation& conversation);

}  // namespace deepinfer::cli
