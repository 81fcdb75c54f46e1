// What the next step computes: a pure function of the queues and the free blocks. It reads no clock,
// allocates no tensor and touches no request; the engine carries out what it returns.
//
// Decode rows and prefill chunks share a step: a decode row is nearly free beside a prefill, whose weights
// are read anyway. Order: one row for every decoding sequence, then prefill chunks of running sequences, then
// new ones first-come first-served, until `max_rows`. When blocks run out for a decoding sequence, the
// sequence admitted last gives up its blocks and is recomputed later (its tokens are kept, so its output does
// not change).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer::engine {

struct SequenceView {
    int32_t tokens = 0;    // known so far: prompt and output
    int32_t computed = 0;  // of these, with keys and values in blocks
    int32_t blocks = 0;    // held
};

struct SchedulerLimits {
    int32_t max_rows = 512;    // token rows of a step
    int32_t max_running = 64;  // sequences that hold blocks
    int32_t block_tokens = 64;
};

struct Plan {
    struct Work {
        int32_t sequence = 0;  // index: running sequences first, then waiting ones
        int32_t rows = 0;
    };
    std::vector<Work> work;          // in batch order
    std::vector<int32_t> preempted;  // indices into running
    int32_t admitted = 0;            // this many from the front of waiting start now; they are in `work`
};

Plan plan(std::span<const SequenceView> running, std::span<const SequenceView> waiting, int32_t free_blocks,
          const SchedulerLimits& limits);

}  // namespace deepinfer::engine
