#include "engine/local_engine.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/sampler.h"

namespace deepinfer::engine {

namespace {

// One request on its way through the engine. Owned by the engine thread.
struct Sequence {
    RequestId id = 0;
    SamplingParams sampling;
    Listener listener;
    std::vector<TokenId> tokens;  // prompt, then output
    int32_t prompt_tokens = 0;
    int32_t computed = 0;  // tokens with keys and values in `blocks`
    std::vector<kv::BlockId> blocks;
    int32_t counted = 0;  // prompt tokens already counted as computed (a preempted prompt is computed again)
    bool cancelled = false;
    std::optional<Finish> end;  // set when it is over; told to the listener once the counters show it

    int32_t generated() const { return static_cast<int32_t>(tokens.size()) - prompt_tokens; }
    SequenceView view() const {
        return {static_cast<int32_t>(tokens.size()), computed, static_cast<int32_t>(blocks.size())};
    }
};

class LocalEngine final : public Engine {
  public:
    LocalEngine(models::Model& model, kv::BlockPool& blocks, ThreadPool& pool, const EngineOptions& options)
        : model_(model), blocks_(blocks), pool_(pool), options_(options) {
        limits_.max_rows = std::max(options.max_rows, options.max_running);
        limits_.max_running = options.max_running;
        limits_.block_tokens = kv::block_tokens;
        const int64_t pool_tokens = int64_t{blocks.total()} * kv::block_tokens;
        const int32_t wanted =
            options.context_length > 0 ? options.context_length : model.info().context_length;
        context_length_ = static_cast<int32_t>(std::min<int64_t>(wanted, pool_tokens));
        for (int i = 0; i < pool.threads(); ++i)
            samplers_.emplace_back(kernels::kernel_table(options.isa), model.info().vocabulary);
        stats_.blocks_total = blocks.total();
        stats_.blocks_free = blocks.free();
        thread_ = std::thread([this] { run(); });
    }

