// The engine of one process: one thread that owns all sequences, the block tables and the pool, and steps the
// model.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/scheduler.h"
#include "models/model.h"

namespace deepinfer::engine {

struct EngineOptions {
    int32_t context_length = 0;  // 0: the model's; clipped to what the pool can hold for one sequence
    int32_t max_rows = 512;      // token rows of a step
    int32_t max_running = 64;    // sequences computed side by side
    int32_t max_waiting = 1024;  // queued beyond that: refused
    kernels::Isa isa = kernels::Isa::portable;  // of the sampler
    std::vector<TokenId> end_of_generation;     // stop a sequence unless it asks to ignore them
};

// `model`, `blocks` and `pool` must outlive the engine; they are used by its thread only.
std::unique_ptr<Engine> make_local_engine(models::Model& model, kv::BlockPool& blocks, ThreadPool& pool,
                                          const EngineOptions& options);

}  // namespace deepinfer::engine
