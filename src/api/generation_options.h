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
    std::vector<std::string> stop;
    bool stream = false;
    bool include_usage = false;  // a last chunk with the usage
};

// Throws FieldError. Reads everything but max_tokens and logprobs, which the endpoints spell differently.
GenerationOptions parse_generation_options(const Fields& fields);

}  // namespace deepinfer::api
