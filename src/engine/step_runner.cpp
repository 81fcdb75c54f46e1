#include "engine/step_runner.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace deepinfer::engine {

bool ends(TokenId token, const SamplingParams& params, const std::vector<TokenId>& end_of_generation) {
    const auto contains = [token](const std::vector<TokenId>& ids) {
        return std::find(ids.begin(), ids.end(), token) != ids.end();
    };
    return contains(params.stop_ids) || (!params.ignore_eos && contains(end_of_generation));
}

StepRunner::StepRunner(models::Model& model, kv::BlockPool& blocks, ThreadPool& pool, kernels::Isa isa,
                       std::vector<TokenId> end_of_generation, Trace* trace)
    : model_(model),
      blocks_(blocks),
      pool_(pool),
      end_of_generation_(std::move(end_of_generation)),
      trace_(trace) {
    for (int i = 0; i < pool.threads(); ++i)
        samplers_.emplace_back(kernels::kernel_table(isa), model.info().vocabulary, end_of_generation_);
    own_rows_.resize(samplers_.size());
}

// Puts the tokens of the step before where they belong. False if every row belongs to a sequence that has just ended.
bool StepRunner::take_carried(StepInputs& inputs) {
    size_t useless = 0;
    for (const auto& [row, sample] : inputs.carried) {
        const Drawn drawn = static_cast<size_t>(sample) < drawn_.size() ? drawn_[static_cast<size_t>(sample)]
                                                                        : Drawn{-1, true};
        // A sequence that failed or ended computes something; nobody will look at it.
        inputs.batch.tokens[static_cast<size_t>(row)] = std::max(drawn.token, 0);
        useless += drawn.ended;
    }
    return useless == 0 || useless < inputs.batch.tokens.size();
}

StepResult StepRunner::run(StepInputs& inputs) {
    StepResult result;
    result.id = inputs.id;
    result.begin = Clock::now();
    try {
        if (take_carried(inputs)) {
            compute(inputs, result);
        } else {
            result.skipped = true;
            drawn_.clear();
        }
    } catch (const std::exception& e) {  // out of memory: the requests of the step fail, the engine lives on
        result.samples.clear();
        result.scores.clear();
        result.failure = Error{ErrorCode::internal, std::string("the step failed: ") + e.what()};
        drawn_.clear();
    }
    result.end = Clock::now();
    if (trace_)
        trace_->add({result.skipped ? "skipped" : "compute", Trace::Lane::device, result.begin, result.end,
                     inputs.id, static_cast<int32_t>(inputs.batch.tokens.size()),
                     static_cast<int32_t>(inputs.batch.sequences.size()), inputs.predicted});
    return result;
}

void StepRunner::compute(StepInputs& inputs, StepResult& result) {
    const size_t wanted = inputs.batch.logit_rows.size() * vocabulary();
    if (logits_.size() < wanted) logits_.resize(wanted);
    model_.forward(inputs.batch, blocks_, logits_.data());
    const auto bad = model_.not_finite();
    result.not_finite.assign(bad.begin(), bad.end());
    for (const auto& [from, to] : inputs.copies)
        std::memcpy(blocks_.data(to), blocks_.data(from), blocks_.layout().block_bytes);
    const size_t count = inputs.samples.size(), all = count + inputs.scores.size();
    std::vector<std::optional<Result<SampledToken>>> sampled(all);
    pool_.for_each(static_cast<int>(all), 1, [&](int begin, int end, int thread) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
            if (i < count) {
                sampled[i] = sample(inputs, i, static_cast<size_t>(thread));
            } else {
                const StepInputs::Score& s = inputs.scores[i - count];
                sampled[i] = samplers_[static_cast<size_t>(thread)].score(row(s.logits), s.token, s.top);
            }
        }
    });
    for (size_t i = count; i < all; ++i) result.scores.push_back(std::move(*sampled[i]));
    drawn_.assign(count, {});
    for (size_t i = 0; i < count; ++i) {
        if (*sampled[i]) {
            const TokenId token = (*sampled[i])->token;
            drawn_[i] = {token, ends(token, *inputs.samples[i].params, end_of_generation_)};
        } else {
            drawn_[i] = {-1, true};
        }
        result.samples.push_back(std::move(*sampled[i]));
    }
}

Result<SampledToken> StepRunner::sample(const StepInputs& inputs, size_t index, size_t thread) {
    const StepInputs::Sample& s = inputs.samples[index];
    float* logits = row(s.logits);
    const auto same_row = [&](size_t other) {
        return other < inputs.samples.size() && inputs.samples[other].logits == s.logits;
    };
    // Choices that start from one row stand side by side, and other threads may be reading it.
    if (s.params->changes_logits() && (same_row(index - 1) || same_row(index + 1))) {
        own_rows_[thread].assign(logits, logits + vocabulary());
        logits = own_rows_[thread].data();
    }
    Result<SampledToken> sampled = samplers_[thread].sample(logits, *s.params, *s.history, s.position);
    if (sampled) s.history->add(sampled->token);
    return sampled;
}

StepLane::StepLane(StepRunner& runner) : runner_(runner), thread_([this] { run(); }) {}

StepLane::~StepLane() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void StepLane::start(StepInputs inputs) {
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(inputs));
    }
    changed_.notify_all();
}

std::optional<StepResult> StepLane::wait(std::optional<Clock::time_point> until) {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return !done_.empty(); };
    if (!until)
        changed_.wait(lock, ready);
    else if (!changed_.wait_until(lock, *until, ready))
        return std::nullopt;
    StepResult result = std::move(done_.front());
    done_.pop_front();
    return result;
}

void StepLane::run() {
    const ThreadPool::PinnedCaller pinned(runner_.pool());
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        StepInputs inputs = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        StepResult result = runner_.run(inputs);
        lock.lock();
        done_.push_back(std::move(result));
        changed_.notify_all();
    }
}

}  // namespace deepinfer::engine
