// Tokenizers from GGUF metadata.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/loaders.h"

namespace deepinfer::tokenizer {
namespace {

using checkpoint::Metadata;
using checkpoint::MetadataArray;
using Ids = std::vector<TokenId>;

template <class T>
void set_list(Metadata& metadata, const std::string& key, std::vector<T> values) {
    metadata.values["tokenizer.ggml." + key] =
        std::make_shared<const MetadataArray>(MetadataArray{std::move(values)});
}

// Views need an owner.
const std::vector<std::string>& byte_characters() {
    static const std::vector<std::string> all = [] {
        const ByteAlphabet alphabet;
        std::vector<std::string> characters;
        for (int byte = 0; byte < 256; ++byte) characters.push_back(alphabet.character(uint8_t(byte)));
        return characters;
    }();
    return all;
}

const std::vector<std::string>& byte_tokens() {
    static const std::vector<std::string> all = [] {
        static constexpr char kHex[] = "0123456789ABCDEF";
        std::vector<std::string> tokens;
        for (int byte = 0; byte < 256; ++byte)
            tokens.push_back(std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">");
        return tokens;
    }();
    return all;
}

// Byte b is id b; 256 "th", 257 "the", 258 <|im_start|> (control), 259 <|im_end|> (user-defined, wrongly),
// 260 <tool> (user-defined), 261 [PAD] (unused).
Metadata byte_level() {
    Metadata metadata;
    metadata.values["general.architecture"] = std::string("llama");
    metadata.values["tokenizer.ggml.model"] = std::string("gpt2");
    metadata.values["tokenizer.ggml.pre"] = std::string("smollm");
    std::vector<std::string_view> tokens(byte_characters().begin(), byte_characters().end());
    std::vector<int64_t> types(256, 1);
    for (const auto& [token, type] : {std::pair{"th", 1},
                                      {"the", 1},
                                      {"<|im_start|>", 3},
                                      {"<|im_end|>", 4},
                                      {"<tool>", 4},
                                      {"[PAD]", 5}})
        tokens.emplace_back(token), types.push_back(type);
    set_list(metadata, "tokens", tokens);
    set_list(metadata, "token_type", types);
    set_list<std::string_view>(metadata, "merges", {"t h", "th e"});
    metadata.values["tokenizer.ggml.bos_token_id"] = uint64_t{258};
    metadata.values["tokenizer.ggml.eos_token_id"] = uint64_t{259};
    metadata.values["tokenizer.chat_template"] = std::string("{{ messages }}");
    return metadata;
}

// Scores order the merges: "ab" before "bc"; equal for "xy" and "yx".
Metadata sentencepiece() {
    Metadata metadata;
    metadata.values["general.architecture"] = std::string("llama");
    metadata.values["tokenizer.ggml.model"] = std::string("llama");
    std::vector<std::string_view> tokens;
    std::vector<int64_t> types;
    std::vector<double> scores;
    const auto add = [&](std::string_view token, int64_t type, double score) {
        tokens.push_back(token), types.push_back(type), scores.push_back(score);
    };
    add("<unk>", 2, 0), add("<s>", 3, 0), add("</s>", 3, 0);
    for (const std::string& token : byte_tokens()) add(token, 6, 0);
    for (const char* token : {"▁", "a", "b", "c", "x", "y"}) add(token, 1, -100);   // 259 ... 264
    add("bc", 1, -2), add("ab", 1, -1), add("▁ab", 1, -3);                          // 265, 266, 267
    add("xy", 1, -5), add("yx", 1, -5);                                             // 268, 269
    add("<b>", 4, -1000), add("\n\n", 4, -1000), add("<start_of_turn>", 4, -1000);  // 270, 271, 272
    add("aé", 1, -4);      // 273: é itself is no token
    add("<s>a", 1, -0.5);  // 274: cannot come from <s> + a
    set_list(metadata, "tokens", tokens);
    set_list(metadata, "token_type", types);
    set_list(metadata, "scores", scores);
    metadata.values["tokenizer.ggml.bos_token_id"] = uint64_t{1};
    metadata.values["tokenizer.ggml.eos_token_id"] = uint64_t{2};
    return metadata;
}

std::unique_ptr<Tokenizer> load(const Metadata& metadata) {
    Result<TokenizerParts> parts = read_gguf_tokenizer(metadata);
    EXPECT_TRUE(parts) << parts.error().message;
    return make_tokenizer(std::move(*parts));
}

TEST(GgufTokenizer, ByteLevel) {
    const auto tokenizer = load(byte_level());
    EXPECT_EQ(tokenizer->vocabulary_size(), 262);
    EXPECT_EQ(tokenizer->encode("the 12"), (Ids{257, ' ', '1', '2'}));
    EXPECT_EQ(tokenizer->encode("<tool>"), (Ids{'<', 't', 'o', 'o', 'l', '>'}));
    EXPECT_EQ(tokenizer->encode("<|im_start|>the<|im_end|><tool>", Special::parse),
              (Ids{258, 257, 259, 260}));
    EXPECT_EQ(tokenizer->encode("[PAD]", Special::parse), (Ids{'[', 'P', 'A', 'D', ']'}));
    EXPECT_EQ(tokenizer->bos(), 258);
    EXPECT_EQ(tokenizer->eos(), 259);
    EXPECT_EQ(tokenizer->end_of_generation(), Ids{259});
    EXPECT_FALSE(tokenizer->adds_bos());
    EXPECT_EQ(tokenizer->chat_template(), "{{ messages }}");
    EXPECT_EQ(tokenizer->decode({258, 257, 259, 260}), "the<tool>");
    EXPECT_FALSE(tokenizer->strips_leading_space());
}

TEST(GgufTokenizer, EveryKnownPreTokenizerLoads) {
    for (const char* name :
         {"gpt-2", "smollm", "qwen2", "qwen35", "llama-bpe", "deepseek-llm", "deepseek-coder", "deepseek-v3",
          "deepseek-r1-qwen", "falcon", "gpt-4o", "starcoder", "refact", "command-r", "mpt"}) {
        Metadata metadata = byte_level();
        metadata.values["tokenizer.ggml.pre"] = std::string(name);
        const auto tokenizer = load(metadata);
        const std::string text = "The the 1234567 thé\r\n  你好 'll \t ";
        EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << name;
    }
}

TEST(GgufTokenizer, DigitsAreCutAsThePreTokenizerSays) {
    const auto ids = [](const char* pre, std::string_view text) {
        Metadata metadata = byte_level();
        metadata.values["tokenizer.ggml.pre"] = std::string(pre);
        std::vector<std::string_view> tokens(byte_characters().begin(), byte_characters().end());
        for (const char* token : {"12", "123", "1234", "Ġ1"}) tokens.emplace_back(token);
        set_list(metadata, "tokens", tokens);
        set_list(metadata, "token_type", std::vector<int64_t>(tokens.size(), 1));
        set_list<std::string_view>(metadata, "merges", {"1 2", "12 3", "123 4", "Ġ 1"});
        metadata.values.erase("tokenizer.ggml.bos_token_id");
        metadata.values.erase("tokenizer.ggml.eos_token_id");
        return load(metadata)->encode(text);
    };
    EXPECT_EQ(ids("gpt-2", "1234"), Ids{258});
    EXPECT_EQ(ids("smollm", "1234"), (Ids{'1', '2', '3', '4'}));
    EXPECT_EQ(ids("qwen2", "1234"), (Ids{'1', '2', '3', '4'}));
    EXPECT_EQ(ids("llama-bpe", "1234"), (Ids{257, '4'}));
    EXPECT_EQ(ids("deepseek-v3", "1234"), (Ids{257, '4'}));
    EXPECT_EQ(ids("gpt-2", " 1"), Ids{259});
    EXPECT_EQ(ids("smollm", " 1"), (Ids{' ', '1'}));
}

TEST(GgufTokenizer, SentencePieceMergesByScore) {
    const auto tokenizer = load(sentencepiece());
    EXPECT_EQ(tokenizer->encode("abc"), (Ids{267, 261 + 1}));   // ▁ab, c: "ab" (-1) goes before "bc" (-2)
    EXPECT_EQ(tokenizer->encode("cbc"), (Ids{259, 262, 265}));  // ▁, c, bc
    EXPECT_EQ(tokenizer->encode("xyx"), (Ids{259, 268, 263}));  // equal scores: the left one first
    EXPECT_EQ(tokenizer->encode("yxy"), (Ids{259, 269, 264}));
    EXPECT_EQ(tokenizer->encode("aé"), (Ids{259, 273}));  // through a character that is no token
    EXPECT_EQ(tokenizer->encode("é"), (Ids{259, 3 + 0xC3, 3 + 0xA9}));
    EXPECT_EQ(tokenizer->encode("\xFF"
                                "a"),
              (Ids{3 + 0xFF, 259, 260}));
    EXPECT_TRUE(tokenizer->adds_bos());
    EXPECT_TRUE(tokenizer->strips_leading_space());
    EXPECT_EQ(tokenizer->decode({267, 262}), "abc");
}

TEST(GgufTokenizer, SentencePieceKeepsControlTokensOutOfText) {
    Metadata metadata = sentencepiece();
    metadata.values["tokenizer.ggml.add_space_prefix"] = false;
    const auto tokenizer = load(metadata);
    EXPECT_EQ(tokenizer->encode("a<b>\n\n"), (Ids{260, 270, 271}));  // tags and white space are text
    for (const TokenId id : tokenizer->encode("<s>a</s><unk><start_of_turn>")) {
        EXPECT_TRUE(id >= 3 && id < 266) << id;
    }
    EXPECT_EQ(tokenizer->encode("<s>a<start_of_turn>", Special::parse), (Ids{1, 260, 272}));
    EXPECT_FALSE(tokenizer->strips_leading_space());
}

TEST(GgufTokenizer, AByteTokenThatIsAControlTokenSpellsNoByte) {
    Metadata metadata = sentencepiece();
    std::vector<int64_t> types(275, 1);
    types[0] = 2, types[1] = types[2] = types[3 + 0xC3] = 3;
    set_list(metadata, "token_type", types);
    EXPECT_EQ(load(metadata)->encode("é"), (Ids{259, 0}));
}

// Long texts are cut where no merge can cross, which must not change ids. In the second vocabulary every
// character has a token in which a "▁" follows it, so nothing is cut there; those tokens end in a character
// that the texts do not have.
TEST(GgufTokenizer, SafeBordersDoNotChangeIds) {
    Metadata cut = sentencepiece();
    Metadata uncut = sentencepiece();
    std::vector<std::string_view> tokens =
        std::get<std::vector<std::string_view>>(cut.array("tokenizer.ggml.tokens")->values);
    std::vector<int64_t> types =
        std::get<std::vector<int64_t>>(cut.array("tokenizer.ggml.token_type")->values);
    std::vector<double> scores = std::get<std::vector<double>>(cut.array("tokenizer.ggml.scores")->values);
    for (const char* token : {"a▁\x01", "b▁\x01", "c▁\x01", "x▁\x01", "y▁\x01", "▁▁\x01"})  // never completed
        tokens.emplace_back(token), types.push_back(1), scores.push_back(-9);
    set_list(uncut, "tokens", tokens);
    set_list(uncut, "token_type", types);
    set_list(uncut, "scores", scores);
    const auto with = load(cut), without = load(uncut);
    std::mt19937 random(17);
    for (int round = 0; round < 2000; ++round) {
        std::string text;
        for (size_t n = random() % 80; n > 0; --n) text += "abcxy  \n"[random() % 8];
        ASSERT_EQ(with->encode(text), without->encode(text)) << text;
    }
}

TEST(GgufTokenizer, RefusesWhatItCannotReadByName) {
    struct Case {
        const char* message;
        ErrorCode code;
        std::function<void(Metadata&)> edit;
    };
    const auto key = [](const char* name) { return std::string("tokenizer.ggml.") + name; };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Case byte_level_cases[] = {
        {"tokenizer.ggml.model: missing", ErrorCode::not_found,
         [&](Metadata& m) { m.values.erase(key("model")); }},
        {"tokenizer.ggml.model: \"bert\"", ErrorCode::unsupported,
         [&](Metadata& m) { m.values[key("model")] = std::string("bert"); }},
        {"tokenizer.ggml.model", ErrorCode::corrupt_data,
         [&](Metadata& m) { m.values[key("model")] = uint64_t{1}; }},
        {"tokenizer.ggml.pre: \"gibberish\"", ErrorCode::unsupported,
         [&](Metadata& m) { m.values[key("pre")] = std::string("gibberish"); }},
        {"tokenizer.ggml.pre: missing", ErrorCode::unsupported,
         [&](Metadata& m) { m.values.erase(key("pre")); }},
        {"tokenizer.ggml.tokens: missing", ErrorCode::corrupt_data,
         [&](Metadata& m) { m.values.erase(key("tokens")); }},
        {"tokenizer.ggml.tokens: expected an array", ErrorCode::corrupt_data,
         [&](Metadata& m) { m.values[key("tokens")] = std::string("x"); }},
        {"tokenizer.ggml.tokens: expected an array", ErrorCode::corrupt_data,
         [&](Metadata& m) { set_list<int64_t>(m, "tokens", {1}); }},
        {"tokenizer.ggml.token_type: 2 entries for 262 tokens", ErrorCode::corrupt_data,
         [&](Metadata& m) { set_list<int64_t>(m, "token_type", {1, 1}); }},
        {"tokenizer.ggml.token_type: unknown type 9", ErrorCode::corrupt_data,
         [&](Metadata& m) { set_list(m, "token_type", std::vector<int64_t>(262, 9)); }},
        {"tokenizer.ggml.merges: missing", ErrorCode::corrupt_data,
         [&](Metadata& m) { m.values.erase(key("merges")); }},
        {"tokenizer.ggml.merges[1]", ErrorCode::corrupt_data,
         [&](Metadata& m) { set_list<std::string_view>(m, "merges", {"t h", "the"}); }},
        {"tokenizer.ggml.merges[0]: the token \"q\u00E9\"", ErrorCode::corrupt_data,
         [&](Metadata& m) { set_list<std::string_view>(m, "merges", {"q é"}); }},
        {"tokenizer.ggml.bos_token_id: 262 is not an id", ErrorCode::corrupt_data,
         [&](Metadata& m) { m.values[key("bos_token_id")] = uint64_t{262}; }},
        {"tokenizer.ggml.eos_token_id: -1 is not an id", ErrorCode::corrupt_data,
         [&](Metadata& m) { m.values[key("eos_token_id")] = int64_t{-1}; }},
        {"tokenizer.ggml.eot_token_id", ErrorCode::corrupt_data,
         [&](Metadata& m) { m.values[key("eot_token_id")] = std::string("x"); }},
        {"tokenizer.chat_template", ErrorCode::corrupt_data,
         [&](Metadata& m) { m.values["tokenizer.chat_template"] = true; }},
        {"tokenizer.chat_template", ErrorCode::resource_exhausted,
         [&](Metadata& m) { m.values["tokenizer.chat_template"] = std::string(5 << 20, 'x'); }},
    };
    const Case sentencepiece_cases[] = {
        {"tokenizer.ggml.scores: missing", ErrorCode::corrupt_data,
         [&](Metadata& m) { m.values.erase(key("scores")); }},
        {"tokenizer.ggml.scores: 1 entries", ErrorCode::corrupt_data,
         [&](Metadata& m) { set_list<double>(m, "scores", {1}); }},
        {"tokenizer.ggml.scores: a score is not", ErrorCode::corrupt_data,
         [&](Metadata& m) { set_list(m, "scores", std::vector<double>(275, nan)); }},
        {"tokenizer.ggml.unknown_token_id", ErrorCode::corrupt_data,
         [&](Metadata& m) { m.values[key("unknown_token_id")] = uint64_t{9999}; }},
        {"tokenizer.ggml.add_space_prefix", ErrorCode::corrupt_data,
         [&](Metadata& m) { m.values[key("add_space_prefix")] = std::string("yes"); }},
    };
    const auto check = [](Metadata metadata, const Case& bad) {
        bad.edit(metadata);
        const Result<TokenizerParts> parts = read_gguf_tokenizer(metadata);
        ASSERT_FALSE(parts) << bad.message;
        EXPECT_EQ(parts.error().code, bad.code) << parts.error().message;
        EXPECT_NE(parts.error().message.find(bad.message), std::string::npos) << parts.error().message;
    };
    for (const Case& bad : byte_level_cases) check(byte_level(), bad);
    for (const Case& bad : sentencepiece_cases) check(sentencepiece(), bad);
}

}  // namespace
}  // namespace deepinfer::tokenizer
