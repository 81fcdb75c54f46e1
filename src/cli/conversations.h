// Random conversations, for telling whether an engine answers the same whatever its caches do.
//
// A conversation is a number of turns; each sends everything so far and something new, as clients of a chat do. Some go back to
// an earlier turn and ask something else there, some change a token far back, some are broken off, some are sent twice. What
// is sent depends on the seed and on the answers so far, and on nothing else.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.h"

namespace deepinfer::cli {

struct ConversationOptions {
    uint64_t seed = 0;
    int32_t preamble = 200;      // tokens that all conversations begin with
    int32_t turns = 6;           // at most
    int32_t most_prompt = 2000;  // tokens; a conversation that gets longer ends
    int32_t most_new = 120;      // tokens that a turn adds
    int32_t most_answer = 24;
};

struct TurnResult {
    std::vector<TokenId> tokens;
    std::vector<float> logprobs;
    int32_t prompt_tokens = 0, cached_tokens = 0;
    std::array<int32_t, engine::most_stores> loaded_tokens{};
    Error error{ErrorCode::internal, {}};  // message empty: none

    // The same answer, to the bit.
    bool same(const TurnResult& other) const;
};
using Conversation = std::vector<TurnResult>;

// Holds conversation number `index`; blocks until it is over. Any number of threads may, with one engine.
Conversation converse(engine::Engine& engine, const ConversationOptions& options, uint64_t index);
// All of 0 ... count - 1, some side by side.
std::vector<Conversation> converse_all(engine::Engine& engine, const ConversationOptions& options,
                                       size_t count);

}  // namespace deepinfer::cli
