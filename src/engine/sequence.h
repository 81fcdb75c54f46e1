// One choice of a request on its way through the engine. Owned by the engine thread; `history` is used by the device lane
// while a step that samples for the sequence is in flight, and by the engine thread only before the first one.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "engine/cache_misses.h"
#include "engine/engine.h"
#include "engine/scheduler.h"
#include "engine/token_history.h"
#include "kv/block_key.h"
#include "kv/block_pool.h"

namespace deepinfer::engine {

struct Sequence {
    RequestId id = 0;
    int32_t choice = 0;
    std::shared_ptr<const Listener> listener;  // of all choices
    std::shared_ptr<const SamplingParams> sampling;
    int32_t choices = 1;             // that start when the prompt is computed; 1 once they have
    std::vector<int32_t> cancelled;  // of these choices: they end when they start
    int32_t tenant = 0, priority = 0;
    Clock::time_point arrival;
    std::optional<Clock::time_point> deadline;
    std::optional<Clock::time_point> started, first_token;

    std::vector<TokenId> tokens;  // prompt, then output, as far as it is known
    int32_t prompt_tokens = 0;
    int32_t pending = 0;   // tokens that steps in flight will add: at most 1 when a step is planned
    int32_t computed = 0;  // tokens with keys and values in `blocks` once the steps in flight are done
    int32_t counted = 0;   // prompt tokens already counted as computed (a preempted prompt is computed again)
    std::vector<kv::BlockId> blocks;
    // What it has to do with the prefix cache (prefix_sharing.h). Numbers of blocks, from the first on.
    kv::BlockKey root;
    std::vector<kv::BlockKey> keys;  // of the full blocks of `tokens`, as far as needed
    int32_t usable = 0;              // that need not be computed if they are there
    int32_t found = 0;               // while it waits: that are there
    int32_t published = 0;           // while it runs: that have been offered to the cache
    int32_t claimed = 0;             // while it runs: up to which others wait for it
    bool held = false;               // while it waits: another sequence computes what it needs next
    int32_t cached_tokens = 0;       // of the prompt, that were there when it began
    CacheMisses misses{};            // why the others were not
    std::array<int32_t, most_stores> loaded_tokens{};  // of these, that came from a store
    kv::Retention retention = kv::Retention::chat;
    uint64_t tenant_hash = 0;  // for the stores' budgets
    // The search in the stores, while it waits (stored_prefixes.h).
    enum class Search : uint8_t { none, looking, located, loading, done } search = Search::none;
    uint64_t ticket = 0;             // of the search
    int32_t searched_from = 0;       // block that it began with
    Clock::time_point search_until;  // it goes on without what has not come by then
    int32_t not_loaded = 0;          // blocks that a store has and that were not loaded
    CacheMiss why_not_loaded = CacheMiss::late;
    std::vector<kv::BlockId> tails;   // one for each further choice, from admission until they start
    double service = 0;               // estimated seconds to compute what is left of the prompt, alone
    uint64_t last_step = 0;           // the last step that has rows of it
    int32_t last_sample = -1;         // its sample in that step
    Clock::time_point waiting_since;  // when rows of it were planned last, else the arrival
    int32_t skipped = 0;
    TokenHistory history;  // of the tokens drawn so far, also those that are not known here yet
    // The prompt's tokens after the first that have log-probabilities, or will by steps in flight.
    int32_t scored = 0;
    std::vector<SampledToken> scores;  // of these, as far as they are known
    bool scores_told = false;
    bool over = false;  // the listener has been told, or will be by LocalEngine::tell()

    int32_t known() const { return static_cast<int32_t>(tokens.size()); }
    int32_t length() const { return known() + pending; }
    int32_t generated() const { return known() - prompt_tokens; }
};
using SequencePtr = std::shared_ptr<Sequence>;

}  // namespace deepinfer::engine
