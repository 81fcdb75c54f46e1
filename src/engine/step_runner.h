// Computes steps: the model on a batch, then a token for each row that wants one. What is sampled in a step feeds the next
// one without passing through the scheduler.
//
// run() is called by one thread at a time; it owns the model, the threads and the sampler meanwhile. StepLane gives it a
// thread of its own, so that the engine plans and tells while it computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/trace.h"
#include "models/model.h"

namespace deepinfer::engine {

// Everything a step needs, copied from the sequences: they may change while it waits and computes.
struct StepInputs {
    struct Carried {
        int32_t row = 0, sample = 0;  // batch.tokens[row] is what sample `sample` of the step before drew
    };
    struct Sample {
        int32_t logits = 0;  // index into batch.logit_rows
        std::shared_ptr<const SamplingParams> params;
        TokenHistory* history = nullptr;  // gets the token that is drawn; outlives the step
        int64_t position = 0;             // of the token to be drawn
    };
    struct Score {
        int32_t logits = 0;  // index into batch.logit_rows
        TokenId token = -1;  // whose log-probability is wanted
        int32_t top = 0;     // and of how many most likely ones
    };
    struct Copy {
        kv::BlockId from = 0, to = 0;  // after the computation
    };
    uint64_t id = 0;  // consecutive
    models::Batch batch;
    std::vector<kv::BlockId> tables;  // what batch.sequences[].blocks point into
    std::vector<Carried> carried;
    std::vector<Sample> samples;
    std::vector<Score> scores;
    std::vector<Copy> copies;
    double predicted = 0;  // seconds
};

struct StepResult {
    uint64_t id = 0;
    std::vector<Result<SampledToken>> samples, scores;
    std::optional<Error> failure;     // of the whole step; then `samples` is empty
    bool skipped = false;             // not computed: nobody can want any of it
    std::vector<int32_t> not_finite;  // indices into batch.sequences: Model::not_finite()
    Clock::time_point begin, end;
};

class StepRunner {
  public:
    // All must outlive the object; `trace` may be null.
    StepRunner(models::Model& model, kv::BlockPool& blocks, ThreadPool& pool, kernels::Isa isa,
               std::vector<TokenId> end_of_generation, Trace* trace);
    StepResult run(StepInputs& inputs);
    const std::vector<TokenId>& end_of_generation() const { return end_of_generation_; }
    ThreadPool& pool() { return pool_; }

  private:
    bool take_carried(StepInputs& inputs);
    void compute(StepInputs& inputs, StepResult& result);
    float* row(int32_t logits) { return logits_.data() + static_cast<size_t>(logits) * vocabulary(); }
    size_t vocabulary() const { return static_cast<size_t>(model_.info().vocabulary); }
    Result<SampledToken> sample(const StepInputs& inputs, size_t index, size_t thread);

    models::Model& model_;
    kv::BlockPool& blocks_;
    ThreadPool& pool_;
    const std::vector<TokenId> end_of_generation_;
    Trace* trace_;
    std::vector<float> logits_;
    std::vector<Sampler> samplers_;             // one per pool thread
    std::vector<std::vector<float>> own_rows_;  // one per pool thread
    // Of the step before: what each sample drew, -1 for none, and whether it ended its sequence.
    struct Drawn {
        TokenId token = -1;
        bool ended = false;
    };
    std::vector<Drawn> drawn_;
};

// Whether this token ends a sequence with these parameters.
bool ends(TokenId token, const SamplingParams& params, const std::vector<TokenId>& end_of_generation);

// A thread that runs steps in order. At most two wait or compute at a time.
class StepLane {
  public:
    explicit StepLane(StepRunner& runner);
    ~StepLane();  // finishes what it was given
    void start(StepInputs inputs);
    // The result of the oldest step that was started; waits for it, at most until `until` if given.
    std::optional<StepResult> wait(std::optional<Clock::time_point> until = {});

  private:
    void run();

    StepRunner& runner_;
    std::mutex mutex_;  // over the queues; not held while computing
    std::condition_variable changed_;
    std::deque<StepInputs> waiting_;
    std::deque<StepResult> done_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace deepinfer::engine
