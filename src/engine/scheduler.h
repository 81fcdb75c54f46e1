// What the next step computes: a pure function of the queues, the free blocks, the time and the cost model. It reads no
// clock, allocates no tensor and touches no request; the engine carries out what it returns.
//
// A step mixes one row for every decoding sequence with chunks of prompts: a decode row is nearly free beside a chunk,
// whose weights are read anyway (docs/design/0007-scheduler.md has the measurement).
//
// Order of a step:
//   1. A row for every decoding sequence, longest admitted first. When blocks run out, the sequence admitted last gives up
//      its blocks and is recomputed later; its tokens are kept, so its answer does not change.
//   2. Chunks of prompts while the predicted time of the step stays within its budget: the largest that fits, in multiples
//      of 16 rows unless it ends the prompt or not even 16 fit. The first chunk is at least one row, so that a prompt always
//      goes on.
// Who gets a chunk:
//   tenants     the one that used the least compute so far, divided by its weight
//   priority    lower first, within a tenant
//   ageing      a prompt passed over in `most_skipped` steps goes first
//   buckets     prompts of similar estimated service time (powers of two) are served first come, first served; among the
//               buckets, the one whose first prompt has gone without rows longest in proportion to its service time. So short prompts
//               overtake long ones, and a long one's turn comes.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "models/step_cost.h"

namespace deepinfer::engine {

using Chunk = models::ChunkShape;

// Predicts how long steps take. The same chunks give the same answer until observe() was told of a new measurement.
class StepTimes {
  public:
    virtual ~StepTimes() = default;
    virtual double seconds(std::span<const Chunk> step) const = 0;
    virtual void observe(std::span<const Chunk> step, double seconds) = 0;
    // Of |predicted / taken - 1| over the latest observations: what a share `q` of them does not exceed.
    virtual double error_quantile(double /*q*/) const { return 0; }
};

struct SequenceView {
    int32_t tokens = 0;    // known so far, prompt and output, and the one that the step in flight will add
    int32_t computed = 0;  // of these, with keys and values in blocks once the step in flight is done
    int32_t blocks =
        0;  // held; of a waiting sequence: found in the prefix cache, with computed = all their tokens
    int32_t revived = 0;          // of a waiting sequence's: that come out of the free blocks when it starts
    bool held_back = false;       // of a waiting sequence: another one computes what it needs next
    int32_t freed_by_giving = 0;  // of these, not shared: what giving up would free
    bool in_flight = false;       // a step in flight uses the blocks: they are free after it
    bool pending = false;   // the last token is not known yet: only the next step can take it from this one
    bool complete = false;  // has its last token coming: nothing more to compute
    int32_t max_rows = std::numeric_limits<int32_t>::max();  // of a chunk
    bool all_logits = false;                                 // wants those of every row, not of the last only
    int32_t choices = 1;                                     // sequences that start from this prompt
    int32_t tenant = 0;                                      // index into PlanInput::tenants
    int32_t priority = 0;
    double waiting_since = 0;  // seconds: when rows of it were computed last, else the arrival
    double arrival = 0;        // seconds
    double service = 0;        // estimated seconds to compute what is left of the prompt, alone
    int32_t skipped = 0;       // steps with prompt rows in which this one could have had some and had none
};

struct TenantView {
    double used = 0;  // seconds of compute, divided by the weight
    double weight = 1;
};

struct SchedulerLimits {
    int32_t max_rows = 512;    // token rows of a step
    int32_t max_running = 64;  // sequences that hold blocks
    int32_t block_tokens = 64;
    double prefill_seconds = 0.2;  // budget of a step that nobody's next token waits for
    // But at least so many times what a single row takes: where reading the weights alone fills the budget, steps of few rows
    // would read them all the time.
    double prefill_slowdown = 0;
    double decode_seconds =
        0;  // budget of a step with decoding sequences; 0: decode_slowdown times what it would take
    double decode_slowdown = 2.5;  // without chunks
    int32_t most_skipped = 64;
    double shortest_service = 0.05;  // seconds; what is shorter shares a bucket
};

struct PlanInput {
    std::span<const SequenceView> running, waiting;  // running: oldest admission first
    std::span<const TenantView> tenants;
    int32_t free_blocks = 0;
    int32_t coming_blocks = 0;  // free once the step in flight is done
    double now = 0;             // seconds, of the same clock as SequenceView::arrival
};

struct Plan {
    struct Work {
        int32_t sequence = 0;  // index: running sequences first, then waiting ones
        int32_t rows = 0;
    };
    std::vector<Work> work;          // in batch order
    std::vector<int32_t> preempted;  // indices into running, youngest first
    std::vector<int32_t> admitted;   // indices into waiting, in the order of admission; they are in `work`
    std::vector<int32_t> skipped;    // as Work::sequence: could have had prompt rows and had none
    std::vector<double> used;        // TenantView::used with this step
    double budget = 0;               // seconds that the step was filled up to
    double predicted = 0;            // seconds that it will take
};

Plan plan(const PlanInput& input, const StepTimes& times, const SchedulerLimits& limits);

}  // namespace deepinfer::engine
