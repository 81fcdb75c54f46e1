// Whether an engine can ever answer a request. What it cannot is refused before it queues, with the numbers.
#pragma once

#include <cstdint>

#include "engine/engine.h"

namespace deepinfer::engine {

struct RequestLimits {
    int32_t vocabulary = 0;
    int32_t context_length = 0;  // tokens of a sequence
    int32_t max_running = 0;     // sequences side by side
    int32_t total_blocks = 0;    // of the KV cache
};

// Error: invalid_argument.
Status check(const Request& request, const RequestLimits& limits);

}  // namespace deepinfer::engine
