#include "recipe/deepseek_output.h"

#include <algorithm>
#include <utility>

#include "recipe/json_text.h"

namespace deepinfer::recipe {

namespace {

constexpr std::string_view line_break = "\n";

}  // namespace

DeepSeekOutput::DeepSeekOutput(const OutputOptions& options, DeepSeekOutputMarks marks)
    : options_(options), marks_(std::move(marks)) {
    const Stage content = options_.json_only ? Stage::before_json : Stage::content;
    switch (options_.first) {
        case FirstStage::content:
            enter(content);
            break;
        case FirstStage::reasoning:
            enter(Stage::reasoning);
            break;
        case FirstStage::reasoning_continued:
            enter(Stage::reasoning);
            at_start_ = false;
            break;
        case FirstStage::content_continued:
            enter(content);
            at_start_ = false;
            break;
    }
    if (options_.starts_in_calls) enter(Stage::calls);
}

DeepSeekOutput::StageRules DeepSeekOutput::make_rules(Stage stage) const {
    StageRules result;
    const auto exit = [&](std::string before, std::string control, std::string after, Stage next,
                          bool line_breaks = false) {
        result.exits.push_back(
            {{std::move(before), std::move(control), std::move(after), line_breaks}, next});
    };
    const auto stops = [&] {
        for (size_t i = 0; i < options_.stops.size(); ++i)
            result.exits.push_back(
                {{options_.stops[i], "", "", false}, Stage::finished, static_cast<int>(i)});
    };
    const Stage content = options_.json_only ? Stage::before_json : Stage::content;
    switch (stage) {
        case Stage::reasoning:
            exit("<", marks_.dsml, "", Stage::calls, true);
            exit("", marks_.think_end, "", content, true);
            break;
        case Stage::content:
            stops();
            if (options_.parse_calls) exit("<", marks_.dsml, "", Stage::calls, true);
            exit("", marks_.think_end, "", Stage::content);
            break;
        case Stage::before_json:
            exit("```json\n", "", "", Stage::json);
            exit("```\n", "", "", Stage::json);
            exit("{", "", "", Stage::json);
            exit("[", "", "", Stage::json);
            if (options_.parse_calls) exit("<", marks_.dsml, "", Stage::calls, true);
            exit("", marks_.think_end, "", Stage::before_json);
            break;
        case Stage::json:
            stops();
            exit("\n```", "", "", Stage::after_json);
            if (options_.parse_calls) exit("<", marks_.dsml, "", Stage::calls, true);
            exit("", marks_.think_end, "", Stage::json);
            break;
        case Stage::after_json:
            if (options_.parse_calls) exit("<", marks_.dsml, "", Stage::calls, true);
            exit("", marks_.think_end, "", Stage::after_json);
            break;
        case Stage::calls:
            exit("invoke name=\"", "", "", Stage::name);
            exit("</", marks_.dsml, "tool_calls>", Stage::finished);
            exit("</", marks_.dsml, " calls>", Stage::finished);
            break;
        case Stage::name:
            exit("\"", "", "", Stage::arguments);
            break;
        case Stage::arguments:
            exit("parameter name=", "", "", Stage::before_key);
            exit("</", marks_.dsml, "", Stage::calls);
            break;
        case Stage::before_key:
            exit("\"", "", "", Stage::key);
            break;
        case Stage::key:
            exit("\"", "", "", Stage::after_key);
            break;
        case Stage::after_key:
            exit(" ", "", "", Stage::attribute);
            exit(">", "", "", Stage::string_value);  // the model forgot to say
            break;
        case Stage::attribute:
            exit("true\">", "", "", Stage::string_value);
            exit("false\">", "", "", Stage::raw_value);
            break;
        case Stage::string_value:
        case Stage::raw_value:
            exit("</", marks_.dsml, "", Stage::arguments);
            break;
        case Stage::finished:
            break;
    }
    std::vector<Marker> markers;
    for (const Exit& one : result.exits) markers.push_back(one.marker);
    result.matcher = MarkerMatcher(std::move(markers));
    return result;
}

void DeepSeekOutput::enter(Stage stage) {
    stage_ = stage;
    at_start_ = true;
    blank_piece_ = 0;
    auto& rules = rules_[static_cast<size_t>(stage)];
    if (!rules) rules = std::make_unique<StageRules>(make_rules(stage));
    rules->matcher.reset();
}

// Text without pieces of its own is of the piece at hand.
void DeepSeekOutput::add(OutputEvent::Kind kind, std::string_view text, size_t first_piece,
                         size_t last_piece) {
    if (first_piece == 0) first_piece = last_piece = piece_;
    const bool is_text = kind != OutputEvent::Kind::call_begin && kind != OutputEvent::Kind::call_end;
    if (is_text && !events_->empty() && events_->back().kind == kind) {
        events_->back().text += text;
        events_->back().last_piece = last_piece;
    } else {
        events_->push_back({kind, std::string(text), first_piece, last_piece});
    }
}

// The inside of a JSON string.
void DeepSeekOutput::add_json_string(std::string_view text, size_t first_piece, size_t last_piece) {
    std::string out;
    append_json_escaped(out, text);
    add(OutputEvent::Kind::call_arguments, out, first_piece, last_piece);
}

// One for each piece, so that the client sees that something happens.
void DeepSeekOutput::add_blank(size_t piece) {
    if (std::exchange(blank_piece_, piece) != piece) add(OutputEvent::Kind::content, " ", piece, piece);
}

// Text of the stage.
void DeepSeekOutput::emit(std::string_view text, size_t first, size_t last) {
    switch (stage_) {
        case Stage::reasoning:
        case Stage::content:
            if (at_start_) {
                text.remove_prefix(std::min(text.find_first_not_of(line_break), text.size()));
                if (text.empty()) break;
                at_start_ = false;
            }
            add(stage_ == Stage::reasoning ? OutputEvent::Kind::reasoning : OutputEvent::Kind::content, text,
                first, last);
            break;
        case Stage::json:
            add(OutputEvent::Kind::content, text, first, last);
            break;
        case Stage::name:
            name_ += text;
            break;
        case Stage::key:
        case Stage::string_value:
            add_json_string(text, first, last);
            break;
        case Stage::raw_value:
            add(OutputEvent::Kind::call_arguments, text, first, last);
            break;
        case Stage::before_json:
        case Stage::after_json:
            add_blank(last);
            break;
        case Stage::calls:
        case Stage::arguments:
        case Stage::before_key:
        case Stage::after_key:
        case Stage::attribute:
        case Stage::finished:
            break;
    }
}

// The first `size` bytes held are text.
void DeepSeekOutput::emit_held(size_t size) {
    if (size == 0) return;
    if (stage_ == Stage::before_json || stage_ == Stage::after_json)
        for (size_t i = 0; i < size; ++i) add_blank(held_pieces_[i]);
    else
        emit(std::string_view(held_).substr(0, size), held_pieces_.front(), held_pieces_[size - 1]);
    held_.erase(0, size);
    held_pieces_.erase(held_pieces_.begin(), held_pieces_.begin() + static_cast<ptrdiff_t>(size));
}

void DeepSeekOutput::take(const Exit& exit, std::string_view matched) {
    const Stage before = stage_;
    if (exit.stop >= 0) stop_ = options_.stops[static_cast<size_t>(exit.stop)];
    if (before == Stage::content && exit.next == Stage::content) return;  // a stray end of thinking
    if (before == exit.next && exit.next != Stage::calls) return;
    switch (before) {
        case Stage::before_json:
            if (exit.next == Stage::json && matched.size() == 1) add(OutputEvent::Kind::content, matched);
            break;
        case Stage::name:
            ++calls_;
            has_parameters_ = false;
            add(OutputEvent::Kind::call_begin, name_);
            name_.clear();
            break;
        case Stage::arguments:
            if (exit.next == Stage::before_key) {
                add(OutputEvent::Kind::call_arguments, has_parameters_ ? ", " : "{");
                has_parameters_ = true;
            } else {
                add(OutputEvent::Kind::call_arguments, has_parameters_ ? "}" : "{}");
                add(OutputEvent::Kind::call_end, "");
            }
            break;
        case Stage::before_key:
            add(OutputEvent::Kind::call_arguments, "\"");
            break;
        case Stage::key:
            add(OutputEvent::Kind::call_arguments, "\"");
            break;
        case Stage::after_key:
            add(OutputEvent::Kind::call_arguments, ": ");
            break;
        case Stage::string_value:
            add(OutputEvent::Kind::call_arguments, "\"");
            break;
        default:
            break;
    }
    if (exit.next == Stage::string_value) add(OutputEvent::Kind::call_arguments, "\"");
    enter(exit.next);
}

void DeepSeekOutput::push(std::string_view piece, ByteSource source, std::vector<OutputEvent>& events) {
    events_ = &events;
    ++piece_;
    while (!piece.empty() && stage_ != Stage::finished) {
        StageRules& at = rules();
        if (const size_t plain = held_.empty() ? at.matcher.skip(piece) : 0; plain > 0) {
            emit(piece.substr(0, plain), piece_, piece_);
            piece.remove_prefix(plain);
            continue;
        }
        const char byte = piece.front();
        piece.remove_prefix(1);
        held_ += byte;
        held_pieces_.push_back(piece_);
        const int found = at.matcher.feed(byte, source);
        if (found < 0) {
            const size_t open = at.matcher.open_size();
            if (held_.size() > open) emit_held(held_.size() - open);
            continue;
        }
        const Exit& exit = at.exits[static_cast<size_t>(found)];
        if (exit.stop >= 0 && !stops_apply_) {
            emit_held(held_.size());
            continue;
        }
        emit_held(held_.size() - at.matcher.found_size());
        const std::string matched = std::move(held_);
        held_.clear();
        held_pieces_.clear();
        take(exit, matched);
    }
}

void DeepSeekOutput::finish(std::vector<OutputEvent>& events) {
    events_ = &events;
    emit_held(held_.size());
    if (stage_ == Stage::string_value) add(OutputEvent::Kind::call_arguments, "\"");
    enter(Stage::finished);
}

}  // namespace deepinfer::recipe
