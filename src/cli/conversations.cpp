#include "cli/conversations.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

namespace deepinfer::cli {

namespace {

constexpr int side_by_side = 4;

// Numbers that follow from seed and conversation, the same on every machine.
class Script {
  public:
    Script(uint64_t seed, uint64_t conversation) : state_(seed * 0x9E3779B97F4A7C15u + conversation + 1) {}
    uint64_t next() {
        // SplitMix64 (Steele, Lea, Flood 2014)
        uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    int32_t below(int32_t n) { return static_cast<int32_t>(next() % static_cast<uint64_t>(n)); }
    void append(std::vector<TokenId>& tokens, int32_t count, int32_t vocabulary) {
        for (int32_t i = 0; i < count; ++i) tokens.push_back(below(vocabulary));
    }

  private:
    uint64_t state_;
};

// One request, from its submission to its end.
class Answer {
  public:
    // `stop_after` tokens it is cancelled; negative: never.
    TurnResult get(engine::Engine& engine, engine::Request request, int32_t stop_after) {
        result_.prompt_tokens = static_cast<int32_t>(request.prompt.size());
        engine::Listener listener;
        listener.on_token = [this](int32_t, const engine::SampledToken& token) {
            const std::lock_guard lock(mutex_);
            result_.tokens.push_back(token.token);
            result_.logprobs.push_back(token.logprob);
            changed_.notify_all();
        };
        listener.on_finish = [this](int32_t, const engine::Finish& finish) {
            const std::lock_guard lock(mutex_);
            result_.cached_tokens = finish.cached_tokens;
            result_.loaded_tokens = finish.loaded_tokens;
            if (finish.reason == engine::FinishReason::error) result_.error = finish.error;
            ended_ = true;
            changed_.notify_all();
        };
        const Result<engine::RequestId> id = engine.submit(std::move(request), std::move(listener));
        if (!id) {
            result_.error = id.error();
            return result_;
        }
        std::unique_lock lock(mutex_);
        const auto most = static_cast<size_t>(std::max(stop_after, 0));
        changed_.wait(lock, [&] { return ended_ || (stop_after >= 0 && result_.tokens.size() >= most); });
        if (!ended_) {
            lock.unlock();
            engine.cancel(*id);
            lock.lock();
            changed_.wait(lock, [this] { return ended_; });
        }
        if (stop_after >= 0 && result_.tokens.size() > most) {  // how many came before it stopped is chance
            result_.tokens.resize(most);
            result_.logprobs.resize(most);
        }
        return result_;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    TurnResult result_;
    bool ended_ = false;
};

engine::SamplingParams sampling(Script& script, const ConversationOptions& options) {
    engine::SamplingParams params;
    params.max_tokens = 1 + script.below(options.most_answer);
    params.temperature = script.below(3) == 0 ? 0.0f : 0.8f;
    params.top_p = script.below(2) ? 0.95f : 1.0f;
    params.seed = script.next();
    params.ignore_eos = true;
    params.top_logprobs = 0;
    return params;
}

}  // namespace

bool TurnResult::same(const TurnResult& other) const {
    return tokens == other.tokens && logprobs.size() == other.logprobs.size() &&
           std::memcmp(logprobs.data(), other.logprobs.data(), logprobs.size() * sizeof(float)) == 0 &&
           error.message == other.error.message;
}

Conversation converse(engine::Engine& engine, const ConversationOptions& options, uint64_t index) {
    const int32_t vocabulary = engine.vocabulary_size(),
                  longest = std::min(options.most_prompt, engine.context_length() - options.most_answer - 1);
    Script script(options.seed, index), shared(options.seed, ~uint64_t{0});
    std::vector<TokenId> history;
    shared.append(history, std::min(options.preamble, longest / 2), vocabulary);
    std::vector<std::vector<TokenId>> earlier{history};
    Conversation turns;
    for (int32_t turn = 0; turn < options.turns; ++turn) {
        const int32_t what = script.below(8);
        if (what == 0)
            history = earlier[static_cast<size_t>(script.below(static_cast<int32_t>(earlier.size())))];
        if (what == 1) {
            TokenId& changed =
                history[static_cast<size_t>(script.below(static_cast<int32_t>(history.size())))];
            changed = (changed + 1) % vocabulary;
        }
        const bool again = what == 2 && turn > 0;
        if (again) history = earlier.back();
        if (!again) script.append(history, 1 + script.below(options.most_new), vocabulary);
        if (static_cast<int32_t>(history.size()) > longest) break;
        engine::Request request;
        request.prompt = history;
        request.sampling = sampling(script, options);
        earlier.push_back(history);
        const int32_t stop_after = what == 3 ? script.below(request.sampling.max_tokens) : -1;
        turns.push_back(Answer().get(engine, std::move(request), stop_after));
        if (!turns.back().error.message.empty()) break;
        history.insert(history.end(), turns.back().tokens.begin(), turns.back().tokens.end());
    }
    return turns;
}

std::vector<Conversation> converse_all(engine::Engine& engine, const ConversationOptions& options,
                                       size_t count) {
    std::vector<Conversation> result(count);
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < side_by_side; ++i)
        threads.emplace_back([&] {
            for (size_t index; (index = next++) < count;) result[index] = converse(engine, options, index);
        });
    for (std::thread& thread : threads) thread.join();
    return result;
}

}  // namespace deepinfer::cli
