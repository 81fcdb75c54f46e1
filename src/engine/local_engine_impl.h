// LocalEngine's state, for the two files that implement it: local_engine.cpp (requests in, results out) and
// local_engine_steps.cpp (what the next step is made of).
#pragma once

#include <deque>
#include <thread>

#include "engine/local_engine.h"
#include "engine/mailbox.h"
#include "engine/prefix_sharing.h"
#include "engine/seconds.h"
#include "engine/sequence.h"
#include "engine/step_runner.h"
#include "engine/stored_prefixes.h"
#include "engine/tenants.h"
#include "engine/throughput.h"

namespace deepinfer::engine {

class LocalEngine final : public Engine {
  public:
    LocalEngine(models::Model& model, kv::BlockPool& blocks, ThreadPool& pool, const EngineOptions& options,
                std::unique_ptr<StepTimes> times, std::shared_ptr<Trace> trace, Stores stores);
    ~LocalEngine() override {
        mailbox_.stop();
        thread_.join();
    }

    Result<RequestId> submit(Request request, Listener listener) override;
    void cancel(RequestId id) override { mailbox_.cancel(id, -1); }
    void cancel(RequestId id, int32_t choice) override { mailbox_.cancel(id, choice); }
    void cancel_all() override { mailbox_.cancel_all(); }
    EngineStats stats() const override {
        EngineStats result = mailbox_.stats();
        result.tiers = stored_.tiers(result);
        return result;
    }
    int32_t context_length() const override { return context_length_; }
    int32_t vocabulary_size() const override { return model_.info().vocabulary; }

  private:
    // A step that was started: who has rows and samples in it.
    struct Flight {
        struct Rows {
            SequencePtr sequence;
            Chunk chunk;
            int32_t scores = 0;
        };
        uint64_t id = 0;
        std::vector<Rows> rows;
        std::vector<SequencePtr> samples;
        double predicted = 0;
        Clock::time_point expected_end;
    };
    struct Ended {
        std::shared_ptr<const Listener> listener;
        int32_t choice;
        Finish finish;
    };
    // Blocks that the steps in flight still use.
    struct Retired {
        uint64_t last_step;
        std::vector<kv::BlockId> blocks;
    };

    void run();
    void receive(Clock::time_point until);
    [[maybe_unused]] bool nothing_held() const;
    bool plan_step();
    void start(const SequencePtr& sequence);
    SequenceView view(const Sequence& s) const;
    SequenceView waiting_view(const Sequence& s) const;
    Plan decide();
    void build(const Plan& decision, std::span<const SequencePtr> chosen, StepInputs& inputs, Flight& flight);
    void fork(const SequencePtr& parent, int32_t logits, StepInputs& inputs, Flight& flight);
    void sample(const SequencePtr& s, int32_t logits, StepInputs& inputs, Flight& flight);
    Clock::time_point latest_planning() const;
    StepResult wait_for_step();
    void process(StepResult result);
    void measure(const Flight& flight, const StepResult& result);
    void publish(Sequence& s, int32_t computed);
    void deliver(Sequence& s, const Result<SampledToken>& sampled);
    void finish(Sequence& s, FinishReason reason, TokenId stop_token = -1, Error error = {});
    void drop_over();
    static bool is_cancelled(Sequence& s, const Mailbox::Orders& orders);
    void end_not_finite(const Flight& flight, const StepResult& result);
    void end_overdue_and_cancelled(const Mailbox::Orders& orders);
    void allocate_blocks(Sequence& s, int32_t tokens);
    kv::BlockId allocate_block();
    void retire(const Sequence& s, std::vector<kv::BlockId> blocks);
    void release_blocks(Sequence& s);
    void reclaim();
    void estimate(Sequence& s);
    double estimated_wait() const;
    void tell();

    models::Model& model_;
    kv::BlockPool& blocks_;
    const EngineOptions options_;
    int32_t context_length_ = 0;
    std::unique_ptr<StepTimes> times_;
    std::shared_ptr<Trace> trace_;
    StepRunner runner_;
    Mailbox mailbox_;

    // Owned by the engine thread.
    std::vector<SequencePtr> running_;  // oldest admission first
    std::deque<SequencePtr> waiting_;
    std::deque<Flight> flights_;  // at most two
    std::vector<Retired> retired_;
    std::vector<Ended> ended_;  // to be told
    EngineStats counters_;
    PrefixSharing prefixes_;
    StoredPrefixes stored_;
    Tenants tenants_;
    uint64_t next_step_ = 1, done_step_ = 0;
    Throughput throughput_;
    std::deque<StepResult> inline_results_;  // of steps computed by the engine thread itself
    std::unique_ptr<StepLane> lane_;         // if async
    std::thread thread_;
};

}  // namespace deepinfer::engine
