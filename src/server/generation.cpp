#include "server/generation.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <mutex>
#include <utility>
#include <variant>

#include "recipe/text_stream.h"

namespace deepinfer::server {
namespace {

double seconds(Generation::Clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
}

void append_event(std::string& events, std::string_view data) {
    events.append("data: ").append(data).append("\n\n");
}

}  // namespace

struct Generation::Mailbox {
    struct Item {
        size_t choice = 0;
        std::variant<engine::SampledToken, engine::Finish, std::vector<engine::SampledToken>> event;
    };

    void put(Item item) {
        const std::lock_guard lock(mutex);
        if (!wake) return;
        items.push_back(std::move(item));
        // The reader takes everything at once, so only the first item is news, and a backlog past the limit.
        // Under the lock, so that after close() no wake is on its way.
        if (items.size() == 1 || items.size() == max_backlog) wake();
    }
    std::vector<Item> take() {
        const std::lock_guard lock(mutex);
        return std::exchange(items, {});
    }
    void close() {
        const std::lock_guard lock(mutex);
        wake = nullptr;
        items.clear();
    }

    std::mutex mutex;
    std::vector<Item> items;
    size_t max_backlog = 0;
    Wake wake;
};

struct Generation::Choice {
    Choice(int32_t index_, int32_t number_, const tokenizer::Tokenizer& tokenizer,
           const api::GenerationOptions& options)
        : index(index_), number(number_), stream(tokenizer, options.stop, options.sampling.min_tokens) {}

    struct PendingLogprobs {
        api::TokenLogprobs entry;
        size_t begin = 0, end = 0;  // of the token's text, in bytes
    };

