// What a model puts out, token by token or as text -> the events of a protocol, with true counts.
//
// Threads: one at a time.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_events.h"
#include "recipe/output_parser.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::api {

struct AnswerStreamOptions {
    bool thinks = false;
    // Bytes at the end that are half a character: left out, with their tokens, or shown as U+FFFD.
    bool drops_half_characters = false;
    // The thinking is counted by encoding it again, as the official service does, since texts have no true counts.
    bool recounts_reasoning = false;
    // Stop strings are looked for in the text after so many tokens.
    int32_t min_tokens = 0;
    // Control tokens other than these are not shown. Nothing: all are, as the official service does.
    std::optional<std::vector<std::string>> shown_controls = std::nullopt;
};

class AnswerStream {
  public:
    // `tokenizer` may be null if only text comes; else it must outlive the object.
    AnswerStream(std::unique_ptr<AnswerEvents> events, std::unique_ptr<recipe::OutputParser> parser,
                 const tokenizer::Tokenizer* tokenizer, AnswerStreamOptions options);

    // What is known of the prompt; before the first output, later it is not looked at. Without it zeros are told.
    void ready(int64_t prompt_tokens, int64_t cached_tokens, const std::optional<std::string>& fingerprint);
    void push_text(std::string_view text, int64_t tokens);
    // `logprobs`: none, or one for each token. invalid_argument if there are others, or no tokenizer.
    Status push_tokens(const std::vector<TokenId>& tokens, const std::vector<TokenLogprobs>& logprobs);
    // Nothing follows. `reason`: of the end, if it is not that the model had finished (then calls make it tool_calls); a stop
    // string goes before it.
    void finish(std::optional<AnswerReason> reason = std::nullopt);

    // A stop string or the end of the calls was seen: what follows is not needed.
    bool stopped() const { return parser_->stop().has_value(); }
    bool finished() const { return finished_; }
    // The events since the last call. Of what came in between neighbouring texts are one.
    std::vector<ServerEvent> take();
    std::string whole() const { return events_->whole(); }
    std::string choice(int32_t index) const { return events_->choice(index); }
    AnswerReason reason() const { return reason_; }  // once finished

  private:
    struct Piece {
        size_t number = 0;
        int64_t tokens = 0;
        std::vector<TokenLogprobs> logprobs;
    };
    void start();
    void push_piece(std::string_view text, recipe::ByteSource source, int64_t tokens,
                    std::vector<TokenLogprobs> logprobs);
    void flush_half_character();
    void pass(std::vector<recipe::OutputEvent>& events);
    void send_pending();

    const std::unique_ptr<AnswerEvents> events_;
    const std::unique_ptr<recipe::OutputParser> parser_;
    const tokenizer::Tokenizer* tokenizer_;
    const AnswerStreamOptions options_;
    std::optional<tokenizer::StreamDecoder> decoder_;
    int64_t undecoded_tokens_ = 0;  // in the decoder
    std::vector<TokenLogprobs> undecoded_logprobs_;
    std::deque<Piece> pieces_;  // of which nothing came out yet
    size_t piece_ = 0;
    bool started_ = false, finished_ = false;
    AnswerUsage usage_;
    std::optional<std::string> fingerprint_;
    std::string reasoning_;  // if it is counted again
    int64_t reasoning_tokens_ = 0;
    int64_t tokens_ = 0;  // pushed
    AnswerReason reason_ = AnswerReason::stop;
    std::vector<recipe::OutputEvent> parsed_;
    struct Pending {
        recipe::OutputEvent event;
        std::vector<TokenLogprobs> logprobs;
    };
    std::vector<Pending> pending_;
};

}  // namespace deepinfer::api
