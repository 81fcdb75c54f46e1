// What both completion endpoints have in common: how to sample, when to stop, what to report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace deepinfer::api {

class Fields;

struct GenerationOptions {
    engine::SamplingParams sampling;    // max_tokens and seed are not filled in yet: see below
    std::optional<int32_t> max_tokens;  // absent: chat to the end of the context, completions 16
    std::optional<uint64_t> seed;       // absent: the server draws one
    int32_t n = 1;                      // answers to each prompt
    int32_t best_of = 1;                // >= n: how many are drawn; the most likely per token are given
    // Answers report so many likely tokens at each place of the prompt; -1: none. sampling.prompt_logprobs covers it and
    // what an echo needs.
    int32_t prompt_logprobs = -1;
    std::string cache_salt;  // computed prefixes are shared among requests with the same one only
    std::optional<engine::Retention> retention;  // of what is computed; absent: as the server has it
    int32_t priority = 0;                        // lower starts earlier, among the requests of one API key
    std::optional<double>
        timeout;  // seconds from the request's arrival until it must be done; absent: no limit
    std::vector<std::string> stop;
    bool stream = false;
    bool include_usage = false;  // a last chunk with the usage
};

// Both throw FieldError. The first reads everything but max_tokens and logprobs, which the endpoints spell differently; the
// second, once they are known, what depends on them.
GenerationOptions parse_generation_options(const Fields& fields);
void parse_dependent_options(const Fields& fields, GenerationOptions& options);

}  // namespace deepinfer::api
