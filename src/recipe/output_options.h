// How a model's output is to be read: follows from the request.
#pragma once

#include <string>
#include <vector>

namespace deepinfer::recipe {

enum class FirstStage {
    content,
    reasoning,
    reasoning_continued,  // the prompt ends within the thinking
    content_continued,    // the prompt ends within the answer, after its thinking
};

struct OutputOptions {
    FirstStage first = FirstStage::content;
    bool starts_in_calls = false;  // the prompt ends with the opening of a block of calls
    bool parse_calls = false;
    bool json_only = false;  // of the answer, only the JSON in it counts
    std::vector<std::string> stops = {};
};

}  // namespace deepinfer::recipe
