// Finds markers in a stream of bytes, one byte at a time, and says how much of the stream may still become one.
//
// A marker is text of which stretches may be control tokens. In a stream of text it is found by its spelling. In a stream of
// tokens only control tokens match those stretches, and only plain text the others: a model that spells a marker out with
// plain tokens says it, and does not mean it.
//
// Knuth-Morris-Pratt for each marker: constant time and memory per byte.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::recipe {

enum class ByteSource : char {
    text,  // tokens are not known
    plain_token,
    control_token,
};

struct Marker {
    std::string before, control, after;  // control: the spelling of a control token, perhaps empty
    bool takes_line_breaks = false;      // those right before it belong to it

    size_t size() const { return before.size() + control.size() + after.size(); }
};

class MarkerMatcher {
  public:
    // Of markers that are complete at the same byte the first counts.
    explicit MarkerMatcher(std::vector<Marker> markers);

    // How many of the bytes that come next cannot belong to a marker: they need not be fed.
    size_t skip(std::string_view bytes) const;
    // The marker that is complete with this byte, or -1.
    int feed(char byte, ByteSource source);
    void reset();

    // After feed(): how many of the last bytes belong to the marker just found, or may belong to one that is not complete.
    size_t found_size() const { return found_size_; }
    size_t open_size() const { return open_size_; }

  private:
    struct State {
        std::string bytes;
        size_t control_begin = 0, control_end = 0;
        bool takes_line_breaks = false;
        std::vector<size_t> fallback;  // of each length: the longest proper border
        size_t matched = 0;
        size_t line_breaks = 0;  // right before what is matched
    };
    static bool fits(const State& state, char byte, ByteSource source);
    static void advance(State& state, char byte, ByteSource source);

    std::vector<State> states_;
    bool begins_[256] = {};  // a marker, or line breaks that belong to one
    size_t found_size_ = 0, open_size_ = 0;
};

}  // namespace deepinfer::recipe
