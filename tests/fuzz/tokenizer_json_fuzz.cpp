// tokenizer.json files, and texts for those that load. Run: tokenizer_json_fuzz NEW_INPUTS
// tests/fuzz/corpus/tokenizer_json
//
// Input: the file, a zero byte, a text. Any file must load or be refused with a message.
#include <string_view>

#include "base/json.h"
#include "tokenizer_invariants.h"

namespace {

using namespace deepinfer;
using namespace deepinfer::tokenizer;

// The one control token that text may become.
std::string unknown_token(std::string_view file) {
    const auto root = parse_json(file, "input");
    const auto* model = root->as_object().if_contains("model");
    const auto* unknown = model->as_object().if_contains("unk_token");
    return unknown && unknown->is_string() ? std::string(unknown->as_string()) : std::string();
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
    const std::string unknown = unknown_token(input.substr(0, zero));
    check_tokenizer(**loaded, text, [&](const SpecialToken& token) { return token.text == unknown; });
    return 0;
}
