// A loaded model as the server uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "engine/trace.h"
#include "recipe/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::server {

// Members are destroyed in reverse order: the engine first.
struct ServedModel {
    std::string name;
    int64_t created = 0;            // Unix seconds
    std::shared_ptr<void> storage;  // whatever the others point into
    std::unique_ptr<tokenizer::Tokenizer> tokenizer;
    std::unique_ptr<recipe::ChatFormat> chat_format;  // null: the model has no chat template
    std::shared_ptr<engine::Trace> trace;             // what the engine does, if it is recorded
    std::unique_ptr<engine::Engine> engine;
};

}  // namespace deepinfer::server
