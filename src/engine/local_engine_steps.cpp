// What the next step is made of: the plan, the batch, the choices that start.
#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/local_engine_impl.h"
#include "engine/prompt_scores.h"

namespace deepinfer::engine {

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

// Of a sequence that waits: as if it held what it would find.
SequenceView LocalEngine::waiting_view(const Sequence& s) const {
    SequenceView v = view(s);
    v.blocks = s.found;
    v.computed = s.found * kv::block_tokens;
    v.revived = prefixes_.revived(s);
    v.held_back = s.held;
    return v;
}

Plan LocalEngine::decide() {
    std::vector<SequenceView> running, waiting;
    for (const SequencePtr& s : running_) running.push_back(view(*s));
    for (const SequencePtr& s : waiting_)
        if (prefixes_.look(*s)) estimate(*s);
    prefixes_.hold_back_twins(waiting_);
    const size_t loads = stored_.loads();
    if (stored_.enabled())
        for (const SequencePtr& s : waiting_)
            if (!s->held)
                s->held = stored_.fetch(s, static_cast<int32_t>(running_.size()), !running_.empty());
    if (stored_.loads() != loads)  // they may have taken the room of what was found
        for (const SequencePtr& s : waiting_)
            if (prefixes_.look_again(*s)) estimate(*s);
    for (const SequencePtr& s : waiting_) waiting.push_back(waiting_view(*s));
    PlanInput input;
    input.running = running;
    input.waiting = waiting;
    input.tenants = tenants_.views();
    input.free_blocks = prefixes_.available();
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
    for (const SequencePtr& s : admitted) start(s);  // before blocks that were found can be evicted
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

void LocalEngine::start(const SequencePtr& sequence) {
    Sequence& s = *sequence;
    const bool first = !s.started;
    prefixes_.admit(s);
    if (!first) return;
    counters_.cache_queries_total += static_cast<uint64_t>(s.prompt_tokens);
    counters_.cache_hits_total += static_cast<uint64_t>(s.cached_tokens);
    counters_.prompt_tokens_total += static_cast<uint64_t>(s.cached_tokens);
    s.misses = prefixes_.misses(s);
    for (size_t why = 0; why < s.misses.size(); ++why)
        counters_.cache_misses_total[why] += static_cast<uint64_t>(s.misses[why]);
    stored_.started(sequence);
    if (s.cached_tokens == 0) return;
    const Chunk cached{s.cached_tokens, 0, 0};
    counters_.cache_seconds_saved_total += times_->seconds({&cached, 1});
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

}  // namespace deepinfer::engine
