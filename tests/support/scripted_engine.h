// An engine for tests: plays what a script says for each request, at a chosen pace, and counts what happens.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "engine/engine.h"

namespace deepinfer::testing {

class ScriptedEngine : public engine::Engine {
  public:
    struct Answer {
        std::vector<TokenId> tokens;
        engine::FinishReason end = engine::FinishReason::stop;  // once the tokens are played
        std::chrono::milliseconds prefill{0};
        std::chrono::milliseconds per_token{0};
        int32_t cached_tokens = 0;
        float logprob = -0.5f;  // of every token
    };
    // Called for each choice, with its seed.
    using Script = std::function<Answer(const engine::Request&)>;

    struct Options {
        int32_t context_length = 4096;
        int32_t vocabulary_size = 261;
        size_t max_running = 128;
        size_t max_queue = 1024;
    };

    ScriptedEngine(Options options, Script script)
        : options_(options), script_(std::move(script)), thread_([this] { run(); }) {}

    ~ScriptedEngine() override {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }

    Result<engine::RequestId> submit(engine::Request request, engine::Listener listener) override {
        const std::lock_guard lock(mutex_);
        last_request_ = request;
        if (request.prompt.empty()) return Error{ErrorCode::invalid_argument, "the prompt is empty"};
        for (const TokenId token : request.prompt)
            if (token < 0 || token >= options_.vocabulary_size)
                return Error{ErrorCode::invalid_argument, "token out of vocabulary"};
        if (waiting_.size() >= options_.max_queue) {
            ++stats_.rejected_total;
            return Error{ErrorCode::resource_exhausted, "the queue is full"};
        }
        const engine::RequestId id = next_id_++;
        for (int32_t choice = 0; choice < request.choices; ++choice) {
            Job job{id, choice, request, listener, {}, 0, Clock::now()};
            job.request.sampling.seed = engine::choice_seed(request.sampling.seed, choice);
            job.answer = script_(job.request);
            waiting_.push_back(std::move(job));
        }
        changed_.notify_all();
        return id;
    }

    void cancel(engine::RequestId id) override {
        const std::lock_guard lock(mutex_);
        cancel_where([id](const Job& job) { return job.id == id; });
    }

    void cancel(engine::RequestId id, int32_t choice) override {
        const std::lock_guard lock(mutex_);
        cancel_where([=](const Job& job) { return job.id == id && job.choice == choice; });
    }

    void cancel_all() override {
        const std::lock_guard lock(mutex_);
        cancel_where([](const Job&) { return true; });
    }

    engine::EngineStats stats() const override {
        const std::lock_guard lock(mutex_);
        engine::EngineStats stats = stats_;
        stats.running = static_cast<int32_t>(running_.size());
        stats.waiting = static_cast<int32_t>(waiting_.size());
        stats.blocks_total = 1000;
        stats.blocks_free = 1000 - stats.running;
        return stats;
    }
    int32_t context_length() const override { return options_.context_length; }
    int32_t vocabulary_size() const override { return options_.vocabulary_size; }

    engine::Request last_request() const {
        const std::lock_guard lock(mutex_);
        return last_request_;
    }

  private:
    using Clock = std::chrono::steady_clock;
    struct Job {
        engine::RequestId id;
        int32_t choice;
        engine::Request request;
        engine::Listener listener;
        Answer answer;
        size_t played;
        Clock::time_point next;
    };

    template <class Condition>
    void cancel_where(Condition condition) {
        for (const auto* jobs : {&waiting_, &running_})
            for (const Job& job : *jobs)
                if (condition(job)) cancelled_.insert({job.id, job.choice});
        changed_.notify_all();
    }

    void run() {
        std::unique_lock lock(mutex_);
        while (!stopping_ || !waiting_.empty() || !running_.empty()) {
            std::vector<std::function<void()>> calls;
            step(calls);
            if (!calls.empty()) {
                lock.unlock();
                for (const auto& call : calls) call();
                lock.lock();
                continue;
            }
            Clock::time_point next = Clock::now() + std::chrono::seconds(1);
            for (const Job& job : running_) next = std::min(next, job.next);
            if (stopping_ && waiting_.empty() && running_.empty()) break;
            changed_.wait_until(lock, next);
        }
    }

