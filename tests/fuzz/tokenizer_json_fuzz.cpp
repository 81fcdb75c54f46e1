// tokenizer.json files, and texts for those that load. Run: tokenizer_json_fuzz NEW_INPUTS
// tests/fuzz/corpus/tokenizer_json
//
// Input: the file, a zero byte, a text. Any file must load or be refused with a message; plain text must
// never become a control token; ids must be in the vocabulary; streaming must equal decoding.
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace {

using namespace deepinfer;
using namespace deepinfer::tokenizer;

void check(bool condition) {
    if (!condition) std::abort();
}

// The one control token that text may become.
std::string unknown_token(std::string_view file) {
    const auto root = parse_json(file, "input");
    const auto* model = root->as_object().if_contains("model");
    const auto* unknown = model->as_object().if_contains("unk_token");
    return unknown && unknown->is_string() ? std::string(unknown->as_string()) : std::string();
}

void check_ids(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
    StreamDecoder decoder(tokenizer, true);
    std::string streamed;
    for (const TokenId id : ids) {
        check(id >= 0 && id < tokenizer.vocabulary_size());
        streamed += decoder.push(id);
    }
    streamed += decoder.finish();
    check(streamed == tokenizer.decode(ids, true));
    check(valid_utf8_prefix(streamed) == streamed.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const size_t zero = input.find('\0');
    const std::string_view text =
        zero == std::string_view::npos ? "the text <|end|> 12" : input.substr(zero + 1);
    const Result<std::unique_ptr<Tokenizer>> loaded = Tokenizer::from_json(input.substr(0, zero));
    if (!loaded) {
        check(!loaded.error().message.empty());
        return 0;
    }
    const Tokenizer& tokenizer = **loaded;
    const std::vector<TokenId> plain = tokenizer.encode(text);
    check(plain == tokenizer.encode(text));  // the second time, words come from the cache
    check_ids(tokenizer, plain);
    const std::string unknown = unknown_token(input.substr(0, zero));
    for (const TokenId id : plain) {
        for (const SpecialToken& special : tokenizer.special_tokens())
            check(id != special.id || !special.control || special.text == unknown);
    }
    check_ids(tokenizer, tokenizer.encode(text, Special::parse));
    const TextPart parts[] = {{text, Special::parse}, {text, Special::as_text}, {text, Special::parse}};
    check_ids(tokenizer, tokenizer.encode_parts(parts));
    return 0;
}
