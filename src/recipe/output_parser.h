// A DeepSeek model's output -> thinking, answer, tool calls. Incremental, in one pass: every byte is given out as soon as it
// cannot be part of a marker any more, and however the output is cut, the result is the same.
//
// V4 and V4.1 differ in a space within their tags; both are understood. Markers that the model spells out with plain tokens
// are text. The arguments of a call come out as the text of a JSON object, piece by piece; a call that ends early has an
// unfinished one.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/marker_matcher.h"
#include "recipe/output_options.h"

namespace deepinfer::recipe {

struct OutputMarks {
    std::string think_end = "</think>", dsml = "｜DSML｜";
};

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
    explicit OutputParser(const OutputOptions& options, OutputMarks marks = {});

    // One piece of output; appends what became certain. Text is valid UTF-8; `source` says what markers may be found in it.
    // A control token is a piece of its own.
    void push(std::string_view piece, ByteSource source, std::vector<OutputEvent>& events);
    // No piece follows: what was held back is text of its stage.
    void finish(std::vector<OutputEvent>& events);

    // A stop string was found: the answer has ended, and pieces are no longer looked at.
    const std::optional<std::string>& stop() const { return stop_; }
    // Some call's name is complete.
    bool has_calls() const { return calls_ > 0; }

  private:
    enum class Stage {
        reasoning,
        content,
        before_json,  // of an answer that is to be JSON
        json,
        after_json,
        calls,      // between calls
        name,       // of a tool
        arguments,  // between parameters
        before_key,
        key,        // of a parameter, in quotes
        after_key,
        attribute,  // whether its value is a string
        string_value,
        raw_value,
        finished,
    };
    struct Exit {
        Marker marker;
        Stage next;
        int stop = -1;  // index of a stop string
    };
    struct StageRules {
        std::vector<Exit> exits;
        MarkerMatcher matcher{{}};
    };

    StageRules make_rules(Stage stage) const;
    StageRules& rules() { return *rules_[static_cast<size_t>(stage_)]; }
    void enter(Stage stage);
    void take(const Exit& exit, std::string_view matched);
    void emit_held(size_t size);
    void add(OutputEvent::Kind kind, std::string_view text, size_t first_piece = 0, size_t last_piece = 0);
    void add_json_string(std::string_view text, size_t first_piece, size_t last_piece);

    const OutputOptions options_;
    const OutputMarks marks_;
    Stage stage_ = Stage::content;
    std::unique_ptr<StageRules> rules_[static_cast<size_t>(Stage::finished) + 1];
    bool at_start_ = true;             // of a stage whose first line breaks do not count
    std::string held_;                 // may be the beginning of a marker
    std::vector<size_t> held_pieces_;  // of each byte of it, the number of the piece
    size_t piece_ = 0;
    size_t blank_piece_ = 0;  // the last piece that was answered with a blank
    std::string name_;
    bool has_parameters_ = false;
    size_t calls_ = 0;
    std::optional<std::string> stop_;
    std::vector<OutputEvent>* events_ = nullptr;
};

}  // namespace deepinfer::recipe
