// The engine as the layers above see it: token sequences in, streams of sampled tokens out. It knows no text.
//
// The output of a request is a pure function of (model, prompt, sampling parameters, seed): bit-identical
// whatever else runs beside it, however the prompt is chunked, however many threads compute.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "engine/cache_misses.h"
#include "engine/sampling_params.h"
#include "kv/prefix_cache.h"
#include "kv/retention.h"
#include "store/block_store.h"

namespace deepinfer::engine {

using RequestId = uint64_t;
using kv::parse_retention;
using kv::Retention;
constexpr size_t most_stores = 4;

struct TokenLogprob {
    TokenId token = -1;
    float logprob = 0.0f;  // natural logarithm; of which distribution: SamplingParams::logprobs_mode
};

struct SampledToken {
    TokenId token = -1;
    float logprob = 0.0f;                    // valid if top_logprobs >= 0
    std::vector<TokenLogprob> top_logprobs;  // most likely first, ties by lower id
    int32_t rank = 0;                        // among all by likelihood, from 1; of prompt tokens only
};

enum class FinishReason {
    stop,       // end-of-generation or stop id
    length,     // max_tokens, or the context is full
    cancelled,  // cancel()
    error,      // see Finish::error
};

struct Finish {
    FinishReason reason = FinishReason::stop;
    TokenId stop_token = -1;  // the token that stopped it, if one did
    int32_t prompt_tokens = 0;
    int32_t cached_tokens = 0;                         // prompt tokens whose computation was reused
    std::array<int32_t, most_stores> loaded_tokens{};  // of these, those that came from each store
    CacheMisses misses{};                              // of the others, why
    int32_t completion_tokens = 0;
    // Seconds until the first rows were computed, from there to the first token, and from there to the end; what was not
    // reached is 0.
    double queued = 0, prefill = 0, decode = 0;
    Error error;  // only for FinishReason::error
};

// Called on the engine thread. Of each choice, in order: on_token zero or more times, then on_finish exactly once.
// Must return quickly and not call back into the engine other than cancel().
struct Listener {
    std::function<void(int32_t choice, const SampledToken&)> on_token;
    std::function<void(int32_t choice, const Finish&)> on_finish;
    // With SamplingParams::prompt_logprobs: of the prompt's tokens from the second on, all at once, before the first token
    // of any choice. Not if the request (or its first choice) ends before.
    std::function<void(std::vector<SampledToken>)> on_prompt = nullptr;
};

using Clock = std::chrono::steady_clock;

struct Request {
    std::vector<TokenId> prompt;  // at least one token
    SamplingParams sampling;
    // Answers drawn side by side; the prompt is computed once. Choice i is what a request of its own gives with seed
    // choice_seed(sampling.seed, i).
    int32_t choices = 1;
    std::string tenant;  // tenants share the compute fairly; "" is one, too
    // Computed prefixes are shared between requests of one tenant and one salt only.
    std::string cache_salt;
    Retention retention = Retention::chat;  // how long stores keep what is computed for it
    int32_t priority = 0;                   // lower starts earlier, among the requests of a tenant
    std::optional<Clock::time_point>
        deadline;  // FinishReason::error (deadline_exceeded) for what is not done by then
};
constexpr int32_t max_choices = 128;

inline uint64_t choice_seed(uint64_t seed, int32_t choice) {
    return seed + static_cast<uint64_t>(choice) * 0x9E3779B97F4A7C15u;
}

constexpr std::array<double, 12> step_row_bounds{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};

// Of a store behind the pool.
struct TierStats {
    std::string name;
    uint64_t hits_total = 0;  // prompt tokens that came from there
    store::StoreStats store;
};

// A moment's counters, for /metrics and tests. Totals only grow.
struct EngineStats {
    int32_t running = 0, waiting = 0;
    int32_t blocks_total = 0, blocks_free = 0;  // free: used by no request
    int32_t blocks_kept = 0;  // of the free ones, those that hold a prefix that may be used again
    // Prompt tokens of requests that began: all, and those whose blocks were there.
    uint64_t cache_queries_total = 0, cache_hits_total = 0;
    std::array<uint64_t, cache_miss_names.size()> cache_misses_total{};  // the others by CacheMiss
    kv::PrefixCache::Stats cache;                                        // of the pool's blocks
    double cache_seconds_saved_total = 0;  // what computing the tokens that were there would have taken
    // Prompts looked for in the stores, and what came of those that did not end meanwhile: nothing was found; loaded, all or what
    // was still there; cut off, late or failed; not begun, since computing is quicker or the pool has no room; or no answer came.
    uint64_t cache_lookups_total = 0, cache_lookups_empty_total = 0, cache_lookups_given_up_total = 0;
    uint64_t cache_loads_total = 0, cache_loads_late_total = 0, cache_loads_failed_total = 0,
             cache_loads_not_worth_total = 0, cache_loads_no_room_total = 0;
    uint64_t cache_writes_total = 0, cache_writes_failed_total = 0, cache_writes_dropped_total = 0;  // blocks
    std::array<uint64_t, most_stores> cache_store_hits_total{};  // prompt tokens that came from each store
    std::vector<TierStats> tiers;  // of Engine::stats() only: the stores themselves are asked, then
    uint64_t prompt_tokens_total = 0, generated_tokens_total = 0;
    uint64_t finished_stop_total = 0, finished_length_total = 0, cancelled_total = 0, failed_total = 0;
    uint64_t rejected_total = 0, preemptions_total = 0, steps_total = 0;
    uint64_t wasted_rows_total = 0;  // computed for answers that had ended in the step before
    double prompt_step_seconds_total = 0,
           decode_step_seconds_total = 0;  // of steps with and without rows of prompts
    double predicted_seconds_total = 0;    // for all of these, by the cost model
    double prediction_error_median = 0, prediction_error_p90 = 0;  // relative, of the latest 512 steps
    // Steps by their rows: how many had at most step_row_bounds[i], and in the last place all others.
    std::array<uint64_t, 13> step_rows{};
    uint64_t step_rows_total = 0;
    double estimated_wait = 0;  // seconds until a request that came now would start, by the cost model
};

class Engine {
  public:
    virtual ~Engine() = default;  // cancels what is left, then joins

    // Checks the request and queues it. Errors: invalid_argument (bad token, bad parameter, prompt longer
    // than the context, choices that the blocks can never hold; the message has the numbers), resource_exhausted (queue
    // full or too slow, with Error::retry_after). Any thread; does not block on compute.
    virtual Result<RequestId> submit(Request request, Listener listener) = 0;
    // Ends the request (one choice of it) at the next step boundary, whatever its stage, and returns its blocks.
    // Unknown or finished ids are ignored. Any thread; on_finish(cancelled) still comes, on the engine thread.
    virtual void cancel(RequestId id) = 0;
    virtual void cancel(RequestId id, int32_t choice) = 0;
    // cancel() for all requests there are now.
    virtual void cancel_all() = 0;

    virtual EngineStats stats() const = 0;       // any thread
    virtual int32_t context_length() const = 0;  // prompt + completion tokens a request can have at most
    virtual int32_t vocabulary_size() const = 0;
};

}  // namespace deepinfer::engine
