#include "engine/request_check.h"

#include <algorithm>
#include <string>

#include "kv/layout.h"

namespace deepinfer::engine {

Status check(const Request& request, const RequestLimits& limits) {
    const auto bad = [](std::string message) {
        return Error{ErrorCode::invalid_argument, std::move(message)};
    };
    const int32_t vocabulary = limits.vocabulary;
    if (request.prompt.empty()) return bad("the prompt is empty: at least one token is needed");
    for (TokenId token : request.prompt)
        if (token < 0 || token >= vocabulary)
            return bad("prompt token " + std::to_string(token) + " is not in the vocabulary of " +
                       std::to_string(vocabulary) + " tokens");
    if (Status status = check(request.sampling, vocabulary); !status) return status;
    const auto prompt = static_cast<int64_t>(request.prompt.size());
    if (prompt >= limits.context_length)
        return bad("the prompt has " + std::to_string(prompt) + " tokens; the context holds " +
                   std::to_string(limits.context_length) + ", and at least one must be left for the answer");
    if (request.choices < 1 || request.choices > std::min(max_choices, limits.max_running))
        return bad("choices must be from 1 to " + std::to_string(std::min(max_choices, limits.max_running)) +
                   ", not " + std::to_string(request.choices));
    const int64_t needed = kv::blocks_for(prompt + 1) + request.choices - 1;
    if (request.choices > 1 && needed > limits.total_blocks)
        return bad(std::to_string(request.choices) + " choices of a prompt of " + std::to_string(prompt) +
                   " tokens need " + std::to_string(needed) + " blocks of KV cache; there are " +
                   std::to_string(limits.total_blocks));
    return {};
}

}  // namespace deepinfer::engine
