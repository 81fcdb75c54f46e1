// A tokenizer.json small enough to read: byte-level BPE with all bytes, a few merges and a few added tokens.
#pragma once

#include <string>

#include "base/json.h"
#include "tokenizer/byte_alphabet.h"

namespace deepinfer::tokenizer {

// Ids: byte b is b; then 256 "th", 257 "the", 258 "Ġthe", 259 "ll"; added tokens from 260 on: <|end|>
// (special), <think> (not special), two spaces (not special).
inline boost::json::object small_tokenizer_json() {
    namespace json = boost::json;
    const ByteAlphabet alphabet;
    json::object vocab;
    for (int byte = 0; byte < 256; ++byte) vocab[alphabet.character(uint8_t(byte))] = byte;
    vocab["th"] = 256, vocab["the"] = 257, vocab["Ġthe"] = 258, vocab["ll"] = 259;
    const auto added = [](int id, const char* content, bool special) {
        return json::object{{"id", id},          {"content", content}, {"single_word", false},
                            {"lstrip", false},   {"rstrip", false},    {"normalized", false},
                            {"special", special}};
    };
    return json::object{
        {"version", "1.0"},
        {"added_tokens",
         json::array{added(260, "<|end|>", true), added(261, "<think>", false), added(262, "  ", false)}},
        {"normalizer", nullptr},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
        {"post_processor", nullptr},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model",
         {{"type", "BPE"},
          {"vocab", std::move(vocab)},
          {"merges", json::array{"t h", "th e", "Ġ the", "l l"}}}},
    };
}

}  // namespace deepinfer::tokenizer
