// Sampled tokens -> text for the client, with stop strings.
//
// Text is given out as soon as it can no longer be part of a stop string. The first stop string to be
// complete ends the answer (of several that end at the same character, the longest); it is not part of the
// text. How the tokens are cut never changes the result.
//
// What a model samples always follows a prompt, so with SentencePiece vocabularies the space of the first
// token is part of the text: "France is" goes on with " Paris". That holds for chat, too, where some models
// (Llama 2) begin every answer with a space: vLLM, which decodes the answer together with the end of the
// prompt, and llama.cpp, which decodes token by token, both give it out.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::recipe {

// Code points of valid UTF-8.
size_t count_characters(std::string_view text);

// The matching alone, on text.
class StopMatcher {
  public:
    explicit StopMatcher(std::vector<std::string> stops);  // none of them empty

    // Text that became certain. After a stop string was found, always empty.
    std::string push(std::string_view text);
    std::string finish();  // what was held back
    bool stopped() const { return stopped_ >= 0; }
    // The stop string that was found; empty if none.
    std::string_view stop() const {
        return stopped() ? std::string_view(stops_[stopped_]) : std::string_view();
    }

  private:
    size_t held_size() const;

    std::vector<std::string> stops_;
    std::string held_;  // may be the beginning of a stop string
    int stopped_ = -1;
};

class TextStream {
  public:
    // The tokenizer must outlive the object.
    // Stop strings are looked for in the text after the first `min_tokens` tokens.
    TextStream(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stops, int32_t min_tokens = 0);

    std::string push(TokenId token);  // text that became certain with this token, perhaps empty
    std::string finish();             // the rest, once no token follows
    bool stopped() const { return matcher_.stopped(); }
    std::string_view stop() const { return matcher_.stop(); }

    // Size of all text so far, held back or not; and of the text given out.
    size_t decoded_bytes() const { return decoded_bytes_; }
    size_t decoded_characters() const { return decoded_characters_; }
    size_t emitted_bytes() const { return emitted_bytes_; }

  private:
    std::string pass(std::string text);

    tokenizer::StreamDecoder decoder_;
    StopMatcher matcher_;
    int32_t unmatched_tokens_;
    size_t decoded_bytes_ = 0;
    size_t decoded_characters_ = 0;
    size_t emitted_bytes_ = 0;
};

}  // namespace deepinfer::recipe
