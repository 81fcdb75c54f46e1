// One answer in the making: the engine requests behind it, and the text of their tokens.
//
// A Generation may have several choices: options.best_of for each prompt of the request, one after the other. The engine's thread puts
// tokens into a mailbox and wakes the connection; the connection polls. Destroying a Generation cancels what
// still runs.
//
// Threads: all members from one thread at a time, except that the engine's thread uses the mailbox.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/completion_request.h"
#include "api/error.h"
#include "api/response.h"
#include "server/http_message.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace deepinfer::server {

struct GenerationRequest {
    api::ResponseHeader header;
    std::vector<std::vector<TokenId>> prompts;  // at least one
    std::vector<std::string> echoes;            // texts to begin the answers with; empty, or one per prompt
    bool echoes_special = false;                // they spell control tokens out
    api::GenerationOptions options;
    std::string tenant;
    size_t max_backlog_tokens = 8192;  // the connection is woken when so many wait
};

// Called on the engine's thread when there is something to poll. Must be quick.
using Wake = std::function<void()>;

class Generation {
  public:
    using Clock = std::chrono::steady_clock;

    // Submits all prompts; if one is refused, none runs. `metrics` must outlive the object.
    static api::Outcome<std::unique_ptr<Generation>> start(std::shared_ptr<const ServedModel> model,
                                                           GenerationRequest request, Metrics& metrics,
                                                           Wake wake);
    ~Generation();
    Generation(const Generation&) = delete;
    Generation& operator=(const Generation&) = delete;

    bool streams() const { return options_.stream; }
    // Takes in what the engine produced. When streaming, appends complete server-sent events. True once the
    // answer has ended; then nothing follows.
    bool poll(std::string& events);
    // After the end, when not streaming.
    HttpResponse response() const;
    // Tokens that wait to be polled: grows when the client reads more slowly than the engine writes.
    size_t backlog() const;
    // For the metrics: why the answer is given up. To be said before destruction; otherwise it counts as a
    // disconnect.
    void give_up(std::atomic<uint64_t> Metrics::* reason) { reason_ = reason; }

  private:
    std::string cache_status() const;
    struct Mailbox;
    struct Choice;

    Generation(std::shared_ptr<const ServedModel> model, GenerationRequest request, size_t prompts,
               Metrics& metrics, Wake wake);
    api::Outcome<bool> submit(std::vector<std::vector<TokenId>> prompts, std::string tenant);
    void take_prompt(size_t first_choice, const std::vector<engine::SampledToken>& scores);
    std::vector<api::TokenLogprobs> echoed(size_t prompt,
                                           const std::vector<engine::SampledToken>& scores) const;
    void take_token(Choice& choice, const engine::SampledToken& token);
    void count_cached(const engine::Finish& finish);
    void take_finish(Choice& choice, const engine::Finish& finish);
    void end_text(Choice& choice, std::string reason);
    void release_logprobs(Choice& choice, bool all);
    void record_token_time(Choice& choice);
    void flush(Choice& choice, std::string& events);
    void close(std::string& events);
    std::vector<const Choice*> answers() const;
    bool wants_logprobs() const { return options_.sampling.top_logprobs >= 0; }
    api::TokenLogprobs describe(const engine::SampledToken& token, size_t text_offset) const;

    std::shared_ptr<const ServedModel> model_;
    api::ResponseHeader header_;
    api::GenerationOptions options_;
    Metrics& metrics_;
    std::shared_ptr<Mailbox> mailbox_;
    std::vector<Choice> choices_;
    // If log-probabilities of prompts are wanted: their tokens, echoes, and what is known.
    std::vector<std::vector<TokenId>> prompts_;
    std::vector<std::string> echoes_;
    bool echoes_special_;
    std::vector<api::PromptLogprobs> prompt_logprobs_;
    size_t running_ = 0;  // choices whose engine request has not ended
    bool ended_ = false;
    std::optional<api::ApiError> error_;
    api::Usage usage_;
    engine::CacheMisses misses_{};
    Clock::time_point start_ = Clock::now();
    std::atomic<uint64_t> Metrics::* reason_ = &Metrics::cancelled_disconnect;
};

}  // namespace deepinfer::server