    ~LocalEngine() override {
        {
            std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        wake_.notify_one();
        thread_.join();
    }

    Result<RequestId> submit(Request request, Listener listener) override;
    void cancel(RequestId id) override;
    void cancel_all() override;
    EngineStats stats() const override {
        std::lock_guard lock(mutex_);
        return stats_;
    }
    int32_t context_length() const override { return context_length_; }
    int32_t vocabulary_size() const override { return model_.info().vocabulary; }

  private:
    using Pointer = std::unique_ptr<Sequence>;

    struct Scheduled {
        Sequence* sequence;
        int32_t rows;
    };

    void run();
    bool receive();  // takes over what other threads sent; false when stopping
    void drop_cancelled();
    void step();
    void schedule();
    void build_batch();
    void deliver(Sequence& sequence, const Result<SampledToken>& sampled);
    void finish(Sequence& sequence, FinishReason reason, TokenId stop_token = -1, Error error = {});
    void allocate_blocks(Sequence& sequence, int32_t tokens);
    void release_blocks(Sequence& sequence);
    void end_finished();
    void fail_all(const std::string& why);
    void publish();

    models::Model& model_;
    kv::BlockPool& blocks_;
    ThreadPool& pool_;
    const EngineOptions options_;
    SchedulerLimits limits_;
    int32_t context_length_ = 0;

    // The mailbox: the only state shared with other threads. The lock is held for a few instructions, never
    // over compute or a listener.
    mutable std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<Pointer> arrived_;
    std::vector<RequestId> cancelled_;
    RequestId cancelled_below_ = 0;  // all with a lower id
    bool stopping_ = false;
    RequestId next_id_ = 1;
    int32_t queued_ = 0;  // arrived or waiting, for the bound
    EngineStats stats_;

    // Owned by the engine thread.
    std::vector<Pointer> running_;  // oldest admission first
    std::deque<Pointer> waiting_;
    EngineStats counters_;
    std::vector<Scheduled> scheduled_;  // of this step, in batch order
    models::Batch batch_;
    std::vector<Sequence*> sampled_;  // of logit row i
    std::vector<float> logits_;
    std::vector<std::optional<Result<SampledToken>>> results_;
    std::vector<Sampler> samplers_;  // one per pool thread
    std::thread thread_;
};

Result<RequestId> LocalEngine::submit(Request request, Listener listener) {
    const int32_t vocabulary = model_.info().vocabulary;
    if (request.prompt.empty())
        return Error{ErrorCode::invalid_argument, "the prompt is empty: at least one token is needed"};
    for (TokenId token : request.prompt)
        if (token < 0 || token >= vocabulary)
            return Error{ErrorCode::invalid_argument, "prompt token " + std::to_string(token) +
                                                          " is not in the vocabulary of " +
                                                          std::to_string(vocabulary) + " tokens"};
    if (Status status = check(request.sampling, vocabulary); !status) return status.error();
    if (request.prompt.size() >= static_cast<size_t>(context_length_))
        return Error{ErrorCode::invalid_argument, "the prompt has " + std::to_string(request.prompt.size()) +
                                                      " tokens; the context holds " +
                                                      std::to_string(context_length_) +
                                                      ", and at least one must be left for the answer"};
    auto sequence = std::make_unique<Sequence>();
    sequence->tokens = std::move(request.prompt);
    sequence->prompt_tokens = static_cast<int32_t>(sequence->tokens.size());
    sequence->sampling = std::move(request.sampling);
    sequence->listener = std::move(listener);
    RequestId id = 0;
    {
        std::lock_guard lock(mutex_);
        if (stopping_) return Error{ErrorCode::cancelled, "the engine is shutting down"};
        // Places to run count as well: a burst may fill them before the first step takes it from the queue.
        if (queued_ + stats_.running >= options_.max_waiting + options_.max_running) {
            ++stats_.rejected_total;
            return Error{ErrorCode::resource_exhausted,
                         "the queue is full: " + std::to_string(stats_.running) +
                             " requests are running and " + std::to_string(queued_) + " are waiting"};
        }
        ++queued_;
        id = sequence->id = next_id_++;
        arrived_.push_back(std::move(sequence));
        stats_.waiting = queued_;
    }
    wake_.notify_one();
    return id;
}

void LocalEngine::cancel(RequestId id) {
    {
        std::lock_guard lock(mutex_);
        cancelled_.push_back(id);
    }
    wake_.notify_one();
}

void LocalEngine::cancel_all() {
    {
        std::lock_guard lock(mutex_);
        cancelled_below_ = next_id_;
    }
    wake_.notify_one();
}

void LocalEngine::run() {
    const ThreadPool::PinnedCaller pinned(pool_);
    while (receive()) {
        drop_cancelled();
        try {
            step();
        } catch (const std::exception& e) {  // out of memory: the requests fail, the engine lives on
            fail_all(std::string("the step failed: ") + e.what());
        }
        end_finished();
    }
    for (auto& sequence : running_) finish(*sequence, FinishReason::cancelled);
    for (auto& sequence : waiting_) finish(*sequence, FinishReason::cancelled);
    end_finished();
}

bool LocalEngine::receive() {
    std::unique_lock lock(mutex_);
    if (running_.empty() && waiting_.empty()) {
        assert(blocks_.free() == blocks_.total());  // nothing runs, so nothing may hold a block
        wake_.wait(lock, [this] { return stopping_ || !arrived_.empty() || !cancelled_.empty(); });
    }
    for (Pointer& sequence : arrived_) waiting_.push_back(std::move(sequence));
    arrived_.clear();
    const auto mark = [this](const Pointer& s) {
        s->cancelled |= s->id < cancelled_below_ ||
                        std::find(cancelled_.begin(), cancelled_.end(), s->id) != cancelled_.end();
    };
    std::for_each(running_.begin(), running_.end(), mark);
    std::for_each(waiting_.begin(), waiting_.end(), mark);
    cancelled_.clear();
    return !stopping_;
}

void LocalEngine::drop_cancelled() {
    bool any = false;
    const auto drop = [&](const Pointer& s) {
        if (!s->cancelled) return;
        finish(*s, FinishReason::cancelled);
        any = true;
    };
    std::for_each(running_.begin(), running_.end(), drop);
    std::for_each(waiting_.begin(), waiting_.end(), drop);
    if (any) end_finished();
}

// Carries out the plan: who gives up blocks, who starts, who holds which blocks for the rows to come.
void LocalEngine::schedule() {
    scheduled_.clear();
    std::vector<SequenceView> running, waiting;
    for (const Pointer& s : running_) running.push_back(s->view());
    for (const Pointer& s : waiting_) {
        if (waiting.size() >= static_cast<size_t>(limits_.max_running))
            break;  // no more can start in one step
        waiting.push_back(s->view());
    }
    const Plan decision = plan(running, waiting, blocks_.free(), limits_);
    for (const Plan::Work& work : decision.work) {
        const auto index = static_cast<size_t>(work.sequence);
        Sequence* s =
            index < running_.size() ? running_[index].get() : waiting_[index - running_.size()].get();
        scheduled_.push_back({s, work.rows});
    }
    for (int32_t index : decision.preempted) {  // youngest first, so that the queue keeps their order
        Pointer& s = running_[static_cast<size_t>(index)];
        release_blocks(*s);
        ++counters_.preemptions_total;
        waiting_.push_front(std::move(s));
    }
    std::erase(running_, nullptr);
    for (int32_t i = 0; i < decision.admitted; ++i) {
        Sequence& s = *waiting_.front();
        allocate_blocks(s, static_cast<int32_t>(s.tokens.size()) +
                               1);  // the whole prompt's, so that it cannot get stuck half-way
        running_.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
    }
    for (const Scheduled& work : scheduled_)
        allocate_blocks(*work.sequence, work.sequence->computed + work.rows);
}

void LocalEngine::build_batch() {
    batch_.tokens.clear();
    batch_.sequences.clear();
    batch_.logit_rows.clear();
    sampled_.clear();
    for (const auto& [s, rows] : scheduled_) {
        const auto first = static_cast<int32_t>(batch_.tokens.size());
        batch_.tokens.insert(batch_.tokens.end(), s->tokens.begin() + s->computed,
                             s->tokens.begin() + s->computed + rows);
        batch_.sequences.push_back({first, rows, s->computed, s->blocks});
        if (s->computed + rows == static_cast<int32_t>(s->tokens.size())) {
            batch_.logit_rows.push_back(first + rows - 1);
            sampled_.push_back(s);
        }
    }
}

void LocalEngine::step() {
    schedule();
    if (scheduled_.empty()) return;
    build_batch();
    const auto vocabulary = static_cast<size_t>(model_.info().vocabulary);
    if (logits_.size() < sampled_.size() * vocabulary) logits_.resize(sampled_.size() * vocabulary);
    model_.forward(batch_, blocks_, logits_.data());
    ++counters_.steps_total;
    for (const auto& [s, rows] : scheduled_) {
        const int32_t prompt_rows = std::clamp(s->prompt_tokens - std::max(s->computed, s->counted), 0, rows);
        s->counted += prompt_rows;
        counters_.prompt_tokens_total += static_cast<uint64_t>(prompt_rows);
        s->computed += rows;
    }
    results_.assign(sampled_.size(), std::nullopt);
    pool_.for_each(static_cast<int>(sampled_.size()), 1, [&](int begin, int end, int thread) {
        for (int i = begin; i < end; ++i) {
            const Sequence& s = *sampled_[static_cast<size_t>(i)];
            results_[static_cast<size_t>(i)] = samplers_[static_cast<size_t>(thread)].sample(
                logits_.data() + static_cast<size_t>(i) * vocabulary, s.sampling,
                static_cast<int64_t>(s.tokens.size()));
        }
    });
    for (size_t i = 0; i < sampled_.size(); ++i) deliver(*sampled_[i], *results_[i]);
}

void LocalEngine::deliver(Sequence& s, const Result<SampledToken>& sampled) {
    if (!sampled) return finish(s, FinishReason::error, -1, sampled.error());
    const SamplingParams& params = s.sampling;
    const TokenId token = sampled->token;
    const auto contains = [token](const std::vector<TokenId>& ids) {
        return std::find(ids.begin(), ids.end(), token) != ids.end();
    };
    s.tokens.push_back(token);
    ++counters_.generated_tokens_total;
    if (contains(params.stop_ids) || (!params.ignore_eos && contains(options_.end_of_generation)))
        return finish(s, FinishReason::stop, token);
    s.listener.on_token(*sampled);
    if (s.generated() >= params.max_tokens || static_cast<int32_t>(s.tokens.size()) >= context_length_)
        finish(s, FinishReason::length);
}

void LocalEngine::finish(Sequence& s, FinishReason reason, TokenId stop_token, Error error) {
    release_blocks(s);
    switch (reason) {
        case FinishReason::stop:
            ++counters_.finished_stop_total;
            break;
        case FinishReason::length:
            ++counters_.finished_length_total;
            break;
        case FinishReason::cancelled:
            ++counters_.cancelled_total;
            break;
        case FinishReason::error:
            ++counters_.failed_total;
            break;
    }
    Finish end;
    end.reason = reason;
    end.stop_token = stop_token;
    end.prompt_tokens = s.prompt_tokens;
    end.completion_tokens = s.generated();
    end.error = std::move(error);
    s.end = std::move(end);
}

void LocalEngine::allocate_blocks(Sequence& s, int32_t tokens) {
    const auto wanted = static_cast<size_t>((tokens + kv::block_tokens - 1) / kv::block_tokens);
    while (s.blocks.size() < wanted) {
        const kv::BlockId block = blocks_.allocate();
        assert(block >= 0);  // the plan counted
        s.blocks.push_back(block);
    }
}

void LocalEngine::release_blocks(Sequence& s) {
    for (kv::BlockId block : s.blocks) blocks_.release(block);
    s.blocks.clear();
    s.computed = 0;
}

// Takes out what is over, shows it in the counters, and then tells the listeners: who has seen an answer end finds its
// blocks free.
void LocalEngine::end_finished() {
    std::vector<Pointer> over;
    const auto take = [&over](auto& queue) {
        for (Pointer& s : queue)
            if (s->end) over.push_back(std::move(s));
        std::erase(queue, nullptr);
    };
    take(running_);
    take(waiting_);
    publish();
    for (const Pointer& s : over) s->listener.on_finish(*s->end);
}

void LocalEngine::fail_all(const std::string& why) {
    for (Pointer& s : running_)
        if (!s->end) finish(*s, FinishReason::error, -1, Error{ErrorCode::internal, why});
}

void LocalEngine::publish() {
    std::lock_guard lock(mutex_);
    const uint64_t rejected = stats_.rejected_total;
    counters_.running = static_cast<int32_t>(running_.size());
    queued_ = static_cast<int32_t>(waiting_.size() + arrived_.size());
    counters_.waiting = queued_;
    counters_.blocks_total = blocks_.total();
    counters_.blocks_free = blocks_.free();
    stats_ = counters_;
    stats_.rejected_total = rejected;
}

}  // namespace

std::unique_ptr<Engine> make_local_engine(models::Model& model, kv::BlockPool& blocks, ThreadPool& pool,
                                          const EngineOptions& options) {
    return std::make_unique<LocalEngine>(model, blocks, pool, options);
}

}  // namespace deepinfer::engine
