#include "engine/local_engine.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/start_thread.h"
#include "engine/local_engine_impl.h"
#include "engine/prompt_scores.h"
#include "engine/request_check.h"

namespace deepinfer::engine {

namespace {

constexpr auto planning_margin = std::chrono::milliseconds(1);
constexpr auto longest_sleep = std::chrono::milliseconds(10);  // deadlines may pass

// Without a model of the time every step takes none.
class NoTimes final : public StepTimes {
  public:
    double seconds(std::span<const Chunk>) const override { return 0; }
    void observe(std::span<const Chunk>, double) override {}
};

}  // namespace

LocalEngine::LocalEngine(models::Model& model, kv::BlockPool& blocks, ThreadPool& pool,
                         const EngineOptions& options, std::unique_ptr<StepTimes> times,
                         std::shared_ptr<Trace> trace, Stores stores)
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
      prefixes_(blocks, *times_, options.fingerprint, options.prefix_cache),
      stored_(prefixes_.cache(), blocks, *times_, counters_, std::move(stores), [this] { mailbox_.wake(); }),
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
    bool started = true;
    for (;;) {
        const bool idle = running_.empty() && waiting_.empty() && flights_.empty();
        assert(!idle || nothing_held());
        // Who comes while a step is computed may still join the next: it is planned as late as is safe.
        if (flights_.size() == 1 && lane_)
            if (auto result = lane_->wait(latest_planning())) process(std::move(*result));
        // All wait for stores: they wake this thread.
        const bool stuck = !started && flights_.empty();
        receive(idle    ? Clock::time_point::max()
                : stuck ? Clock::now() + longest_sleep
                        : Clock::time_point::min());
        if (mailbox_.stopping()) break;
        started = flights_.size() < (lane_ ? 2u : 1u) && plan_step();
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

// Nothing runs, so nothing may hold a block but what is being written.
bool LocalEngine::nothing_held() const { return !stored_.idle() || prefixes_.available() == blocks_.total(); }

// When the next step must be planned to be there in time, by the prediction for the one that is computed.
Clock::time_point LocalEngine::latest_planning() const {
    const Flight& flight = flights_.front();
    return flight.expected_end -
           std::max<Clock::duration>(planning_margin, duration(0.15 * flight.predicted));
}

// Takes over what other threads sent.
void LocalEngine::receive(Clock::time_point until) {
    Mailbox::Orders orders = mailbox_.take(until);
    stored_.receive();
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
        s->retention = request.retention;
        s->tenant_hash = kv::BlockKeyHash()(kv::Fingerprint().add("tenant", request.tenant).digest());
        prefixes_.enter(*s, options_.share_between_tenants ? "" : request.tenant, request.cache_salt);
        estimate(*s);
        waiting_.push_back(std::move(s));
    }
    end_overdue_and_cancelled(orders);
}

// Whether all choices that the sequence stands for are cancelled. Those that have not started yet are remembered: they end when
// they do, or all together.
bool LocalEngine::is_cancelled(Sequence& s, const Mailbox::Orders& orders) {
    const auto of_it = [&](int32_t choice) { return choice >= s.choice && choice < s.choice + s.choices; };
    for (const Mailbox::Cancel& cancel : orders.cancelled)
        if (cancel.id == s.id && of_it(cancel.choice) && std::ranges::count(s.cancelled, cancel.choice) == 0)
            s.cancelled.push_back(cancel.choice);
    return orders.cancels(s.id) || std::ranges::count_if(s.cancelled, of_it) == s.choices;
}

void LocalEngine::end_overdue_and_cancelled(const Mailbox::Orders& orders) {
    const Clock::time_point now = Clock::now();
    const auto end = [&](const SequencePtr& s) {
        if (is_cancelled(*s, orders)) return finish(*s, FinishReason::cancelled);
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
    end_not_finite(flight, result);
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
        if (!s->blocks.empty()) publish(*s, chunk.position + chunk.rows);  // else it ended, or gave way
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

// Before anything of theirs is published. A prompt is that of all choices, some of which a later step in flight may have started.
void LocalEngine::end_not_finite(const Flight& flight, const StepResult& result) {
    for (const int32_t index : result.not_finite) {
        const Error error{
            ErrorCode::internal,
            "the model's keys or values are not finite, or too large for the type they are stored in"};
        const Flight::Rows& bad = flight.rows[static_cast<size_t>(index)];
        finish(*bad.sequence, FinishReason::error, -1, error);
        if (bad.chunk.position >= bad.sequence->prompt_tokens) continue;
        const auto end_twin = [&](const SequencePtr& s) {
            if (s->id == bad.sequence->id) finish(*s, FinishReason::error, -1, error);
        };
        std::ranges::for_each(running_, end_twin);
        std::ranges::for_each(waiting_, end_twin);
    }
}

void LocalEngine::publish(Sequence& s, int32_t computed) {
    PrefixSharing::Published published = prefixes_.publish(s, computed);
    retire(s, std::move(published.replaced));
    for (const PrefixSharing::Entered& block : published.entered)
        stored_.offer(s, block.index, block.seconds);
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
        // The last token of a prompt is a row like those of answers.
        if (r.chunk.position >= r.sequence->prompt_tokens - 1) continue;
        service += times_->seconds({&r.chunk, 1});
        prompts = true;
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
    throughput_.step(result.begin, result.end, service);
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
    stored_.give_up(s);
    release_blocks(s);
    tenants_.leave(s.tenant);
    throughput_.request_ended(Clock::now());
    (reason == FinishReason::stop        ? counters_.finished_stop_total
     : reason == FinishReason::length    ? counters_.finished_length_total
     : reason == FinishReason::cancelled ? counters_.cancelled_total
                                         : counters_.failed_total) +=
        static_cast<uint64_t>(s.choices);  // one that ends before its choices began ends for all of them
    Finish end;
    end.reason = reason;
    end.stop_token = stop_token;
    end.prompt_tokens = s.prompt_tokens;
    end.cached_tokens = s.cached_tokens;
    if (s.cached_tokens > 0) end.loaded_tokens = s.loaded_tokens;  // else it never began
    end.misses = s.misses;
    end.completion_tokens = s.generated();
    end.error = std::move(error);
    const Clock::time_point now = Clock::now();
    const Clock::time_point started = s.started.value_or(now), first_token = s.first_token.value_or(now);
    end.queued = seconds(started - s.arrival);
    end.prefill = seconds(first_token - started);
    end.decode = seconds(now - first_token);
    for (int32_t choice = s.choice; choice < s.choice + s.choices; ++choice)
        ended_.push_back({s.listener, choice, end});
}

void LocalEngine::drop_over() {
    const auto over = [](const SequencePtr& s) { return s->over; };
    std::erase_if(running_, over);
    std::erase_if(waiting_, over);
}

void LocalEngine::allocate_blocks(Sequence& s, int32_t tokens) {
    const auto wanted = static_cast<size_t>(kv::blocks_for(tokens));
    while (s.blocks.size() < wanted) s.blocks.push_back(allocate_block());
}

kv::BlockId LocalEngine::allocate_block() {
    const kv::BlockId block = prefixes_.allocate();
    assert(block >= 0);  // the plan counted
    return block;
}

// Gives back blocks of a sequence once no step in flight uses them.
void LocalEngine::retire(const Sequence& s, std::vector<kv::BlockId> blocks) {
    if (blocks.empty()) return;
    if (s.last_step > done_step_)
        retired_.push_back({s.last_step, std::move(blocks)});
    else
        for (kv::BlockId block : blocks) blocks_.release(block);
}

void LocalEngine::release_blocks(Sequence& s) {
    prefixes_.leave(s);
    s.blocks.insert(s.blocks.end(), s.tails.begin(), s.tails.end());
    s.tails.clear();
    retire(s, std::exchange(s.blocks, {}));
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
    const int32_t computed = std::max(s.computed, s.found * kv::block_tokens);
    const Chunk rest{s.length() - computed, computed, 1};
    s.service = times_->seconds({&rest, 1});
}

// Seconds until a request that came now would start: the prompts before it; if there is no place to run, the time until
// enough have ended.
double LocalEngine::estimated_wait() const {
    double work = 0;
    int32_t sequences = 0;
    for (const SequencePtr& s : waiting_) work += s->service, sequences += s->choices;
    for (const SequencePtr& s : running_)
        if (s->computed < s->prompt_tokens) work += s->service;
    const auto running = static_cast<int32_t>(running_.size());
    return throughput_.wait(work, running + sequences + 1 - options_.limits.max_running);
}

// Shows the counters, then tells who has come to an end.
void LocalEngine::tell() {
    counters_.running = static_cast<int32_t>(running_.size());
    counters_.waiting = 0;
    for (const SequencePtr& s : waiting_) counters_.waiting += s->choices;
    counters_.blocks_total = blocks_.total();
    counters_.blocks_free = prefixes_.available();
    counters_.blocks_kept = blocks_.kept();
    counters_.cache = prefixes_.cache().stats();
    counters_.estimated_wait = estimated_wait();
    mailbox_.publish(counters_, throughput_.seconds_per_request());
    for (const Ended& e : std::exchange(ended_, {})) e.listener->on_finish(e.choice, e.finish);
}

Result<std::unique_ptr<Engine>> make_local_engine(models::Model& model, kv::BlockPool& blocks,
                                                  ThreadPool& pool, const EngineOptions& options,
                                                  std::unique_ptr<StepTimes> times,
                                                  std::shared_ptr<Trace> trace, Stores stores) {
    const bool with_stores = !stores.empty();
    try {
        return std::unique_ptr<Engine>(new LocalEngine(model, blocks, pool, options, std::move(times),
                                                       std::move(trace), std::move(stores)));
    } catch (const std::system_error& error) {
        return thread_error("of the engine", 0, (options.async ? 2 : 1) + (with_stores ? 2 : 0), error);
    }
}

}  // namespace deepinfer::engine
