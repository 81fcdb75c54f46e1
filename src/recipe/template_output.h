// The output of models that follow a chat template: thinking between <think> and </think>, and tool calls as JSON objects, each
// between <tool_call> and </tool_call> (Hermes, Qwen) or the whole answer (Llama).
//
// A call that is no JSON object with a name is text, as the model wrote it.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/call_scanner.h"
#include "recipe/output_parser.h"

namespace deepinfer::recipe {

enum class CallSyntax {
    none,
    tagged,  // <tool_call>{"name": …, "arguments": {…}}</tool_call>, any number of them
    bare,    // {"name": …, "parameters": {…}} in place of an answer
};

struct TemplateSyntax {
    CallSyntax calls = CallSyntax::none;
    // The spellings, and whether each is one token of the vocabulary: then plain text that spells it is text.
    std::string think_begin = {}, think_end = {};  // empty: the model does not think
    bool think_is_token = false;
    bool call_is_token = false;
};

class TemplateOutput final : public OutputParser {
  public:
    // With FirstStage::content a thinking model may still begin by <think>.
    TemplateOutput(const OutputOptions& options, const TemplateSyntax& syntax);

    void push(std::string_view piece, ByteSource source, std::vector<OutputEvent>& events) override;
    void finish(std::vector<OutputEvent>& events) override;
    void set_stops_apply(bool apply) override { stops_apply_ = apply; }
    const std::optional<std::string>& stop() const override { return stop_; }
    bool has_calls() const override { return calls_ > 0; }

  private:
    enum class Stage { opening, reasoning, content, call, finished };
    struct Exit {
        Marker marker;
        Stage next;
        int stop = -1;
    };
    struct Rules {
        std::vector<Exit> exits;
        MarkerMatcher matcher{{}};
    };

    std::unique_ptr<Rules> make_rules(Stage stage) const;
    void enter(Stage stage);
    void emit_held(size_t size);
    void emit_text(std::string_view text, size_t first, size_t last);
    void emit(OutputEvent::Kind kind, std::string_view text, size_t first, size_t last);
    void take(const Exit& exit);
    void scan(std::string_view text);
    void end_call();

    const OutputOptions options_;
    const TemplateSyntax syntax_;
    Stage stage_ = Stage::opening;
    std::unique_ptr<Rules> rules_[static_cast<size_t>(Stage::finished) + 1];
    bool started_ = false;      // a stage entered now is not the first
    bool at_start_ = true;      // of the stage: nothing of it came out yet
    bool strips_ = false;       // the white space that the stage begins with does not count
    bool may_be_bare_ = false;  // the answer may be a call by its first character
    std::string held_;
    std::vector<size_t> held_pieces_;
    size_t piece_ = 0;
    std::optional<CallScanner> scanner_;
    size_t calls_ = 0;
    bool stops_apply_ = true;
    std::optional<std::string> stop_;
    std::vector<OutputEvent>* events_ = nullptr;
};

}  // namespace deepinfer::recipe
