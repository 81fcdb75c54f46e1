// Requests as the official DeepSeek service takes them: body -> prompt, sampling, and how the output is to be read. What
// `deepinfer recipe` shows, and what the recorded vectors are compared with.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "api/error.h"
#include "api/official_options.h"
#include "recipe/deepseek_format.h"

namespace deepinfer::api {

struct OfficialService {
    std::map<std::string, Wording> models = {{"DeepSeek-V4-Pro", Wording::deepseek_v4},
                                             {"DeepSeek-V4.1-Flash", Wording::deepseek_v41}};
    ServiceRules rules = {.official = true};  // the wording is the model's
    recipe::DeepSeekMarks marks;
};

struct OfficialRequest {
    Wording wording = Wording::deepseek_v41;
    ConversationRequest converted;
    OfficialOptions options;
    bool stream = false;
    recipe::DeepSeekPrompt prompt;
};

// Never throws.
Outcome<OfficialRequest> read_official_request(const OfficialService& service, Protocol protocol,
                                               std::string_view body);

}  // namespace deepinfer::api
