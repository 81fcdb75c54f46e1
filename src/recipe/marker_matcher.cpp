#include "recipe/marker_matcher.h"

#include <algorithm>

namespace deepinfer::recipe {

MarkerMatcher::MarkerMatcher(std::vector<Marker> markers) {
    for (Marker& marker : markers) {
        State state;
        state.control_begin = marker.before.size();
        state.control_end = state.control_begin + marker.control.size();
        state.takes_line_breaks = marker.takes_line_breaks;
        state.bytes = marker.before + marker.control + marker.after;
        // Borders by bytes alone: markers with control tokens have none, so that sources cannot matter.
        state.fallback.assign(state.bytes.size() + 1, 0);
        for (size_t i = 1, border = 0; i < state.bytes.size(); ++i) {
            while (border > 0 && state.bytes[i] != state.bytes[border]) border = state.fallback[border];
            if (state.bytes[i] == state.bytes[border]) ++border;
            state.fallback[i + 1] = border;
        }
        if (!state.bytes.empty()) begins_[static_cast<unsigned char>(state.bytes[0])] = true;
        if (state.takes_line_breaks) begins_[static_cast<unsigned char>('\n')] = true;
        states_.push_back(std::move(state));
    }
}

size_t MarkerMatcher::skip(std::string_view bytes) const {
    if (open_size_ > 0) return 0;
    size_t size = 0;
    while (size < bytes.size() && !begins_[static_cast<unsigned char>(bytes[size])]) ++size;
    return size;
}

void MarkerMatcher::reset() {
    for (State& state : states_) state.matched = state.line_breaks = 0;
    found_size_ = open_size_ = 0;
}

bool MarkerMatcher::fits(const State& state, char byte, ByteSource source) {
    const size_t at = state.matched;
    if (at >= state.bytes.size() || state.bytes[at] != byte) return false;
    if (source == ByteSource::text) return true;
    const bool is_control = at >= state.control_begin && at < state.control_end;
    return is_control == (source == ByteSource::control_token);
}

void MarkerMatcher::advance(State& state, char byte, ByteSource source) {
    const bool was_open = state.matched > 0;
    while (state.matched > 0 && !fits(state, byte, source)) state.matched = state.fallback[state.matched];
    if (fits(state, byte, source)) {
        if (was_open && state.matched == 0) state.line_breaks = 0;  // it begins anew, after other bytes
        ++state.matched;
    } else if (byte == '\n' && source != ByteSource::control_token) {
        state.line_breaks = was_open ? 1 : state.line_breaks + 1;
    } else {
        state.line_breaks = 0;
    }
}

int MarkerMatcher::feed(char byte, ByteSource source) {
    int found = -1;
    open_size_ = 0;
    for (size_t i = 0; i < states_.size(); ++i) {
        State& state = states_[i];
        advance(state, byte, source);
        const size_t size = state.matched + (state.takes_line_breaks ? state.line_breaks : 0);
        if (state.matched == state.bytes.size()) {
            if (found < 0) {
                found = static_cast<int>(i);
                found_size_ = size;
            }
        } else {
            open_size_ = std::max(open_size_, size);
        }
    }
    if (found >= 0) {
        for (State& state : states_) state.matched = state.line_breaks = 0;
        open_size_ = 0;
    }
    return found;
}

}  // namespace deepinfer::recipe
