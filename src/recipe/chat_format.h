// Conversation -> prompt tokens, as the model's own chat template words it.
//
// Control tokens come from the template only: whatever a message spells is encoded as text (see
// special_marks.h). The prompt has exactly one BOS if the vocabulary asks for one, whether the template
// writes it or not.
//
// Threads: immutable; any number may call at once. The tokenizer must outlive the object.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "recipe/chat_template.h"
#include "recipe/conversation.h"
#include "recipe/special_marks.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::recipe {

struct PromptOptions {
    bool add_generation_prompt = true;  // end with the header of the answer
    int64_t unix_seconds = 0;           // the time a template may show (strftime_now)
};

class ChatFormat {
  public:
    // Compiles `template_source` and tries it out once. corrupt_data if it does not compile, deadline_exceeded if
    // that takes too long.
    static Result<std::unique_ptr<ChatFormat>> create(const tokenizer::Tokenizer& tokenizer,
                                                      std::string_view template_source);

    // invalid_argument if the template refuses the conversation (the message is the template's), or if
    // template_options has a reserved name; deadline_exceeded if rendering takes too long.
    Result<std::vector<TokenId>> encode(const Conversation& conversation, const PromptOptions& options) const;

    // The prompt as text, control tokens spelled out. What encode() encodes.
    Result<std::string> render(const Conversation& conversation, const PromptOptions& options) const;

  private:
    struct Rendered {
        std::string text;
        std::string mark;
    };
    ChatFormat(const tokenizer::Tokenizer& tokenizer, ChatTemplate compiled);
    Result<Rendered> render_marked(const Conversation& conversation, const PromptOptions& options) const;
    Status probe_arguments();

    const tokenizer::Tokenizer& tokenizer_;
    ChatTemplate template_;
    SpecialMarks marks_;
    std::string bos_text_, eos_text_;
    bool knows_developer_ = false;  // else a developer message is rendered as a system message
    bool splits_thinking_ = false;  // the template looks for </think> in past answers
    bool object_arguments_ = true;  // arguments of past tool calls: an object, or their JSON text
};

}  // namespace deepinfer::recipe
