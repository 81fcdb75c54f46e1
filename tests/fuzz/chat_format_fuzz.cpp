// Messages through marking, the template engine, and splitting: whatever they contain, no control token comes
// from them and nothing is lost. The input is cut into messages at NUL bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/json.h"
#include "recipe/chat_format.h"
#include "support/byte_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace deepinfer;
    using testing::ByteTokenizer;
    static const ByteTokenizer tokenizer;
    static const auto format = std::move(*recipe::ChatFormat::create(tokenizer, testing::chatml_template));

    std::string text(reinterpret_cast<const char*>(data), size);
    recipe::Conversation conversation;
    std::string expected = "<s>";
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find('\0', begin), text.size());
        std::string content = text.substr(begin, end - begin);
        begin = end + 1;
        // Messages are valid UTF-8, as the JSON parser makes sure.
        if (!parse_json("[" + boost::json::serialize(boost::json::value(content)) + "]", "text")) return -1;
        expected += "<|im_start|>user\n" + content + "<|im_end|>\n";
        conversation.messages.push_back({.role = recipe::Role::user, .content = std::move(content)});
    }
    const auto tokens = format->encode(conversation, {.unix_seconds = 0});
    if (!tokens) return 0;  // every noncharacter was used
    const auto count = [&](TokenId id) {
        return static_cast<size_t>(std::count(tokens->begin(), tokens->end(), id));
    };
    const size_t messages = conversation.messages.size();
    if (count(ByteTokenizer::bos_id) != 1 || count(ByteTokenizer::im_start) != messages + 1 ||
        count(ByteTokenizer::im_end) != messages || count(ByteTokenizer::think) != 0 ||
        tokenizer.decode(*tokens, true) != expected + "<|im_start|>assistant\n")
        std::abort();
    return 0;
}