    void step(std::vector<std::function<void()>>& calls) {
        for (auto job = waiting_.begin(); job != waiting_.end();) {
            if (stopping_ || cancelled_.contains({job->id, job->choice})) {
                finish(*job, engine::FinishReason::cancelled, calls);
                job = waiting_.erase(job);
            } else if (running_.size() < options_.max_running) {
                job->next = Clock::now() + job->answer.prefill;
                stats_.prompt_tokens_total += job->request.prompt.size();
                running_.push_back(std::move(*job));
                job = waiting_.erase(job);
            } else {
                ++job;
            }
        }
        const Clock::time_point now = Clock::now();
        for (auto job = running_.begin(); job != running_.end();) {
            if (stopping_ || cancelled_.contains({job->id, job->choice})) {
                finish(*job, engine::FinishReason::cancelled, calls);
                job = running_.erase(job);
                continue;
            }
            if (job->next > now) {
                ++job;
                continue;
            }
            const bool full = static_cast<int32_t>(job->played) >= job->request.sampling.max_tokens;
            if (full || job->played == job->answer.tokens.size()) {
                finish(*job, full ? engine::FinishReason::length : job->answer.end, calls);
                job = running_.erase(job);
                continue;
            }
            if (job->played == 0 && job->choice == 0 && job->request.sampling.prompt_logprobs >= 0)
                calls.push_back([this, job = *job] { tell_prompt(job); });
            engine::SampledToken token;
            token.token = job->answer.tokens[job->played++];
            if (job->request.sampling.top_logprobs >= 0) {
                token.logprob = job->answer.logprob;
                for (int32_t i = 0; i < job->request.sampling.top_logprobs; ++i)
                    token.top_logprobs.push_back({(token.token + i) % options_.vocabulary_size,
                                                  job->answer.logprob - static_cast<float>(i)});
            }
            ++stats_.generated_tokens_total;
            calls.push_back([listener = job->listener, choice = job->choice, token] {
                listener.on_token(choice, token);
            });
            job->next = now + job->answer.per_token;
            ++job;
        }
    }

    // Position i has the log-probability -i, and the ids 1, 2, ... as the most likely ones.
    void tell_prompt(const Job& job) const {
        std::vector<engine::SampledToken> scores;
        for (size_t i = 1; i < job.request.prompt.size(); ++i) {
            engine::SampledToken score{job.request.prompt[i], -static_cast<float>(i), {}, 100};
            for (int32_t t = 1; t <= job.request.sampling.prompt_logprobs; ++t)
                score.top_logprobs.push_back({t, -0.25f * static_cast<float>(t)});
            scores.push_back(std::move(score));
        }
        job.listener.on_prompt(std::move(scores));
    }

    void finish(const Job& job, engine::FinishReason reason, std::vector<std::function<void()>>& calls) {
        engine::Finish end{.reason = reason,
                           .prompt_tokens = static_cast<int32_t>(job.request.prompt.size()),
                           .cached_tokens = job.answer.cached_tokens,
                           .completion_tokens = static_cast<int32_t>(job.played),
                           .error = {ErrorCode::internal, "the scripted engine failed"}};
        switch (reason) {
            case engine::FinishReason::stop:
                ++stats_.finished_stop_total;
                break;
            case engine::FinishReason::length:
                ++stats_.finished_length_total;
                break;
            case engine::FinishReason::cancelled:
                ++stats_.cancelled_total;
                break;
            case engine::FinishReason::error:
                ++stats_.failed_total;
                break;
        }
        cancelled_.erase({job.id, job.choice});
        calls.push_back(
            [listener = job.listener, choice = job.choice, end] { listener.on_finish(choice, end); });
    }

    const Options options_;
    const Script script_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool stopping_ = false;
    engine::RequestId next_id_ = 1;
    std::deque<Job> waiting_, running_;
    std::set<std::pair<engine::RequestId, int32_t>> cancelled_;
    engine::EngineStats stats_;
    engine::Request last_request_;
    std::thread thread_;
};

}  // namespace deepinfer::testing
