// What must hold for every tokenizer that loads, whatever the file and the text were.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace deepinfer::tokenizer {

inline void check(bool condition) {
    if (!condition) std::abort();
}

inline void check_ids(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
    StreamDecoder decoder(tokenizer, true);
    StreamDecoder continuing(tokenizer, true, StreamStart::continues_text);
    std::string streamed, continued;
    for (const TokenId id : ids) {
        check(id >= 0 && id < tokenizer.vocabulary_size());
        streamed += decoder.push(id);
        continued += continuing.push(id);
    }
    streamed += decoder.finish();
    continued += continuing.finish();
    check(streamed == tokenizer.decode(ids, true));
    check(valid_utf8_prefix(streamed) == streamed.size());
    check(continued == streamed || (tokenizer.strips_leading_space() && continued == " " + streamed));
}

// Plain text must never become a control token, but for the unknown token as `is_unknown(SpecialToken)` tells
// it; ids must be in the vocabulary; streaming must equal decoding.
template <class IsUnknown>
void check_tokenizer(const Tokenizer& tokenizer, std::string_view text, const IsUnknown& is_unknown) {
    const std::vector<TokenId> plain = tokenizer.encode(text);
    check(plain == tokenizer.encode(text));  // the second time, words come from the cache
    check_ids(tokenizer, plain);
    for (const TokenId id : plain) {
        for (const SpecialToken& special : tokenizer.special_tokens())
            check(id != special.id || !special.control || is_unknown(special));
    }
    check_ids(tokenizer, tokenizer.encode(text, Special::parse));
    const TextPart parts[] = {{text, Special::parse}, {text, Special::as_text}, {text, Special::parse}};
    check_ids(tokenizer, tokenizer.encode_parts(parts));
}

}  // namespace deepinfer::tokenizer
