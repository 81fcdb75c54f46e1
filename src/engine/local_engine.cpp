#include "engine/local_engine.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <deque>
#include <utility>

#include "base/start_thread.h"
#include "engine/mailbox.h"
#include "engine/prompt_scores.h"
#include "engine/request_check.h"
#include "engine/sequence.h"
#include "engine/step_runner.h"
#include "engine/tenants.h"

namespace deepinfer::engine {

namespace {

constexpr double averaging_seconds = 5;
constexpr auto planning_margin = std::chrono::milliseconds(1);

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }
Clock::duration duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Without a model of the time every step takes none.
class NoTimes final : public StepTimes {
  public:
    double seconds(std::span<const Chunk>) const override { return 0; }
    void observe(std::span<const Chunk>, double) override {}
};

class LocalEngine final : public Engine {
  public:
    LocalEngine(models::Model& model, kv::BlockPool& blocks, ThreadPool& pool, const EngineOptions& options,
                std::unique_ptr<StepTimes> times, std::shared_ptr<Trace> trace);
    ~LocalEngine() override {
        mailbox_.stop();
        thread_.join();
    }

    Result<RequestId> submit(Request request, Listener listener) override;
    void cancel(RequestId id) override { mailbox_.cancel(id, -1); }
    void cancel(RequestId id, int32_t choice) override { mailbox_.cancel(id, choice); }
    void cancel_all() override { mailbox_.cancel_all(); }
    EngineStats stats() const override { return mailbox_.stats(); }
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
    void receive(bool wait);
    bool plan_step();
    SequenceView view(const Sequence& s) const;
    Plan decide();
    void build(const Plan& decision, std::span<const SequencePtr> chosen, StepInputs& inputs, Flight& flight);
    void fork(const SequencePtr& parent, int32_t logits, StepInputs& inputs, Flight& flight);
    void sample(const SequencePtr& s, int32_t logits, StepInputs& inputs, Flight& flight);
    Clock::time_point latest_planning() const;
    StepResult wait_for_step();
    void process(StepResult result);
    void measure(const Flight& flight, const StepResult& result);
    void deliver(Sequence& s, const Result<SampledToken>& sampled);
    void finish(Sequence& s, FinishReason reason, TokenId stop_token = -1, Error error = {});
    void drop_over();
    void count_finish();
    void end_overdue_and_cancelled(const Mailbox::Orders& orders);
    void allocate_blocks(Sequence& s, int32_t tokens);
    kv::BlockId allocate_block();
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
    Tenants tenants_;
    EngineStats counters_;
    uint64_t next_step_ = 1, done_step_ = 0;
    double prefill_share_ = 1;  // of the time, seconds of estimated service done per second; moving average
    double finished_per_second_ = 0;  // moving average
    Clock::time_point last_end_{}, last_finish_{};
    std::deque<StepResult> inline_results_;  // of steps computed by the engine thread itself
    std::unique_ptr<StepLane> lane_;         // if async
    std::thread thread_;
};

LocalEngine::LocalEngine(models::Model& model, kv::BlockPool& blocks, ThreadPool& pool,
                         const EngineOptions& options, std::unique_ptr<StepTimes> times,
                         std::shared_ptr<Trace> trace)
    : model_(model),
      blocks_(blocks),
      options_([&] {
          EngineOptions o = options;
          o.limits.max_rows = std::max(o.limits.max_rows, o.limits.max_running);
          o.limits.block_tokens = kv::block_tokens;
          return o;
      }()),
      times_(times ? std::move(times) : std::make_unique<NoTimes>()),
      trace_(std::move(trace)),
      runner_(model, blocks, pool, options.isa, options.end_of_generation, trace_.get()),
      mailbox_(options.max_waiting + options.limits.max_running, options.max_wait_seconds),
      tenants_(options.tenant_weights) {
    const int64_t pool_tokens = int64_t{blocks.total()} * kv::block_tokens;
    const int32_t wanted = options.context_length > 0 ? options.context_length : model.info().context_length;
    context_length_ = static_cast<int32_t>(std::min<int64_t>(wanted, pool_tokens));
    tell();
    if (options_.async) lane_ = std::make_unique<StepLane>(runner_);
    thread_ = std::thread([this] { run(); });
}

Result<RequestId> LocalEngine::submit(Request request, Listener listener) {
    const RequestLimits limits{model_.info().vocabulary, context_length_, options_.limits.max_running,
                               blocks_.total()};
    if (Status status = check(request, limits); !status) return status.error();
    return mailbox_.submit(std::move(request), std::move(listener));
}

void LocalEngine::run() {
    std::optional<ThreadPool::PinnedCaller> pinned;
    if (!lane_) pinned.emplace(runner_.pool());
    for (;;) {
        const bool idle = running_.empty() && waiting_.empty() && flights_.empty();
        assert(!idle || blocks_.free() == blocks_.total());  // nothing runs, so nothing may hold a block
        // Who comes while a step is computed may still join the next: it is planned as late as is safe.
        if (flights_.size() == 1 && lane_)
            if (auto result = lane_->wait(latest_planning())) process(std::move(*result));
        receive(idle);
        if (mailbox_.stopping()) break;
        const bool started = flights_.size() < (lane_ ? 2u : 1u) && plan_step();
        if (!flights_.empty() && (!started || flights_.size() > 1 || !lane_)) process(wait_for_step());
        tell();
    }
    while (!flights_.empty()) process(wait_for_step());
    for (const SequencePtr& s : running_) finish(*s, FinishReason::cancelled);
    for (const SequencePtr& s : waiting_) finish(*s, FinishReason::cancelled);
    running_.clear();
    waiting_.clear();
    tell();
}

// When the next step must be planned to be there in time, by the prediction for the one that is computed.
Clock::time_point LocalEngine::latest_planning() const {
    const Flight& flight = flights_.front();
    return flight.expected_end -
           std::max<Clock::duration>(planning_margin, duration(0.15 * flight.predicted));
}

// Takes over what other threads sent.
void LocalEngine::receive(bool wait) {
    Mailbox::Orders orders = mailbox_.take(wait);
    for (Mailbox::Arrival& arrival : orders.arrived) {
        auto s = std::make_shared<Sequence>();
        Request& request = arrival.request;
        s->id = arrival.id;
        s->listener = std::make_shared<const Listener>(std::move(arrival.listener));
        s->sampling = std::make_shared<const SamplingParams>(std::move(request.sampling));
        s->choices = request.choices;
        s->tenant = tenants_.enter(request.tenant);
        s->priority = request.priority;
        s->arrival = s->waiting_since = arrival.time;
        s->deadline = request.deadline;
        s->tokens = std::move(request.prompt);
        s->history = TokenHistory(*s->sampling, s->tokens, model_.info().vocabulary);
        s->prompt_tokens = s->known();
        estimate(*s);
        waiting_.push_back(std::move(s));
    }
    end_overdue_and_cancelled(orders);
}

void LocalEngine::end_overdue_and_cancelled(const Mailbox::Orders& orders) {
    const Clock::time_point now = Clock::now();
    const auto end = [&](const SequencePtr& s) {
        if (orders.cancels(s->id, s->choice, s->choices == 1)) return finish(*s, FinishReason::cancelled);
        if (s->deadline && now >= *s->deadline)
            finish(*s, FinishReason::error, -1,
                   Error{ErrorCode::deadline_exceeded,
                         "the request was not done by its deadline: " + std::to_string(s->generated()) +
                             " tokens of the answer were computed"});
    };
    std::for_each(running_.begin(), running_.end(), end);
    std::for_each(waiting_.begin(), waiting_.end(), end);
    drop_over();
}

SequenceView LocalEngine::view(const Sequence& s) const {
    SequenceView v;
    v.tokens = s.length();
    v.computed = s.computed;
    v.blocks = static_cast<int32_t>(s.blocks.size());
    for (kv::BlockId block : s.blocks) v.freed_by_giving += blocks_.references(block) == 1;
    v.in_flight = s.last_step > done_step_;
    v.pending = s.pending > 0;
    v.complete = s.generated() + s.pending >= s.sampling->max_tokens || s.length() >= context_length_;
    v.choices = s.choices;
    v.all_logits = wants_scores(s);
    if (v.all_logits) v.max_rows = most_scored_rows;
    v.tenant = s.tenant;
    v.priority = s.priority;
    v.arrival = seconds(s.arrival.time_since_epoch());
    v.waiting_since = seconds(s.waiting_since.time_since_epoch());
    v.service = s.service;
    v.skipped = s.skipped;
    return v;
}

Plan LocalEngine::decide() {
    std::vector<SequenceView> running, waiting;
    for (const SequencePtr& s : running_) running.push_back(view(*s));
    for (const SequencePtr& s : waiting_) waiting.push_back(view(*s));
    PlanInput input;
    input.running = running;
    input.waiting = waiting;
    input.tenants = tenants_.views();
    input.free_blocks = blocks_.free();
    for (const Retired& r : retired_)
        for (kv::BlockId block : r.blocks) input.coming_blocks += blocks_.references(block) == 1;
    input.now = seconds(Clock::now().time_since_epoch());
    return plan(input, *times_, options_.limits);
}

// Plans a step and starts it. False if there is nothing to compute now.
bool LocalEngine::plan_step() {
    const Clock::time_point begin = Clock::now();
    const Plan decision = decide();
    for (int32_t index : decision.preempted) {  // youngest first, so that the queue keeps their order
        SequencePtr& s = running_[static_cast<size_t>(index)];
        release_blocks(*s);
        estimate(*s);
        ++counters_.preemptions_total;
        waiting_.push_front(s);
    }
    // `waiting_` has got as many in front as were preempted.
    const auto at = [&](int32_t index) -> SequencePtr& {
        const auto i = static_cast<size_t>(index), n = running_.size();
        return i < n ? running_[i] : waiting_[i - n + decision.preempted.size()];
    };
    for (int32_t index : decision.skipped) ++at(index)->skipped;
    std::vector<SequencePtr> chosen;
    for (const Plan::Work& work : decision.work) chosen.push_back(at(work.sequence));
    std::vector<SequencePtr> admitted;
    for (int32_t index : decision.admitted)
        admitted.push_back(at(index + static_cast<int32_t>(running_.size())));
    for (const SequencePtr& s : admitted) std::erase(waiting_, s);
    for (int32_t index : decision.preempted) running_[static_cast<size_t>(index)] = nullptr;
    std::erase(running_, nullptr);
    for (const SequencePtr& s : admitted) {
        allocate_blocks(*s, s->length() + 1);
        for (int32_t i = 1; i < s->choices; ++i) s->tails.push_back(allocate_block());
        running_.push_back(s);
    }
    if (decision.work.empty()) return false;
    tenants_.set_used(decision.used);

    StepInputs inputs;
    Flight flight;
    flight.id = inputs.id = next_step_++;
    flight.predicted = inputs.predicted = decision.predicted;
    build(decision, chosen, inputs, flight);
    const Clock::time_point now = Clock::now();
    const Clock::time_point start = flights_.empty() ? now : std::max(now, flights_.back().expected_end);
    flight.expected_end = start + duration(decision.predicted);
    if (trace_)
        trace_->add({"plan", Trace::Lane::engine, begin, now, flight.id,
                     static_cast<int32_t>(inputs.batch.tokens.size()), static_cast<int32_t>(chosen.size()),
                     decision.predicted});
    flights_.push_back(std::move(flight));
    if (lane_)
        lane_->start(std::move(inputs));
    else
        inline_results_.push_back(runner_.run(inputs));
    return true;
}

void LocalEngine::build(const Plan& decision, std::span<const SequencePtr> chosen, StepInputs& inputs,
                        Flight& flight) {
    models::Batch& batch = inputs.batch;
    size_t tables = 0;
    for (size_t i = 0; i < chosen.size(); ++i) {
        allocate_blocks(*chosen[i], chosen[i]->computed + decision.work[i].rows);
        tables += chosen[i]->blocks.size();
    }
    const Clock::time_point now = Clock::now();
    inputs.tables.reserve(tables);  // spans into it must stay valid
    for (size_t i = 0; i < chosen.size(); ++i) {
        const SequencePtr& s = chosen[i];
        const int32_t rows = decision.work[i].rows, first = static_cast<int32_t>(batch.tokens.size()),
                      end = s->computed + rows, known = std::min(end, s->known());
        batch.tokens.insert(batch.tokens.end(), s->tokens.begin() + s->computed, s->tokens.begin() + known);
        if (known < end) {
            assert(end - known == 1 && s->last_step + 1 == inputs.id);
            inputs.carried.push_back({static_cast<int32_t>(batch.tokens.size()), s->last_sample});
            batch.tokens.push_back(0);
        }
        const size_t table = inputs.tables.size();
        inputs.tables.insert(inputs.tables.end(), s->blocks.begin(), s->blocks.end());
        batch.sequences.push_back(
            {first, rows, s->computed, std::span(inputs.tables).subspan(table, s->blocks.size())});
        const int32_t scores = add_scores(*s, first, rows, inputs);
        flight.rows.push_back({s, {rows, s->computed, scores + (end == s->length() ? 1 : 0)}, scores});
        s->computed = end;
        s->last_step = inputs.id;
        s->last_sample = -1;
        s->skipped = 0;
        s->waiting_since = now;
        if (!s->started) s->started = now;
        if (end < s->length()) {
            estimate(*s);
            continue;
        }
        const auto logits = static_cast<int32_t>(batch.logit_rows.size());
        batch.logit_rows.push_back(first + rows - 1);
        sample(s, logits, inputs, flight);
        if (s->choices > 1) fork(s, logits, inputs, flight);
    }
}

void LocalEngine::sample(const SequencePtr& s, int32_t logits, StepInputs& inputs, Flight& flight) {
    s->last_sample = static_cast<int32_t>(inputs.samples.size());
    inputs.samples.push_back({logits, s->sampling, &s->history, int64_t{s->length()}});
    ++s->pending;
    flight.samples.push_back(s);
}

// The other choices start from the blocks of the first: full ones are shared, the last one is copied.
void LocalEngine::fork(const SequencePtr& parent, int32_t logits, StepInputs& inputs, Flight& flight) {
    const int32_t full = parent->computed / kv::block_tokens;
    for (int32_t choice = 1; choice < parent->choices; ++choice) {
        auto s = std::make_shared<Sequence>(*parent);
        SamplingParams sampling = *parent->sampling;
        sampling.seed = choice_seed(sampling.seed, choice);
        s->sampling = std::make_shared<const SamplingParams>(std::move(sampling));
        s->choice = choice;
        s->choices = 1;
        s->pending = 0;
        s->counted = s->prompt_tokens;
        s->scores_told = true;  // the parent tells
        s->scores.clear();
        s->blocks.resize(static_cast<size_t>(full));
        for (kv::BlockId block : s->blocks) blocks_.retain(block);
        s->tails.clear();
        s->blocks.push_back(parent->tails[static_cast<size_t>(choice) - 1]);
        if (parent->computed % kv::block_tokens != 0)
            inputs.copies.push_back({parent->blocks[static_cast<size_t>(full)], s->blocks.back()});
        tenants_.retain(s->tenant);
        sample(s, logits, inputs, flight);
        running_.push_back(std::move(s));
    }
    parent->choices = 1;
    parent->tails.clear();
}

StepResult LocalEngine::wait_for_step() {
    if (lane_) return std::move(*lane_->wait());
    StepResult result = std::move(inline_results_.front());
    inline_results_.pop_front();
    return result;
}

void LocalEngine::process(StepResult result) {
    const Clock::time_point begin = Clock::now();
    const Flight flight = std::move(flights_.front());
    flights_.pop_front();
    assert(flight.id == result.id);
    done_step_ = result.id;
    if (!result.skipped && !result.failure) measure(flight, result);
    std::span<Result<SampledToken>> scores(result.scores);
    for (const auto& [s, chunk, scored] : flight.rows) {
        const int32_t computed = std::max(chunk.position, s->counted),
                      prompt_rows =
                          std::clamp(s->prompt_tokens - computed, 0, chunk.position + chunk.rows - computed);
        s->counted += prompt_rows;
        counters_.prompt_tokens_total += static_cast<uint64_t>(prompt_rows);
        if (s->over && !result.skipped) counters_.wasted_rows_total += static_cast<uint64_t>(chunk.rows);
        if (result.failure) finish(*s, FinishReason::error, -1, *result.failure);
        if (result.failure || result.skipped) continue;
        if (Status status = take_scores(*s, scores.first(static_cast<size_t>(scored))); !status)
            finish(*s, FinishReason::error, -1, status.error());
        scores = scores.subspan(static_cast<size_t>(scored));
    }
    for (size_t i = 0; i < flight.samples.size(); ++i) {
        Sequence& s = *flight.samples[i];
        --s.pending;
        if (s.over) continue;
        if (result.failure)
            finish(s, FinishReason::error, -1, *result.failure);
        else if (!result.skipped)
            deliver(s, result.samples[i]);
    }
    drop_over();
    reclaim();
    if (trace_)
        trace_->add({"process", Trace::Lane::engine, begin, Clock::now(), flight.id, 0,
                     static_cast<int32_t>(flight.samples.size()), 0});
}

// Counts a step that was computed, and teaches the cost model.
void LocalEngine::measure(const Flight& flight, const StepResult& result) {
    std::vector<Chunk> chunks;
    int32_t rows = 0;
    double service = 0;
    bool prompts = false;
    for (const Flight::Rows& r : flight.rows) {
        chunks.push_back(r.chunk);
        rows += r.chunk.rows;
        if (r.chunk.rows > 1) service += times_->seconds({&r.chunk, 1}), prompts = true;
    }
    const double took = seconds(result.end - result.begin);
    times_->observe(chunks, took);
    counters_.prediction_error_median = times_->error_quantile(0.5);
    counters_.prediction_error_p90 = times_->error_quantile(0.9);
    ++counters_.steps_total;
    const auto bound = std::lower_bound(step_row_bounds.begin(), step_row_bounds.end(), rows);
    ++counters_.step_rows[static_cast<size_t>(bound - step_row_bounds.begin())];
    counters_.step_rows_total += static_cast<uint64_t>(rows);
    counters_.predicted_seconds_total += flight.predicted;
    (prompts ? counters_.prompt_step_seconds_total : counters_.decode_step_seconds_total) += took;
    const double passed = seconds(result.end - std::max(result.begin, last_end_)),
                 keep = std::exp(-passed / averaging_seconds);
    last_end_ = result.end;
    if (prompts && took > 0)
        prefill_share_ = keep * prefill_share_ + (1 - keep) * std::min(1.0, service / took);
}

void LocalEngine::deliver(Sequence& s, const Result<SampledToken>& sampled) {
    if (!sampled) return finish(s, FinishReason::error, -1, sampled.error());
    const TokenId token = sampled->token;
    if (!s.first_token) s.first_token = Clock::now();
    s.tokens.push_back(token);
    ++counters_.generated_tokens_total;
    if (ends(token, *s.sampling, runner_.end_of_generation())) return finish(s, FinishReason::stop, token);
    s.listener->on_token(s.choice, *sampled);
    if (s.generated() >= s.sampling->max_tokens || s.known() >= context_length_)
        finish(s, FinishReason::length);
}

// tell() will tell the listener; drop_over() takes the sequence out of its queue.
void LocalEngine::finish(Sequence& s, FinishReason reason, TokenId stop_token, Error error) {
    if (s.over) return;
    s.over = true;
    release_blocks(s);
    tenants_.leave(s.tenant);
    count_finish();
    (reason == FinishReason::stop        ? counters_.finished_stop_total
     : reason == FinishReason::length    ? counters_.finished_length_total
     : reason == FinishReason::cancelled ? counters_.cancelled_total
                                         : counters_.failed_total)++;
    Finish end;
    end.reason = reason;
    end.stop_token = stop_token;
    end.prompt_tokens = s.prompt_tokens;
    end.completion_tokens = s.generated();
    end.error = std::move(error);
    const Clock::time_point now = Clock::now();
    const Clock::time_point started = s.started.value_or(now), first_token = s.first_token.value_or(now);
    end.queued = seconds(started - s.arrival);
    end.prefill = seconds(first_token - started);
    end.decode = seconds(now - first_token);
    // A request that ends before its choices began ends for all of them.
    for (int32_t choice = s.choice; choice < s.choice + s.choices; ++choice)
        ended_.push_back({s.listener, choice, end});
}

void LocalEngine::drop_over() {
    const auto over = [](const SequencePtr& s) { return s->over; };
    std::erase_if(running_, over);
    std::erase_if(waiting_, over);
}

void LocalEngine::count_finish() {
    const Clock::time_point now = Clock::now();
    if (last_finish_ != Clock::time_point{}) {
        const double gap = std::max(seconds(now - last_finish_), 1e-6),
                     keep = std::exp(-gap / averaging_seconds);
        finished_per_second_ = keep * finished_per_second_ + (1 - keep) / gap;
    }
    last_finish_ = now;
}

void LocalEngine::allocate_blocks(Sequence& s, int32_t tokens) {
    const auto wanted = static_cast<size_t>(kv::blocks_for(tokens));
    while (s.blocks.size() < wanted) s.blocks.push_back(allocate_block());
}

kv::BlockId LocalEngine::allocate_block() {
    const kv::BlockId block = blocks_.allocate();
    assert(block >= 0);  // the plan counted
    return block;
}

// Gives back the blocks once no step in flight uses them.
void LocalEngine::release_blocks(Sequence& s) {
    s.blocks.insert(s.blocks.end(), s.tails.begin(), s.tails.end());
    s.tails.clear();
    if (s.last_step > done_step_)
        retired_.push_back({s.last_step, std::move(s.blocks)});
    else
        for (kv::BlockId block : s.blocks) blocks_.release(block);
    s.blocks.clear();
    s.computed = 0;
}

void LocalEngine::reclaim() {
    std::erase_if(retired_, [this](const Retired& r) {
        if (r.last_step > done_step_) return false;
        for (kv::BlockId block : r.blocks) blocks_.release(block);
        return true;
    });
}

// How long the rest of the prompt would take alone.
void LocalEngine::estimate(Sequence& s) {
    const Chunk rest{s.length() - s.computed, s.computed, 1};
    s.service = times_->seconds({&rest, 1});
}

// Seconds until a request that came now would start: the prompts before it, at the speed at which prompts are computed
// beside the decoding; if there is no place to run, the time until enough have ended.
double LocalEngine::estimated_wait() const {
    double work = 0;
    int32_t sequences = 0;
    for (const SequencePtr& s : waiting_) work += s->service, sequences += s->choices;
    for (const SequencePtr& s : running_)
        if (s->computed < s->prompt_tokens) work += s->service;
    const double prompts = work / std::max(prefill_share_, 0.02);
    const auto running = static_cast<int32_t>(running_.size());
    const int32_t over = running + sequences + 1 - options_.limits.max_running;
    return over > 0 && finished_per_second_ > 0 ? std::max(prompts, over / finished_per_second_) : prompts;
}

// Shows the counters, then tells who has come to an end.
void LocalEngine::tell() {
    counters_.running = static_cast<int32_t>(running_.size());
    counters_.waiting = 0;
    for (const SequencePtr& s : waiting_) counters_.waiting += s->choices;
    counters_.blocks_total = blocks_.total();
    counters_.blocks_free = blocks_.free();
    counters_.estimated_wait = estimated_wait();
    mailbox_.publish(counters_, finished_per_second_ > 0 ? 1 / finished_per_second_ : 0);
    for (const Ended& e : std::exchange(ended_, {})) e.listener->on_finish(e.choice, e.finish);
}

}  // namespace

Result<std::unique_ptr<Engine>> make_local_engine(models::Model& model, kv::BlockPool& blocks,
                                                  ThreadPool& pool, const EngineOptions& options,
                                                  std::unique_ptr<StepTimes> times,
                                                  std::shared_ptr<Trace> trace) {
    try {
        return std::unique_ptr<Engine>(
            new LocalEngine(model, blocks, pool, options, std::move(times), std::move(trace)));
    } catch (const std::system_error& error) {
        return thread_error("of the engine", 0, options.async ? 2 : 1, error);
    }
}

}  // namespace deepinfer::engine
