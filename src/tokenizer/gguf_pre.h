// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre. Internal to the tokenizer layer.
#pragma once

#include <string_view>

#include "base/result.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"

namespace deepinfer::tokenizer {

struct GgufPreTokenizer {
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    bool ignore_merges = false;
    bool adds_bos = false;  // when tokenizer.ggml.add_bos_token is absent
};

// Unsupported, by name, if the name is not known.
Result<GgufPreTokenizer> make_gguf_pre_tokenizer(std::string_view name);

}  // namespace deepinfer::tokenizer
