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

#include "recipe/output_parser.h"

namespace deepinfer::recipe {

struct DeepSeekOutputMarks {
    std::string think_end = "</think>", dsml = "｜DSML｜";
};

class DeepSeekOutput final : public OutputParser {
  public:
    explicit DeepSeekOutput(const OutputOptions& options, DeepSeekOutputMarks marks = {});

    void push(std::string_view piece, ByteSource source, std::vector<OutputEvent>& events) override;
    void finish(std::vector<OutputEvent>& events) override;
    void set_stops_apply(bool apply) override { stops_apply_ = apply; }
    const std::optional<std::string>& stop() const override { return stop_; }
    bool has_calls() const override { return calls_ > 0; }

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
        key,  // of a parameter, in quotes
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
    void emit(std::string_view text, size_t first_piece, size_t last_piece);
    void add_blank(size_t piece);
    void add(OutputEvent::Kind kind, std::string_view text, size_t first_piece = 0, size_t last_piece = 0);
    void add_json_string(std::string_view text, size_t first_piece, size_t last_piece);

    const OutputOptions options_;
    const DeepSeekOutputMarks marks_;
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
    bool stops_apply_ = true;
    std::optional<std::string> stop_;
    std::vector<OutputEvent>* events_ = nullptr;
};

}  // namespace deepinfer::recipe