    int32_t index;   // in the answer
    int32_t number;  // in the engine's request
    recipe::TextStream stream;
    engine::RequestId request = 0;
    bool submitted = false;
    bool text_ended = false;  // no more text will come
    bool finish_sent = false;
    bool request_ended = false;
    bool role_sent = false;
    bool awaits_prompt = false;  // the echo goes out with its logprobs
    size_t echoed_characters = 0;
    std::string fresh;  // text not yet given out; when not streaming, all of it
    std::string finish_reason;
    std::deque<PendingLogprobs> pending_logprobs;  // whose text is still held back
    std::vector<api::TokenLogprobs> fresh_logprobs;
    int64_t tokens = 0;
    double logprob = 0;  // of all tokens, if they have logprobs
    Clock::time_point last_token{};
};

api::Outcome<std::unique_ptr<Generation>> Generation::start(std::shared_ptr<const ServedModel> model,
                                                            GenerationRequest request, Metrics& metrics,
                                                            Wake wake) {
    std::vector<std::vector<TokenId>> prompts = std::move(request.prompts);
    std::string tenant = std::move(request.tenant);
    std::unique_ptr<Generation> generation(
        new Generation(std::move(model), std::move(request), prompts.size(), metrics, std::move(wake)));
    if (api::Outcome<bool> submitted = generation->submit(std::move(prompts), std::move(tenant)); !submitted)
        return submitted.error();
    return generation;
}

Generation::Generation(std::shared_ptr<const ServedModel> model, GenerationRequest request, size_t prompts,
                       Metrics& metrics, Wake wake)
    : model_(std::move(model)),
      header_(std::move(request.header)),
      options_(std::move(request.options)),
      metrics_(metrics),
      mailbox_(std::make_shared<Mailbox>()),
      echoes_special_(request.echoes_special) {
    mailbox_->wake = std::move(wake);
    mailbox_->max_backlog = request.max_backlog_tokens;
    for (size_t i = 0; i < prompts; ++i)
        for (int32_t number = 0; number < options_.best_of; ++number) {
            const auto index = static_cast<int32_t>(choices_.size());
            choices_.emplace_back(index, number, *model_->tokenizer, options_);
            if (request.echoes.empty()) continue;
            Choice& choice = choices_.back();
            choice.fresh = request.echoes[i];
            choice.awaits_prompt = wants_logprobs();
            choice.echoed_characters = recipe::count_characters(choice.fresh);
        }
    if (options_.sampling.prompt_logprobs >= 0) echoes_ = std::move(request.echoes);
    if (options_.prompt_logprobs >= 0) prompt_logprobs_.resize(prompts);
    metrics_.active_generations.fetch_add(1);
}

Generation::~Generation() {
    mailbox_->close();
    for (const Choice& choice : choices_)
        if (choice.submitted && !choice.request_ended) model_->engine->cancel(choice.request, choice.number);
    if (running_ > 0) (metrics_.*reason_).fetch_add(running_);
    metrics_.active_generations.fetch_sub(1);
}

api::Outcome<bool> Generation::submit(std::vector<std::vector<TokenId>> prompts, std::string tenant) {
    const auto context = static_cast<size_t>(model_->engine->context_length());
    for (size_t i = 0; i < prompts.size(); ++i) {
        const size_t room = context > prompts[i].size() ? context - prompts[i].size() : 0;
        if (room == 0) return api::context_length_exceeded(prompts[i].size(), context);
        engine::Request request;
        if (options_.sampling.prompt_logprobs >= 0) prompts_.push_back(prompts[i]);
        request.prompt = std::move(prompts[i]);
        request.sampling = options_.sampling;
        request.choices = options_.best_of;
        if (options_.best_of > options_.n)  // what the best are chosen by
            request.sampling.top_logprobs = std::max(request.sampling.top_logprobs, 0);
        request.tenant = tenant;
        request.cache_salt = options_.cache_salt;
        request.retention = options_.retention.value_or(engine::Retention::chat);
        request.priority = options_.priority;
        if (options_.timeout)
            request.deadline = start_ + std::chrono::duration_cast<Clock::duration>(
                                            std::chrono::duration<double>(*options_.timeout));
        request.sampling.seed = options_.seed.value_or(0);
        request.sampling.max_tokens = static_cast<int32_t>(std::min<int64_t>(
            options_.max_tokens.value_or(std::numeric_limits<int32_t>::max()), static_cast<int64_t>(room)));
        request.sampling.min_tokens = std::min(request.sampling.min_tokens, request.sampling.max_tokens);
        usage_.prompt_tokens += static_cast<int64_t>(request.prompt.size());
        metrics_.request_prompt_tokens.record(static_cast<double>(request.prompt.size()));
        metrics_.request_params_max_tokens.record(request.sampling.max_tokens);
        metrics_.request_params_n.record(request.choices);
        engine::Listener listener;
        const size_t first = i * static_cast<size_t>(options_.best_of);
        listener.on_token = [box = mailbox_, first](int32_t choice, const engine::SampledToken& token) {
            box->put({first + static_cast<size_t>(choice), token});
        };
        listener.on_finish = [box = mailbox_, first](int32_t choice, const engine::Finish& finish) {
            box->put({first + static_cast<size_t>(choice), finish});
        };
        if (options_.sampling.prompt_logprobs >= 0)
            listener.on_prompt = [box = mailbox_, first](std::vector<engine::SampledToken> scores) {
                box->put({first, std::move(scores)});
            };
        Result<engine::RequestId> id = model_->engine->submit(std::move(request), std::move(listener));
        if (!id) {
            running_ = 0;  // nobody gave up: the request was refused
            return api::from_error(id.error());
        }
        for (size_t choice = first; choice < first + static_cast<size_t>(options_.best_of); ++choice) {
            choices_[choice].request = *id;
            choices_[choice].submitted = true;
            ++running_;
        }
    }
    return true;
}

size_t Generation::backlog() const {
    const std::lock_guard lock(mailbox_->mutex);
    return mailbox_->items.size();
}

api::TokenLogprobs Generation::describe(const engine::SampledToken& token, size_t text_offset) const {
    const auto text = [&](TokenId id, float logprob) {
        return api::TokenText{model_->tokenizer->token_bytes(id, true), logprob};
    };
    api::TokenLogprobs result{.token = text(token.token, token.logprob),
                              .top = {},
                              .text_offset = static_cast<int64_t>(text_offset)};
    for (const engine::TokenLogprob& alternative : token.top_logprobs)
        result.top.push_back(text(alternative.token, alternative.logprob));
    return result;
}

// The tokens of an echo, as those of an answer.
std::vector<api::TokenLogprobs> Generation::echoed(size_t prompt,
                                                   const std::vector<engine::SampledToken>& scores) const {
    std::vector<api::TokenLogprobs> result;
    tokenizer::StreamDecoder decoder(*model_->tokenizer, echoes_special_);
    size_t characters = 0;
    for (size_t i = 0; i < prompts_[prompt].size(); ++i) {
        const TokenId token = prompts_[prompt][i];
        result.push_back(describe(i > 0 ? scores[i - 1] : engine::SampledToken{token, 0, {}, 0}, characters));
        result.back().known = i > 0;
        auto& top = result.back().top;
        top.resize(std::min(top.size(), static_cast<size_t>(options_.sampling.top_logprobs)));
        const std::string piece = decoder.push(token);
        if (i == 0 && !echoes_[prompt].starts_with(piece)) continue;  // BOS, put before the text
        characters += recipe::count_characters(piece);
    }
    return result;
}

void Generation::take_prompt(size_t first_choice, const std::vector<engine::SampledToken>& scores) {
    const size_t prompt = first_choice / static_cast<size_t>(options_.best_of);
    if (!echoes_.empty() && wants_logprobs()) {
        const std::vector<api::TokenLogprobs> echo = echoed(prompt, scores);
        for (int32_t i = 0; i < options_.best_of; ++i) {
            Choice& choice = choices_[first_choice + static_cast<size_t>(i)];
            choice.fresh_logprobs = echo;
            choice.awaits_prompt = false;
        }
    }
    if (options_.prompt_logprobs < 0) return;
    api::PromptLogprobs& places = prompt_logprobs_[prompt];
    places.emplace_back();
    for (const engine::SampledToken& score : scores) {
        const api::TokenLogprobs texts = describe(score, 0);
        std::vector<api::RankedToken> place{{score.token, score.rank, texts.token}};
        const size_t count = std::min(texts.top.size(), static_cast<size_t>(options_.prompt_logprobs));
        for (size_t i = 0; i < count; ++i)
            if (score.top_logprobs[i].token != score.token)
                place.push_back({score.top_logprobs[i].token, static_cast<int32_t>(i) + 1, texts.top[i]});
        places.push_back(std::move(place));
    }
}

// Logprobs go out with the text of their token, so that tokens of a stop string, which is not part of the
// answer, are not reported either.
void Generation::release_logprobs(Choice& choice, bool all) {
    const size_t emitted = choice.stream.emitted_bytes();
    while (!choice.pending_logprobs.empty()) {
        Choice::PendingLogprobs& first = choice.pending_logprobs.front();
        const bool visible = choice.stream.stopped() ? first.begin < emitted : all || first.end <= emitted;
        if (!visible) break;
        choice.fresh_logprobs.push_back(std::move(first.entry));
        choice.pending_logprobs.pop_front();
    }
    if (choice.text_ended) choice.pending_logprobs.clear();
}

void Generation::end_text(Choice& choice, std::string reason) {
    choice.text_ended = true;
    choice.finish_reason = std::move(reason);
    release_logprobs(choice, true);
}

void Generation::record_token_time(Choice& choice) {
    const Clock::time_point now = Clock::now();
    if (choice.tokens == 0)
        metrics_.time_to_first_token.record(seconds(now - start_));
    else
        metrics_.inter_token_latency.record(seconds(now - choice.last_token));
    choice.last_token = now;
}

void Generation::take_token(Choice& choice, const engine::SampledToken& token) {
    if (choice.text_ended) return;
    record_token_time(choice);
    ++choice.tokens;
    choice.logprob += static_cast<double>(token.logprob);
    const size_t begin = choice.stream.decoded_bytes();
    const size_t offset = choice.echoed_characters + choice.stream.decoded_characters();
    choice.fresh += choice.stream.push(token.token);
    if (wants_logprobs()) {
        choice.pending_logprobs.push_back({describe(token, offset), begin, choice.stream.decoded_bytes()});
        release_logprobs(choice, false);
    }
    if (choice.stream.stopped()) {
        end_text(choice, "stop");
        model_->engine->cancel(choice.request, choice.number);
    }
}

void Generation::count_cached(const engine::Finish& finish) {
    usage_.cached_tokens += finish.cached_tokens;
    for (size_t why = 0; why < misses_.size(); ++why) misses_[why] += finish.misses[why];
    if (std::ranges::all_of(finish.loaded_tokens, [](int32_t tokens) { return tokens == 0; })) return;
    const std::vector<engine::TierStats> tiers = model_->engine->stats().tiers;
    for (size_t i = 0; i < tiers.size(); ++i)
        if (finish.loaded_tokens[i] > 0) usage_.loaded_tokens[tiers[i].name] += finish.loaded_tokens[i];
}

void Generation::take_finish(Choice& choice, const engine::Finish& finish) {
    choice.request_ended = true;
    if (finish.prefill > 0) {
        metrics_.request_queue_time.record(finish.queued);
        metrics_.request_prefill_time.record(finish.prefill);
        metrics_.request_decode_time.record(finish.decode);
        metrics_.request_inference_time.record(finish.prefill + finish.decode);
    }
    --running_;
    usage_.completion_tokens += choice.tokens;
    if (choice.number == 0) count_cached(finish);
    if (!choice.text_ended) {
        switch (finish.reason) {
            case engine::FinishReason::stop:
            case engine::FinishReason::length:
                choice.fresh += choice.stream.finish();
                end_text(choice, choice.stream.stopped() ? "stop" : api::finish_reason_name(finish.reason));
                break;
            case engine::FinishReason::cancelled:
                metrics_.cancelled_shutdown.fetch_add(1);
                reason_ = &Metrics::cancelled_shutdown;  // of the other choices
                error_ = api::unavailable("The server ended this request, since it is shutting down.");
                return;
            case engine::FinishReason::error:
                metrics_.failed.fetch_add(1);
                reason_ = &Metrics::failed;
                error_ = api::from_error(finish.error);
                if (error_->status < 500) error_->status = 500;
                return;
        }
    }
    (choice.finish_reason == "length" ? metrics_.finished_length : metrics_.finished_stop).fetch_add(1);
    metrics_.request_latency.record(seconds(Clock::now() - start_));
    metrics_.request_generation_tokens.record(static_cast<double>(choice.tokens));
}

bool Generation::poll(std::string& events) {
    if (ended_) return true;
    for (Mailbox::Item& item : mailbox_->take()) {
        Choice& choice = choices_[item.choice];
        if (const auto* token = std::get_if<engine::SampledToken>(&item.event))
            take_token(choice, *token);
        else if (const auto* scores = std::get_if<std::vector<engine::SampledToken>>(&item.event))
            take_prompt(item.choice, *scores);
        else
            take_finish(choice, std::get<engine::Finish>(item.event));
        if (error_) break;
    }
    if (options_.stream)
        for (Choice& choice : choices_) flush(choice, events);
    ended_ = error_ || running_ == 0;
    if (ended_ && options_.stream) close(events);
    return ended_;
}

// Events for what is new in a choice. Tokens that arrived together share a chunk.
void Generation::flush(Choice& choice, std::string& events) {
    const bool ends = choice.text_ended && !choice.finish_sent;
    if (choice.awaits_prompt && !ends) return;
    if (choice.fresh.empty() && choice.fresh_logprobs.empty() && !ends) return;
    if (header_.dialect == api::Dialect::chat && !std::exchange(choice.role_sent, true))
        append_event(events, api::role_chunk(header_, choice.index, options_.include_usage));
    api::ChoiceDelta delta{.index = choice.index, .text = std::exchange(choice.fresh, {})};
    if (wants_logprobs() && !choice.fresh_logprobs.empty())
        delta.logprobs = std::exchange(choice.fresh_logprobs, {});
    if (header_.dialect == api::Dialect::chat && ends && (!delta.text.empty() || delta.logprobs)) {
        append_event(events, api::delta_chunk(header_, delta, options_.include_usage));
        delta = {.index = choice.index};
    }
    if (ends) {
        delta.finish_reason = choice.finish_reason;
        choice.finish_sent = true;
    }
    append_event(events, api::delta_chunk(header_, delta, options_.include_usage));
}

void Generation::close(std::string& events) {
    if (error_) {
        append_event(events, api::to_json(*error_));
        return;
    }
    if (options_.include_usage) append_event(events, api::usage_chunk(header_, usage_));
    append_event(events, "[DONE]");
}

// Of each prompt's choices the n with the highest log-probability per token, best first; all of them in their order if n
// were drawn.
std::vector<const Generation::Choice*> Generation::answers() const {
    const auto drawn = static_cast<size_t>(options_.best_of), wanted = static_cast<size_t>(options_.n);
    const auto score = [](const Choice& choice) {
        return choice.tokens > 0 ? choice.logprob / static_cast<double>(choice.tokens)
                                 : -std::numeric_limits<double>::infinity();
    };
    std::vector<const Choice*> result;
    for (size_t first = 0; first < choices_.size(); first += drawn) {
        std::vector<const Choice*> some;
        for (size_t i = first; i < first + drawn; ++i) some.push_back(&choices_[i]);
        if (drawn > wanted)
            std::stable_sort(some.begin(), some.end(),
                             [&](const Choice* a, const Choice* b) { return score(*a) > score(*b); });
        result.insert(result.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(wanted));
    }
    return result;
}

HttpResponse Generation::response() const {
    if (error_) return error_response(*error_);
    std::vector<api::ChoiceDelta> deltas;
    for (const Choice* choice : answers()) {
        api::ChoiceDelta answer{.index = static_cast<int32_t>(deltas.size()),
                                .text = choice->fresh,
                                .finish_reason = choice->finish_reason};
        if (wants_logprobs()) answer.logprobs = choice->fresh_logprobs;
        deltas.push_back(std::move(answer));
    }
    return {.body = api::response_body(header_, deltas, usage_, prompt_logprobs_),
            .headers = {{"Cache-Status", cache_status()}}};
}

// As RFC 9211 has it, with tokens of the prompt as parameters: where the cached ones came from, why the others were computed.
std::string Generation::cache_status() const {
    std::string text = usage_.cached_tokens > 0 ? "deepinfer; fwd=partial" : "deepinfer; fwd=miss";
    const auto add = [&](std::string_view name, int64_t tokens) {
        if (tokens > 0) text.append("; ").append(name).append("=").append(std::to_string(tokens));
    };
    int64_t memory = usage_.cached_tokens;
    for (const auto& [name, tokens] : usage_.loaded_tokens) memory -= tokens;
    add("prompt", usage_.prompt_tokens);
    add("memory", memory);
    for (const auto& [name, tokens] : usage_.loaded_tokens) add(name, tokens);
    for (size_t why = 0; why < misses_.size(); ++why) add(engine::cache_miss_names[why], misses_[why]);
    return text;
}

}  // namespace deepinfer::server
