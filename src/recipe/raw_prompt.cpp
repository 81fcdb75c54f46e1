#include "recipe/raw_prompt.h"

#include <optional>

namespace deepinfer::recipe {

std::vector<TokenId> encode_raw_prompt(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                       const RawPromptOptions& options) {
    std::vector<TokenId> tokens = tokenizer.encode(text, options.special);
    const std::optional<TokenId> bos = tokenizer.bos();
    if (options.add_bos && tokenizer.adds_bos() && bos && (tokens.empty() || tokens.front() != *bos))
        tokens.insert(tokens.begin(), *bos);
    return tokens;
}

}  // namespace deepinfer::recipe
