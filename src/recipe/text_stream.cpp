#include "recipe/text_stream.h"

#include <algorithm>
#include <utility>

namespace deepinfer::recipe {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
    // Longest first, so that of those that end at the same character the longest is found.
    std::sort(stops_.begin(), stops_.end(),
              [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

std::string StopMatcher::push(std::string_view text) {
    if (stopped()) return {};
    for (const char c : text) {
        held_ += c;
        for (size_t i = 0; i < stops_.size(); ++i) {
            if (held_.ends_with(stops_[i])) {
                stopped_ = static_cast<int>(i);
                std::string out = std::exchange(held_, {});
                out.resize(out.size() - stops_[i].size());
                return out;
            }
        }
    }
    const size_t held = held_size();
    std::string out = held_.substr(0, held_.size() - held);
    held_.erase(0, out.size());
    return out;
}

// The longest end of held_ that is the beginning of a stop string, in bytes.
size_t count_characters(std::string_view text) {
    return static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

size_t StopMatcher::held_size() const {
    size_t longest = 0;
    for (const std::string& stop : stops_) {
        for (size_t size = std::min(stop.size() - 1, held_.size()); size > longest; --size) {
            if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, size))) longest = size;
        }
    }
    return longest;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

TextStream::TextStream(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stops,
                       int32_t min_tokens)
    : decoder_(tokenizer, false, tokenizer::StreamStart::continues_text),
      matcher_(std::move(stops)),
      unmatched_tokens_(min_tokens) {}

std::string TextStream::pass(std::string text) {
    decoded_bytes_ += text.size();
    decoded_characters_ += count_characters(text);
    std::string out = unmatched_tokens_ > 0 ? std::move(text) : matcher_.push(text);
    emitted_bytes_ += out.size();
    return out;
}

std::string TextStream::push(TokenId token) {
    if (stopped()) return {};
    std::string out = pass(decoder_.push(token));
    if (unmatched_tokens_ > 0) --unmatched_tokens_;
    return out;
}

std::string TextStream::finish() {
    if (stopped()) return {};
    std::string out = pass(decoder_.finish());
    if (stopped()) return out;
    const std::string rest = matcher_.finish();
    emitted_bytes_ += rest.size();
    return out + rest;
}

}  // namespace deepinfer::recipe
