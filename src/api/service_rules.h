// What a request may say and how it is understood: differs between the prompt formats, and between this server and the
// official DeepSeek service, whose prompts and refusals `deepinfer recipe` reproduces.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "recipe/deepseek_format.h"

namespace deepinfer::api {

enum class Wording { chat_template, deepseek_v4, deepseek_v41 };

struct ServiceRules {
    Wording wording = Wording::chat_template;

    // Refuse what the official service refuses, even where it could be done (a developer's role, n > 1, a forced call while
    // thinking), and pass over unknown fields.
    bool official = false;
    bool thinks_by_default = true;      // official
    bool wants_reasoning_back = false;  // official: an answer of the history must bring its reasoning along
    bool drops_responses_web_search = true;  // official: false refuses
    bool drops_messages_web_search = false;
    int64_t most_tokens_thinking = 393'216, most_tokens_not_thinking = 393'216;  // official: of max_tokens

    bool is_deepseek() const { return wording != Wording::chat_template; }
    bool is_v41() const { return wording == Wording::deepseek_v41; }
    bool takes_images() const { return is_v41(); }
    // Between the parts of a content.
    const char* part_separator() const { return is_deepseek() ? "\n\n" : "\n"; }
};

}  // namespace deepinfer::api
