// A tool call as most models write it, {"name": …, "arguments": {…}}, read byte by byte. Arguments are given out as they come, as
// soon as the name is known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recipe/output_parser.h"

namespace deepinfer::recipe {

class CallScanner {
  public:
    // How much of `text` belongs to the object: all, until it is complete or no call.
    size_t push(std::string_view text, size_t piece, std::vector<OutputEvent>& events);

    bool is_complete() const { return state_ == State::complete; }
    // It is no call. Nothing was given out then, unless has_begun(); raw() is all that was read.
    bool is_broken() const { return state_ == State::broken; }
    bool has_begun() const { return begun_; }  // the name was given out
    const std::string& raw() const { return raw_; }

  private:
    enum class State { before_object, before_key, key, colon, before_value, value, complete, broken };
    void take(char c);
    void take_value(char c);
    void end_value();
    void begin();
    void emit(OutputEvent::Kind kind, std::string_view text);

    State state_ = State::before_object;
    std::string raw_;  // until the name is known
    std::string key_, value_;
    bool in_string_ = false, escaped_ = false;
    size_t depth_ = 0;      // of the value
    bool streams_ = false;  // the value goes out as it comes
    bool begun_ = false, has_arguments_ = false;
    std::string name_, arguments_;  // arguments that came before the name
    std::vector<OutputEvent>* events_ = nullptr;
    size_t piece_ = 0;
};

}  // namespace deepinfer::recipe
