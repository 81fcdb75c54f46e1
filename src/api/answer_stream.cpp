#include "api/answer_stream.h"

#include <algorithm>
#include <iterator>

namespace deepinfer::api {

using recipe::ByteSource;
using recipe::OutputEvent;

AnswerStream::AnswerStream(std::unique_ptr<AnswerEvents> events, std::unique_ptr<recipe::OutputParser> parser,
                           const tokenizer::Tokenizer* tokenizer, AnswerStreamOptions options)
    : events_(std::move(events)),
      parser_(std::move(parser)),
      tokenizer_(tokenizer),
      options_(std::move(options)) {
    if (tokenizer_) decoder_.emplace(*tokenizer_, false, tokenizer::StreamStart::continues_text);
}

void AnswerStream::ready(int64_t prompt_tokens, int64_t cached_tokens,
                         const std::optional<std::string>& fingerprint) {
    if (started_) return;
    usage_.prompt_tokens = prompt_tokens;
    usage_.cached_tokens = cached_tokens;
    fingerprint_ = fingerprint;
    start();
}

void AnswerStream::start() {
    if (std::exchange(started_, true)) return;
    events_->start(usage_, fingerprint_);
}

void AnswerStream::push_text(std::string_view text, int64_t tokens) {
    start();
    usage_.completion_tokens += tokens;
    push_piece(text, ByteSource::text, tokens, {});
}

Status AnswerStream::push_tokens(const std::vector<TokenId>& tokens,
                                 const std::vector<TokenLogprobs>& logprobs) {
    start();
    if (!tokenizer_) return Error{ErrorCode::invalid_argument, "tokens came, but there is no tokenizer"};
    if (!logprobs.empty() && logprobs.size() != tokens.size())
        return Error{ErrorCode::invalid_argument, std::to_string(logprobs.size()) +
                                                      " log probabilities came for " +
                                                      std::to_string(tokens.size()) + " tokens"};
    std::string text;
    const auto flush = [&] {
        if (text.empty()) return;
        usage_.completion_tokens += undecoded_tokens_;
        push_piece(text, ByteSource::plain_token, std::exchange(undecoded_tokens_, 0),
                   std::exchange(undecoded_logprobs_, {}));
        text.clear();
    };
    for (size_t i = 0; i < tokens.size(); ++i) {
        const TokenId token = tokens[i];
        if (options_.min_tokens > 0) parser_->set_stops_apply(tokens_++ >= options_.min_tokens);
        const std::string_view spelling = tokenizer_->added_token_text(token);
        const auto& shown = options_.shown_controls;
        if (!spelling.empty() && (!shown || std::ranges::count(*shown, spelling) > 0)) {
            flush();
            flush_half_character();
            ++usage_.completion_tokens;
            push_piece(spelling, ByteSource::control_token, 1,
                       logprobs.empty() ? std::vector<TokenLogprobs>() : std::vector{logprobs[i]});
            continue;
        }
        ++undecoded_tokens_;
        if (!logprobs.empty()) undecoded_logprobs_.push_back(logprobs[i]);
        text += decoder_->push(token);
        if (options_.min_tokens > 0 || !logprobs.empty()) flush();
    }
    flush();
    return {};
}

// A control token follows, or nothing: the bytes that wait will not become a character.
void AnswerStream::flush_half_character() {
    if (!decoder_) return;
    const std::string rest = decoder_->finish();
    if (rest.empty()) return;
    decoder_.emplace(*tokenizer_, false, tokenizer::StreamStart::continues_text);
    usage_.completion_tokens += undecoded_tokens_;
    push_piece(rest, ByteSource::plain_token, std::exchange(undecoded_tokens_, 0),
               std::exchange(undecoded_logprobs_, {}));
}

void AnswerStream::push_piece(std::string_view text, ByteSource source, int64_t tokens,
                              std::vector<TokenLogprobs> logprobs) {
    pieces_.push_back({++piece_, tokens, std::move(logprobs)});
    parsed_.clear();
    parser_->push(text, source, parsed_);
    pass(parsed_);
}

void AnswerStream::pass(std::vector<OutputEvent>& events) {
    for (OutputEvent& event : events) {
        std::vector<TokenLogprobs> logprobs;
        int64_t tokens = 0;
        while (!pieces_.empty() && pieces_.front().number <= event.last_piece) {
            Piece& piece = pieces_.front();
            if (piece.number >= event.first_piece) {
                tokens += piece.tokens;
                std::ranges::move(piece.logprobs, std::back_inserter(logprobs));
            }
            pieces_.pop_front();
        }
        if (event.kind == OutputEvent::Kind::reasoning) {
            reasoning_tokens_ += tokens;
            if (options_.recounts_reasoning) reasoning_ += event.text;
        }
        const bool is_text =
            event.kind != OutputEvent::Kind::call_begin && event.kind != OutputEvent::Kind::call_end;
        if (is_text && !pending_.empty() && pending_.back().event.kind == event.kind) {
            pending_.back().event.text += event.text;
            std::ranges::move(logprobs, std::back_inserter(pending_.back().logprobs));
        } else {
            pending_.push_back({std::move(event), std::move(logprobs)});
        }
    }
}

void AnswerStream::send_pending() {
    for (const Pending& one : pending_) events_->add(one.event, one.logprobs);
    pending_.clear();
}

std::vector<ServerEvent> AnswerStream::take() {
    send_pending();
    return events_->take();
}

void AnswerStream::finish(std::optional<AnswerReason> given) {
    if (finished_) return;
    start();
    if (!options_.drops_half_characters) flush_half_character();
    parsed_.clear();
    parser_->finish(parsed_);
    pass(parsed_);
    if (options_.thinks && (tokenizer_ || !options_.recounts_reasoning)) {
        usage_.reasoning_tokens = reasoning_tokens_;
        if (options_.recounts_reasoning)
            usage_.reasoning_tokens =
                static_cast<int64_t>(tokenizer_->encode(reasoning_, tokenizer::Special::parse).size());
    }
    send_pending();
    reason_ = parser_->stop()        ? AnswerReason::stop_sequence
              : given                ? *given
              : parser_->has_calls() ? AnswerReason::tool_calls
                                     : AnswerReason::stop;
    events_->end(reason_, parser_->stop(), usage_);
    finished_ = true;
}

}  // namespace deepinfer::api
