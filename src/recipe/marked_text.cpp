#include "recipe/marked_text.h"

#include <optional>

#include "base/quote.h"

namespace deepinfer::recipe {

Result<std::vector<TokenId>> encode(const tokenizer::Tokenizer& tokenizer, const MarkedText& marked) {
    std::vector<TokenId> tokens;
    const std::string_view text = marked.text;
    const auto add_plain = [&](size_t begin, size_t end) {
        if (begin == end) return;
        const std::vector<TokenId> plain = tokenizer.encode(text.substr(begin, end - begin));
        tokens.insert(tokens.end(), plain.begin(), plain.end());
    };
    size_t at = 0;
    for (const Range& range : marked.special) {
        add_plain(at, range.begin);
        const std::string_view spelling = text.substr(range.begin, range.end - range.begin);
        const std::optional<TokenId> token = tokenizer.find_special(spelling);
        if (!token)
            return Error{ErrorCode::invalid_argument, "the vocabulary has no token " +
                                                          quote(std::string(spelling)) +
                                                          ", which the prompt format needs"};
        tokens.push_back(*token);
        at = range.end;
    }
    add_plain(at, text.size());
    return tokens;
}

}  // namespace deepinfer::recipe
