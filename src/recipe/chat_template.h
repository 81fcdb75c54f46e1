// A chat template: Jinja source from a model file, compiled once. Rendering behaves as in Hugging Face
// transformers and is bounded in steps, output and time, since the template is not trusted.
//
// Threads: immutable; any number may render at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct DeepinferTemplate;

namespace deepinfer::recipe {

class ChatTemplate {
  public:
    // corrupt_data on a syntax error, with the line.
    static Result<ChatTemplate> compile(std::string_view source);

    // `context`: a JSON object, whose members are the template's variables. `unix_seconds`: what
    // strftime_now() shows, in UTC. invalid_argument if the template refuses its input (raise_exception) or
    // fails on it or takes too many steps or bytes, as the message says; deadline_exceeded after 5 seconds and more
    // for long contexts, and while a rendering that took so long still runs.
    Result<std::string> render(std::string_view context, int64_t unix_seconds) const;

    const std::string& source() const { return source_; }

  private:
    struct Free {
        void operator()(DeepinferTemplate* compiled) const;
    };
    ChatTemplate() = default;

    std::string source_;
    std::unique_ptr<DeepinferTemplate, Free> compiled_;
};

}  // namespace deepinfer::recipe
