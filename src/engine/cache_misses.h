// Why tokens of a prompt had to be computed, though there is a prefix cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace deepinfer::engine {

enum class CacheMiss : uint8_t {
    fresh,           // never seen, as far as is known
    tail,            // the end of a prompt that fills no block, and its last token in any case
    evicted,         // was in the pool, made room for others, and no store has it
    late,            // a store had it, but not in time
    failed,          // a store had it and could not give it, or it was damaged
    not_worth,       // a store had it, and loading would take longer than computing
    no_room,         // a store had it, and running requests needed the pool
    prompt_logprobs  // the request asked for log-probabilities of the prompt, which takes computing all of it
};
constexpr std::array<std::string_view, 8> cache_miss_names{
    "new",    "partial_block",         "evicted", "late",
    "failed", "slower_than_computing", "no_room", "prompt_logprobs"};
using CacheMisses = std::array<int32_t, cache_miss_names.size()>;  // tokens by CacheMiss

constexpr int32_t& of(CacheMisses& misses, CacheMiss why) { return misses[static_cast<size_t>(why)]; }

}  // namespace deepinfer::engine
