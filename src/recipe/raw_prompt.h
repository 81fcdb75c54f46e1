// A prompt that is text as it stands, without a chat template -> token ids.
#pragma once

#include <string_view>
#include <vector>

#include "base/token.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::recipe {

struct RawPromptOptions {
    // Puts BOS in front where the model's vocabulary wants one, unless the text itself begins with it.
    bool add_bos = true;
    tokenizer::Special special = tokenizer::Special::as_text;
};

std::vector<TokenId> encode_raw_prompt(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                       const RawPromptOptions& options);

}  // namespace deepinfer::recipe
