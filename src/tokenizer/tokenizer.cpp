#include "tokenizer/tokenizer.h"

#include "tokenizer/unicode.h"

namespace deepinfer::tokenizer {

std::vector<TokenId> Tokenizer::encode_parts(std::span<const TextPart> parts) const {
    std::vector<TokenId> ids;
    for (const TextPart& part : parts) {
        const std::vector<TokenId> more = encode(part.text, part.special);
        ids.insert(ids.end(), more.begin(), more.end());
    }
    return ids;
}

std::string Tokenizer::decode(const std::vector<TokenId>& ids, bool keep_special) const {
    StreamDecoder decoder(*this, keep_special);
    std::string text;
    for (const TokenId id : ids) text += decoder.push(id);
    text += decoder.finish();
    return text;
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool keep_special, StreamStart start)
    : tokenizer_(tokenizer), keep_special_(keep_special), at_start_(start == StreamStart::new_text) {}

std::string StreamDecoder::push(TokenId id) {
    const std::string bytes = tokenizer_.token_bytes(id, keep_special_);
    std::string_view added = bytes;
    if (at_start_ && !added.empty()) {
        at_start_ = false;
        if (tokenizer_.strips_leading_space() && added.starts_with(' ')) added.remove_prefix(1);
    }
    pending_ += added;
    std::string text;
    drain_utf8(pending_, text, false);
    return text;
}

std::string StreamDecoder::finish() {
    std::string text;
    drain_utf8(pending_, text, true);
    return text;
}

}  // namespace deepinfer::tokenizer
