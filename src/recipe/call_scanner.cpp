#include "recipe/call_scanner.h"

#include "base/json.h"

namespace deepinfer::recipe {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_arguments(std::string_view key) { return key == "arguments" || key == "parameters"; }

// Nothing if it is no JSON string.
std::optional<std::string> unquoted(std::string_view text) {
    const auto parsed = parse_json(text, "string");
    if (!parsed || !parsed->is_string()) return std::nullopt;
    return std::string(parsed->get_string());
}

constexpr size_t longest_name = 256, longest_key = 64;

}  // namespace

void CallScanner::emit(OutputEvent::Kind kind, std::string_view text) {
    if (kind == OutputEvent::Kind::call_arguments && !events_->empty() && events_->back().kind == kind) {
        events_->back().text += text;
        events_->back().last_piece = piece_;
        return;
    }
    events_->push_back({kind, std::string(text), piece_, piece_});
}

size_t CallScanner::push(std::string_view text, size_t piece, std::vector<OutputEvent>& events) {
    events_ = &events;
    piece_ = piece;
    size_t used = 0;
    while (used < text.size() && !is_complete() && !is_broken()) {
        if (!begun_) raw_ += text[used];
        take(text[used++]);
    }
    return used;
}

void CallScanner::take(char c) {
    switch (state_) {
        case State::before_object:
            if (c == '{')
                state_ = State::before_key;
            else if (!is_space(c))
                state_ = State::broken;
            break;
        case State::before_key:
            if (c == '"') {
                key_.clear();
                state_ = State::key;
            } else if (c == '}') {
                if (!begun_) {
                    state_ = State::broken;
                    break;
                }
                if (!has_arguments_) emit(OutputEvent::Kind::call_arguments, "{}");
                emit(OutputEvent::Kind::call_end, "");
                state_ = State::complete;
            } else if (!is_space(c) && c != ',') {
                state_ = State::broken;
            }
            break;
        case State::key:
            if (c == '"')
                state_ = State::colon;
            else if (key_.size() >= longest_key)
                state_ = State::broken;
            else
                key_ += c;
            break;
        case State::colon:
            if (c == ':')
                state_ = State::before_value;
            else if (!is_space(c))
                state_ = State::broken;
            break;
        case State::before_value:
            if (is_space(c)) break;
            value_.clear();
            depth_ = 0;
            in_string_ = escaped_ = false;
            // Some models write the arguments as a text with JSON in it: known when it ends.
            streams_ = is_arguments(key_) && begun_ && !has_arguments_ && c != '"';
            state_ = State::value;
            [[fallthrough]];
        case State::value:
            take_value(c);
            break;
        case State::complete:
        case State::broken:
            break;
    }
}

void CallScanner::take_value(char c) {
    if (!in_string_ && depth_ == 0 && !value_.empty() &&
        (c == ',' || c == '}' || is_space(c))) {  // a number or word
        end_value();
        if (state_ == State::before_key) take(c);
        return;
    }
    if (streams_) {
        emit(OutputEvent::Kind::call_arguments, std::string_view(&c, 1));
        value_ = c;  // that there is one
    } else if (key_ == "name" && value_.size() >= longest_name) {
        state_ = State::broken;
        return;
    } else {
        value_ += c;
    }
    if (in_string_) {
        if (escaped_)
            escaped_ = false;
        else if (c == '\\')
            escaped_ = true;
        else if (c == '"')
            in_string_ = false;
        if (!in_string_ && depth_ == 0) end_value();
    } else if (c == '"') {
        in_string_ = true;
    } else if (c == '{' || c == '[') {
        ++depth_;
    } else if ((c == '}' || c == ']') && depth_ > 0 && --depth_ == 0) {
        end_value();
    }
}

void CallScanner::end_value() {
    state_ = State::before_key;
    if (key_ == "name" && !begun_) {
        const std::optional<std::string> name = unquoted(value_);
        if (!name || name->empty()) {
            state_ = State::broken;
            return;
        }
        name_ = *name;
        begin();
    } else if (is_arguments(key_) && !has_arguments_) {
        has_arguments_ = true;
        if (streams_) return;
        const std::string text = unquoted(value_).value_or(value_);
        if (begun_)
            emit(OutputEvent::Kind::call_arguments, text);
        else
            arguments_ = text;
    }
}

void CallScanner::begin() {
    begun_ = true;
    emit(OutputEvent::Kind::call_begin, name_);
    if (has_arguments_) emit(OutputEvent::Kind::call_arguments, arguments_);
}

}  // namespace deepinfer::recipe
