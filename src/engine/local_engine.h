// The engine of one process: one thread that owns all sequences, the block tables and the pool, plans the steps and tells
// the listeners; and one that computes them (step_runner.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/block_transfer.h"
#include "engine/engine.h"
#include "engine/scheduler.h"
#include "engine/trace.h"
#include "kv/block_key.h"
#include "models/model.h"

namespace deepinfer::engine {

struct EngineOptions {
    int32_t context_length = 0;  // 0: the model's; clipped to what the pool can hold for one sequence
    SchedulerLimits limits;
    int32_t max_waiting = 1024;   // queued beyond that: refused
    double max_wait_seconds = 0;  // who would wait longer for its first step: refused; 0: nobody
    std::map<std::string, double> tenant_weights;  // of those that are not 1
    bool prefix_cache = true;                      // keep computed blocks and find them again
    bool share_between_tenants = false;            // of different tenants, too
    kv::BlockKey fingerprint;  // of everything that the bytes of blocks depend on, for their keys
    bool async = true;         // plan a step while the one before is computed
    kernels::Isa isa = kernels::Isa::portable;  // of the sampler
    std::vector<TokenId> end_of_generation;     // stop a sequence unless it asks to ignore them
};

// `model`, `blocks` and `pool` must outlive the engine; they are used by its threads only. `times` predicts and learns how
// long steps take; null: every step takes no time, so that only limits.max_rows bounds it. `trace` may be null. `stores`:
// where blocks go and come from beyond the pool (stored_prefixes.h); at most most_stores.
// Error: resource_exhausted if the system gives it no thread.
Result<std::unique_ptr<Engine>> make_local_engine(models::Model& model, kv::BlockPool& blocks,
                                                  ThreadPool& pool, const EngineOptions& options,
                                                  std::unique_ptr<StepTimes> times = nullptr,
                                                  std::shared_ptr<Trace> trace = nullptr, Stores stores = {});

}  // namespace deepinfer::engine
