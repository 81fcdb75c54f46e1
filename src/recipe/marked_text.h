// Prompt text in which some stretches are control tokens.
//
// What is written with add() is text, whatever it spells; only add_special() makes control tokens. So a message can never
// become one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::recipe {

struct Range {
    size_t begin = 0, end = 0;  // bytes
    bool operator==(const Range&) const = default;
};

struct MarkedText {
    std::string text;
    std::vector<Range> special;  // in order; each is the spelling of one added token

    void add(std::string_view plain) { text += plain; }
    void add_special(std::string_view spelling) {
        special.push_back({text.size(), text.size() + spelling.size()});
        text += spelling;
    }
};

// Each plain stretch is encoded for itself. invalid_argument if the vocabulary has no token of a special spelling.
Result<std::vector<TokenId>> encode(const tokenizer::Tokenizer& tokenizer, const MarkedText& marked);

}  // namespace deepinfer::recipe
