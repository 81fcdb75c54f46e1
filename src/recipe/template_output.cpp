#include "recipe/template_output.h"

#include <algorithm>

namespace deepinfer::recipe {
namespace {

constexpr std::string_view call_begin = "<tool_call>", call_end = "</tool_call>";
constexpr std::string_view white_space = " \n\t\r", between_calls = " \n\t\r;";

Marker marker(std::string_view spelling, bool is_token, bool takes_line_breaks = false) {
    if (is_token) return {"", std::string(spelling), "", takes_line_breaks};
    return {std::string(spelling), "", "", takes_line_breaks};
}

}  // namespace

TemplateOutput::TemplateOutput(const OutputOptions& options, const TemplateSyntax& syntax)
    : options_(options), syntax_(syntax) {
    may_be_bare_ = options_.parse_calls && syntax_.calls == CallSyntax::bare;
    switch (options_.first) {
        case FirstStage::content:
            enter(syntax_.think_begin.empty() ? Stage::content : Stage::opening);
            break;
        case FirstStage::reasoning:
            enter(Stage::reasoning);
            break;
        case FirstStage::reasoning_continued:
            enter(Stage::reasoning);
            at_start_ = false;
            break;
        case FirstStage::content_continued:
            enter(Stage::content);
            at_start_ = may_be_bare_ = false;
            break;
    }
    if (options_.starts_in_calls) {
        enter(Stage::call);
        scanner_.emplace();
    }
    started_ = true;
}

std::unique_ptr<TemplateOutput::Rules> TemplateOutput::make_rules(Stage stage) const {
    auto rules = std::make_unique<Rules>();
    const auto exit = [&](Marker made, Stage next, int stop = -1) {
        rules->exits.push_back({std::move(made), next, stop});
    };
    switch (stage) {
        case Stage::opening:
            exit(marker(syntax_.think_begin, syntax_.think_is_token, true), Stage::reasoning);
            [[fallthrough]];
        case Stage::content:
            for (size_t i = 0; i < options_.stops.size(); ++i)
                exit(marker(options_.stops[i], false), Stage::finished, static_cast<int>(i));
            if (options_.parse_calls && syntax_.calls == CallSyntax::tagged)
                exit(marker(call_begin, syntax_.call_is_token, true), Stage::call);
            break;
        case Stage::reasoning:
            exit(marker(syntax_.think_end, syntax_.think_is_token, true), Stage::content);
            break;
        case Stage::call:
            if (syntax_.calls == CallSyntax::tagged)
                exit(marker(call_end, syntax_.call_is_token, true), Stage::content);
            break;
        case Stage::finished:
            break;
    }
    std::vector<Marker> markers;
    for (const Exit& one : rules->exits) markers.push_back(one.marker);
    rules->matcher = MarkerMatcher(std::move(markers));
    return rules;
}

void TemplateOutput::enter(Stage stage) {
    stage_ = stage;
    at_start_ = true;
    strips_ = started_ || may_be_bare_ || stage == Stage::reasoning;
    auto& rules = rules_[static_cast<size_t>(stage)];
    if (!rules) rules = make_rules(stage);
    rules->matcher.reset();
}

void TemplateOutput::emit(OutputEvent::Kind kind, std::string_view text, size_t first, size_t last) {
    if (text.empty()) return;
    if (!events_->empty() && events_->back().kind == kind) {
        events_->back().text += text;
        events_->back().last_piece = last;
    } else {
        events_->push_back({kind, std::string(text), first, last});
    }
}

void TemplateOutput::scan(std::string_view text) {
    const bool had_begun = scanner_->has_begun();
    const size_t used = scanner_->push(text, piece_, *events_);
    if (scanner_->has_begun() && !had_begun) ++calls_;
    if (scanner_->is_broken()) {
        // What was read is text; more may follow until the end of the tag, as text, too.
        std::string said = scanner_->has_begun() ? std::string() : scanner_->raw();
        if (syntax_.calls == CallSyntax::tagged && !scanner_->has_begun()) said.insert(0, call_begin);
        said += text.substr(used);
        const bool was_tagged = syntax_.calls == CallSyntax::tagged;
        scanner_.reset();
        if (!was_tagged) {
            enter(Stage::content);
            at_start_ = may_be_bare_ = false;
        }
        emit(OutputEvent::Kind::content, said, piece_, piece_);
    } else if (scanner_->is_complete()) {
        scanner_.reset();
        if (syntax_.calls != CallSyntax::bare)
            return;  // until the end of the tag white space is all that should come
        enter(Stage::content);
        const std::string_view rest = text.substr(used);
        const size_t next = std::min(rest.find_first_not_of(between_calls), rest.size());
        if (next < rest.size()) {
            scanner_.emplace();
            enter(Stage::call);
            scan(rest.substr(next));
        }
    }
}

// Text of the stage.
void TemplateOutput::emit_text(std::string_view text, size_t first, size_t last) {
    if (stage_ == Stage::call) {
        if (scanner_)
            scan(text);
        else if (text.find_first_not_of(white_space) != text.npos && syntax_.calls == CallSyntax::tagged)
            emit(OutputEvent::Kind::content, text, first, last);
        return;
    }
    if (at_start_) {
        // Line breaks between thinking, calls and answer are the template's.
        const std::string_view nothing = may_be_bare_ && calls_ > 0 ? between_calls : white_space;
        if (strips_) text.remove_prefix(std::min(text.find_first_not_of(nothing), text.size()));
        if (text.empty()) return;
        at_start_ = false;
        if (stage_ != Stage::reasoning && may_be_bare_ && text.front() == '{') {
            scanner_.emplace();
            enter(Stage::call);
            return scan(text);
        }
    }
    emit(stage_ == Stage::reasoning ? OutputEvent::Kind::reasoning : OutputEvent::Kind::content, text, first,
         last);
}

// The first `size` bytes held are text.
void TemplateOutput::emit_held(size_t size) {
    if (size == 0) return;
    const std::string text = held_.substr(0, size);
    const size_t first = held_pieces_.front(), last = held_pieces_[size - 1];
    held_.erase(0, size);
    held_pieces_.erase(held_pieces_.begin(), held_pieces_.begin() + static_cast<ptrdiff_t>(size));
    emit_text(text, first, last);
}

void TemplateOutput::end_call() {
    if (scanner_ && !scanner_->is_complete() && !scanner_->has_begun()) {
        std::string said = scanner_->raw();
        if (syntax_.calls == CallSyntax::tagged) said.insert(0, call_begin);
        emit(OutputEvent::Kind::content, said, piece_, piece_);
    }
    scanner_.reset();
}

void TemplateOutput::take(const Exit& exit) {
    if (exit.stop >= 0) stop_ = options_.stops[static_cast<size_t>(exit.stop)];
    if (stage_ == Stage::call) end_call();
    enter(exit.next);
    if (exit.next == Stage::call) scanner_.emplace();
}

void TemplateOutput::push(std::string_view piece, ByteSource source, std::vector<OutputEvent>& events) {
    events_ = &events;
    ++piece_;
    while (!piece.empty() && stage_ != Stage::finished) {
        Rules& rules = *rules_[static_cast<size_t>(stage_)];
        if (const size_t plain = held_.empty() ? rules.matcher.skip(piece) : 0; plain > 0) {
            const std::string_view text = piece.substr(0, plain);
            piece.remove_prefix(plain);
            emit_text(text, piece_, piece_);
            continue;
        }
        const char byte = piece.front();
        piece.remove_prefix(1);
        held_ += byte;
        held_pieces_.push_back(piece_);
        const int found = rules.matcher.feed(byte, source);
        if (found < 0) {
            const size_t open = rules.matcher.open_size();
            if (held_.size() > open) emit_held(held_.size() - open);
            continue;
        }
        const Exit& exit = rules.exits[static_cast<size_t>(found)];
        const bool too_late =
            exit.next == Stage::reasoning && !at_start_;  // only an answer's beginning can be its thinking
        if (too_late || (exit.stop >= 0 && !stops_apply_)) {
            emit_held(held_.size());
            continue;
        }
        emit_held(held_.size() - rules.matcher.found_size());
        held_.clear();
        held_pieces_.clear();
        take(exit);
    }
}

void TemplateOutput::finish(std::vector<OutputEvent>& events) {
    events_ = &events;
    emit_held(held_.size());
    end_call();
    enter(Stage::finished);
}

}  // namespace deepinfer::recipe
