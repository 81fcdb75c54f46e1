// A model's output -> thinking, answer, tool calls: what all formats of output have in common.
//
// Incremental, in one pass: every byte is given out as soon as it cannot be part of a marker any more, and however the output
// is cut, the result is the same.
//
// Threads: one at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/marker_matcher.h"
#include "recipe/output_options.h"

namespace deepinfer::recipe {

struct OutputEvent {
    enum class Kind {
        reasoning,       // text
        content,         // text
        call_begin,      // text: the tool's name
        call_arguments,  // text: more of the JSON object
        call_end,        // the object is complete
    };
    Kind kind = Kind::content;
    std::string text;
    // The pieces, counted from 1, that the text is from.
    size_t first_piece = 0, last_piece = 0;
};

class OutputParser {
  public:
    virtual ~OutputParser() = default;

    // One piece of output; appends what became certain. Text is valid UTF-8; `source` says what markers may be found in it.
    // A control token is a piece of its own.
    virtual void push(std::string_view piece, ByteSource source, std::vector<OutputEvent>& events) = 0;
    // No piece follows: what was held back is text of its stage.
    virtual void finish(std::vector<OutputEvent>& events) = 0;

    // From here on stop strings are text, or end the answer, as at first.
    virtual void set_stops_apply(bool apply) = 0;

    // A stop string was found: the answer has ended, and pieces are no longer looked at.
    virtual const std::optional<std::string>& stop() const = 0;
    // Some call's name is complete.
    virtual bool has_calls() const = 0;
};

}  // namespace deepinfer::recipe
