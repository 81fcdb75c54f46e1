// Tokenizers in GGUF metadata, and texts for those that load. Run: gguf_tokenizer_fuzz NEW_INPUTS
// tests/fuzz/corpus/gguf_tokenizer
//
// Input: a GGUF file. Any file must load or be refused with a message.
#include <algorithm>
#include <string>

#include "checkpoint_invariants.h"
#include "tokenizer_invariants.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace deepinfer;
    const auto file = checkpoint::Checkpoint::parse_gguf(std::as_bytes(std::span(data, size)));
    if (!file) return 0;  // gguf_fuzz's business
    const checkpoint::Metadata& metadata = (*file)->metadata();
    const auto loaded = tokenizer::Tokenizer::from_checkpoint(**file);
    if (!loaded) {
        checkpoint::check_error(loaded.error());
        return 0;
    }
    // SentencePiece vocabularies have an unknown token, which is 0 unless they say otherwise.
    const bool has_unknown = *metadata.string("tokenizer.ggml.model") != "gpt2";
    const int64_t unknown = metadata.integer("tokenizer.ggml.unknown_token_id")->value_or(0);
    // The end of the file, too: its bytes are what the fuzzer changes.
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const std::string text = "ab the  text\n<|im_end|> <b>12 \u6F22" +
                             std::string(bytes.substr(size - std::min<size_t>(size, 48)));
    tokenizer::check_tokenizer(**loaded, text, [&](const tokenizer::SpecialToken& token) {
        return has_unknown && token.id == unknown;
    });
    return 0;
}
