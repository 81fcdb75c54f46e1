// Conversation -> prompt as the DeepSeek V4 and V4.1 models were trained on it, byte for byte what the official service sends
// them.
//
// Control tokens come from the format only; but the eight grounding marks in what the assistant itself said are tokens again.
//
// Threads: immutable; any number may call at once.
#pragma once

#include <array>
#include <string>

#include "base/result.h"
#include "recipe/conversation.h"
#include "recipe/json_text.h"
#include "recipe/marked_text.h"

namespace deepinfer::recipe {

enum class DeepSeekVersion { v4, v41 };

// Spellings of the control tokens. Those of the vocabulary at hand may differ.
struct DeepSeekMarks {
    std::string bos = "<｜begin▁of▁sentence｜>";
    std::string eos = "<｜end▁of▁sentence｜>";
    std::string system = "<｜System｜>";  // V4.1
    std::string user = "<｜User｜>";
    std::string assistant = "<｜Assistant｜>";
    std::string think_begin = "<think>";
    std::string think_end = "</think>";
    std::string dsml = "｜DSML｜";  // the brackets around it are text
    std::string latest_reminder = "<｜latest_reminder｜>";
    std::string image = "<｜image｜>";  // V4.1
    std::array<std::string, 8> grounding = {"<｜ref｜>",   "<｜/ref｜>",   "<｜box｜>",     "<｜/box｜>",
                                            "<｜point｜>", "<｜/point｜>", "<｜polygon｜>", "<｜/polygon｜>"};
};

struct DeepSeekPrompt {
    MarkedText marked;
    std::vector<Image> images;  // one for each image mark, in order
};

class DeepSeekFormat {
  public:
    explicit DeepSeekFormat(DeepSeekVersion version, DeepSeekMarks marks = {});

    DeepSeekVersion version() const { return version_; }
    const DeepSeekMarks& marks() const { return marks_; }
    JsonStyle json_style() const;  // of schemas and arguments

    // A conversation without a word on thinking thinks. A format of regex is no part of the prompt.
    DeepSeekPrompt render(const Conversation& conversation) const;

  private:
    const DeepSeekVersion version_;
    const DeepSeekMarks marks_;
};

}  // namespace deepinfer::recipe
