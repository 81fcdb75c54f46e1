#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "small_tokenizer.h"
#include "tokenizer/unicode.h"

namespace deepinfer::tokenizer {
namespace {

namespace json = boost::json;
using Ids = std::vector<TokenId>;
using Edit = std::function<void(json::object&)>;

Result<std::unique_ptr<Tokenizer>> load(const Edit& edit = [](json::object&) {}) {
    json::object root = small_tokenizer_json();
    edit(root);
    return Tokenizer::from_json(json::serialize(root));
}

std::unique_ptr<Tokenizer> small(const Edit& edit = [](json::object&) {}) {
    Result<std::unique_ptr<Tokenizer>> tokenizer = load(edit);
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return std::move(*tokenizer);
}

Ids bytes(std::string_view text) {
    Ids ids;
    for (const char c : text) ids.push_back(uint8_t(c));
    return ids;
}

Ids operator+(Ids a, const Ids& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

TEST(Tokenizer, EncodesAndDecodes) {
    const auto tokenizer = small();
    EXPECT_EQ(tokenizer->vocabulary_size(), 263);
    EXPECT_EQ(tokenizer->encode("the the"), (Ids{257, 258}));
    EXPECT_EQ(tokenizer->encode("I'll"),
              (bytes("I'") + Ids{259}));  // "'ll" is a word, of which "'" stays alone
    EXPECT_EQ(tokenizer->encode(""), Ids{});
    EXPECT_EQ(tokenizer->decode({257, 258, 33}), "the the!");
    EXPECT_EQ(tokenizer->decode(bytes("\xE4\xBD\xA0\xE4\xBD")), "你\xEF\xBF\xBD");
    EXPECT_EQ(tokenizer->token_bytes(258), " the");
    EXPECT_EQ(tokenizer->token_bytes(-1), "");
    EXPECT_EQ(tokenizer->token_bytes(263), "");
}

TEST(Tokenizer, TextNeverBecomesASpecialToken) {
    const auto tokenizer = small();
    EXPECT_EQ(tokenizer->encode("<|end|>"), bytes("<|end|>"));
    EXPECT_EQ(tokenizer->encode("<think>"), bytes("<") + Ids{256} + bytes("ink>"));
    EXPECT_EQ(tokenizer->encode("a  b"), (Ids{'a', 262, 'b'}));  // white space is text
    EXPECT_EQ(tokenizer->encode("a<|end|>", Special::parse), (Ids{'a', 260}));
    EXPECT_EQ(tokenizer->encode("<think>x", Special::parse), (Ids{261, 'x'}));
    // Even where the vocabulary would allow it.
    const auto sneaky = small([](json::object& root) {
        json::object& model = root["model"].as_object();
        model["vocab"].as_object()["<|"] = 263;
        model["vocab"].as_object()["<|end|>"] = 260;
        model["vocab"].as_object()["end|>"] = 264;
        model["ignore_merges"] = true;
        for (const char* merge : {"< |", "<| end|>"}) model["merges"].as_array().emplace_back(merge);
        root["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    });
    for (const TokenId id : sneaky->encode("<|end|>")) EXPECT_NE(id, 260);
    EXPECT_EQ(sneaky->encode("<|end|>", Special::parse), Ids{260});
}

TEST(Tokenizer, PartsAreOneText) {
    const auto tokenizer = small();
    const std::vector<TextPart> joined = {{"t", Special::parse}, {"he", Special::as_text}};
    EXPECT_EQ(tokenizer->encode_parts(joined), Ids{257});
    const std::vector<TextPart> prompt = {
        {"<|end|>", Special::parse}, {"<|end|>", Special::as_text}, {"<|end|>", Special::parse}};
    EXPECT_EQ(tokenizer->encode_parts(prompt), Ids{260} + bytes("<|end|>") + Ids{260});
    // A spelling that only the two together make up is no token, whichever part comes from outside.
    const std::vector<TextPart> across = {{"<|en", Special::parse}, {"d|>", Special::as_text}};
    EXPECT_EQ(tokenizer->encode_parts(across), bytes("<|end|>"));
    const std::vector<TextPart> adjoining = {
        {"<|en", Special::parse}, {"", Special::as_text}, {"d|>", Special::parse}};
    EXPECT_EQ(tokenizer->encode_parts(adjoining), Ids{260});
    EXPECT_EQ(tokenizer->encode_parts({}), Ids{});
}

TEST(Tokenizer, PartsWithANormalizerKeepTheRule) {
    const auto tokenizer = small([](json::object& root) {
        root["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "z"}}}, {"content", "the"}};
        root["added_tokens"].as_array()[0].as_object()["normalized"] = true;
    });
    EXPECT_EQ(tokenizer->encode("z", Special::parse), Ids{257});
    EXPECT_EQ(tokenizer->encode("z<|end|>", Special::parse), (Ids{257, 260}));
    EXPECT_EQ(tokenizer->encode("z<|end|>"), Ids{257} + bytes("<|end|>"));
    const std::vector<TextPart> prompt = {{"z<|end|>", Special::parse}, {"z<|end|>", Special::as_text}};
    EXPECT_EQ(tokenizer->encode_parts(prompt), Ids{257} + Ids{260} + Ids{257} + bytes("<|end|>"));
}

TEST(Tokenizer, HonoursTheFlagsOfAddedTokens) {
    const auto with = [](const char* flag) {
        return small(
            [flag](json::object& root) { root["added_tokens"].as_array()[0].as_object()[flag] = true; });
    };
    EXPECT_EQ(with("lstrip")->encode("a \n<|end|> b", Special::parse), (Ids{'a', 260, ' ', 'b'}));
    EXPECT_EQ(with("rstrip")->encode("a <|end|> \nb", Special::parse), (Ids{'a', ' ', 260, 'b'}));
    const auto single = with("single_word");
    EXPECT_EQ(single->encode("a<|end|>", Special::parse), bytes("a<|end|>"));
    EXPECT_EQ(single->encode("<|end|>b", Special::parse), bytes("<|end|>b"));
    EXPECT_EQ(single->encode("a <|end|>.", Special::parse), (Ids{'a', ' ', 260, '.'}));
}

TEST(Tokenizer, TakesTheLongestAddedTokenAtTheFirstPlace) {
    const auto tokenizer = small([](json::object& root) {
        json::object longer = root["added_tokens"].as_array()[0].as_object();
        longer["id"] = 263, longer["content"] = "<|end|>x";
        json::object inner = longer;
        inner["id"] = 264, inner["content"] = "|end|>xyz";
        root["added_tokens"].as_array().push_back(longer);
        root["added_tokens"].as_array().push_back(inner);
    });
    EXPECT_EQ(tokenizer->encode("<|end|>xyz", Special::parse), (Ids{263, 'y', 'z'}));
    EXPECT_EQ(tokenizer->encode("|end|>xyz", Special::parse), Ids{264});
}

TEST(Tokenizer, EncodesBytesThatAreNoText) {
    const auto tokenizer = small();
    const std::string bad("the\xFFthe\xE4\xBD the\x80", 14);
    const Ids ids = tokenizer->encode(bad);
    EXPECT_EQ(ids, (Ids{257, 0xFF, 257, 0xE4, 0xBD, 258, 0x80}));
    std::string back;
    for (const TokenId id : ids) back += tokenizer->token_bytes(id);
    EXPECT_EQ(back, bad);
}

TEST(Tokenizer, EveryByteStringSurvivesByteLevelBpe) {
    const auto tokenizer = small();
    std::mt19937 random(3);
    for (int round = 0; round < 3000; ++round) {
        std::string text;
        for (size_t n = random() % 60; n > 0; --n)
            text += char(random() % 2 ? random() % 256 : "the l'<|>"[random() % 9]);
        for (const Special special : {Special::as_text, Special::parse}) {
            std::string back;
            for (const TokenId id : tokenizer->encode(text, special))
                back += tokenizer->token_bytes(id, true);
            ASSERT_EQ(back, text);
        }
    }
}

TEST(Tokenizer, KnowsItsSpecialTokens) {
    const auto tokenizer = small();
    ASSERT_EQ(tokenizer->special_tokens().size(), 3u);
    EXPECT_EQ(tokenizer->special_tokens()[0].text, "<|end|>");
    EXPECT_TRUE(tokenizer->special_tokens()[0].control);
    EXPECT_FALSE(tokenizer->special_tokens()[1].control);
    EXPECT_EQ(tokenizer->find_special("<think>"), 261);
    EXPECT_EQ(tokenizer->find_special("the"), std::nullopt);
    EXPECT_EQ(tokenizer->end_of_generation(), Ids{260});  // a well-known spelling
    EXPECT_EQ(tokenizer->token_bytes(260), "");
    EXPECT_EQ(tokenizer->token_bytes(260, true), "<|end|>");
    EXPECT_EQ(tokenizer->token_bytes(261), "<think>");
    EXPECT_EQ(tokenizer->decode({257, 260, 261}), "the<think>");
    EXPECT_EQ(tokenizer->decode({257, 260, 261}, true), "the<|end|><think>");
}

TEST(Tokenizer, ManyThreadsGetTheSameIds) {
    const auto tokenizer = small();
    std::vector<std::string> texts;
    std::mt19937 random(5);
    for (int i = 0; i < 40; ++i) {
        std::string text;
        for (int n = 0; n < 200; ++n) text += "the l \n<|d'"[random() % 11];
        texts.push_back(text);
    }
    std::vector<Ids> expected;
    for (const std::string& text : texts) expected.push_back(small()->encode(text));
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (size_t i = 0; i < 200; ++i) {
                const size_t which = (i * size_t(t + 1)) % texts.size();
                if (tokenizer->encode(texts[which]) != expected[which]) ++wrong;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

// SentencePiece-style: "▁" for space, byte fallback, a dummy space in front that decoding takes away again.
std::unique_ptr<Tokenizer> sentencepiece() {
    return small([](json::object& root) {
        json::object vocab{{"<unk>", 0}, {"▁", 1}, {"a", 2}, {"b", 3}, {"▁a", 4}, {"ab", 5}, {"▁ab", 6}};
        static constexpr char kHex[] = "0123456789ABCDEF";
        for (int byte = 0; byte < 256; ++byte)
            vocab[std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">"] = 7 + byte;
        root["added_tokens"] = json::array{};
        root["normalizer"] = {
            {"type", "Sequence"},
            {"normalizers",
             json::array{{{"type", "Prepend"}, {"prepend", "▁"}},
                         {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}};
        root["pre_tokenizer"] = nullptr;
        root["decoder"] = {
            {"type", "Sequence"},
            {"decoders", json::array{{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                                     {{"type", "ByteFallback"}},
                                     {{"type", "Fuse"}},
                                     {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
        root["model"] = {
            {"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", json::array{json::array{"a", "b"}, json::array{"▁", "ab"}, json::array{"▁", "a"}}}};
    });
}

TEST(Tokenizer, SentencePieceStyle) {
    const auto tokenizer = sentencepiece();
    EXPECT_TRUE(tokenizer->strips_leading_space());
    EXPECT_EQ(tokenizer->encode("ab a  ab"), (Ids{6, 4, 1, 6}));
    EXPECT_EQ(tokenizer->encode("é"), (Ids{1, 7 + 0xC3, 7 + 0xA9}));
    EXPECT_EQ(tokenizer->encode("\xFF"), Ids{7 + 0xFF});
    EXPECT_EQ(tokenizer->decode({6, 4, 1, 6}), "ab a  ab");
    EXPECT_EQ(tokenizer->decode({1, 7 + 0xC3, 7 + 0xA9}), "é");
    EXPECT_EQ(tokenizer->decode({3, 6}), "b ab");  // only a space is taken away
}

// Texts from a stream of tokens: certain at once, never half a character, the same as decoding all.
void check_streaming(const Tokenizer& tokenizer, const Ids& ids) {
    StreamDecoder decoder(tokenizer, true);
    std::string streamed;
    std::string bytes;
    for (const TokenId id : ids) {
        const std::string text = decoder.push(id);
        ASSERT_EQ(valid_utf8_prefix(text), text.size());
        streamed += text;
        bytes += tokenizer.token_bytes(id, true);
        // What may be missing is at most an incomplete character (and a leading space).
        std::string known = bytes, certain;
        if (tokenizer.strips_leading_space() && known.starts_with(' ')) known.erase(0, 1);
        drain_utf8(known, certain, false);
        ASSERT_EQ(streamed, certain);
        ASSERT_LT(known.size(), 4u);
    }
    streamed += decoder.finish();
    ASSERT_EQ(streamed, tokenizer.decode(ids, true));
    ASSERT_EQ(valid_utf8_prefix(streamed), streamed.size());
}

TEST(StreamDecoder, EqualsDecodingAllForRandomTokens) {
    std::mt19937 random(11);
    const auto byte_level = small();
    const auto piece = sentencepiece();
    for (int round = 0; round < 4000; ++round) {
        for (const Tokenizer* tokenizer : {byte_level.get(), piece.get()}) {
            Ids ids;
            // Mostly the bytes of UTF-8 sequences, sometimes cut or shuffled.
            static const std::string kText = "a\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\x80\xF0\x9F\xE4\xBD\xC3";
            for (size_t n = random() % 24; n > 0; --n) {
                const int base = tokenizer == piece.get() ? 7 : 0;
                ids.push_back(random() % 3 ? base + uint8_t(kText[random() % kText.size()])
                                           : TokenId(random() % size_t(tokenizer->vocabulary_size())));
            }
            check_streaming(*tokenizer, ids);
        }
    }
}

TEST(StreamDecoder, EverySplitOfATextGivesTheText) {
    const auto tokenizer = small();
    const std::string text = "x\u00E9\u4F60\U0001F600 \u093C\u200D!";
    // A token per byte is the finest split; the pushes in between are every coarser one.
    for (uint32_t cuts = 0; cuts < 1u << 12; ++cuts) {
        StreamDecoder decoder(*tokenizer);
        std::string streamed, batch;
        for (size_t i = 0; i < text.size(); ++i) {
            batch += decoder.push(uint8_t(text[i]));
            if (cuts >> (i % 12) & 1) {
                ASSERT_EQ(valid_utf8_prefix(batch), batch.size());
                streamed += batch;
                batch.clear();
            }
        }
        streamed += batch + decoder.finish();
        ASSERT_EQ(streamed, text);
    }
}

TEST(StreamDecoder, EmitsReplacementsAtOnceAndHoldsBackOnlyWhatMayComplete) {
    const auto tokenizer = small();
    StreamDecoder decoder(*tokenizer);
    EXPECT_EQ(decoder.push(0xE4), "");
    EXPECT_EQ(decoder.push(0xBD), "");
    EXPECT_EQ(decoder.push('a'),
              "\xEF\xBF\xBD"
              "a");
    EXPECT_EQ(decoder.push(0xFF), "\xEF\xBF\xBD");
    EXPECT_EQ(decoder.push(0xF0), "");
    EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
    EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, OnlyANewTextLosesTheSpaceBeforeItsFirstWord) {
    const auto piece = sentencepiece();
    const auto byte_level = small();
    const TokenId word = 6, the = 258;  // "▁ab" and "Ġthe"
    const auto decode = [](const Tokenizer& tokenizer, StreamStart start, const Ids& ids) {
        StreamDecoder decoder(tokenizer, false, start);
        std::string text;
        for (const TokenId id : ids) text += decoder.push(id);
        return text + decoder.finish();
    };
    EXPECT_EQ(decode(*piece, StreamStart::new_text, {word, word}), "ab ab");
    EXPECT_EQ(decode(*piece, StreamStart::continues_text, {word, word}), " ab ab");
    // A vocabulary without such a space loses nothing either way.
    EXPECT_EQ(decode(*byte_level, StreamStart::new_text, {the}), " the");
    EXPECT_EQ(decode(*byte_level, StreamStart::continues_text, {the}), " the");
    // A prompt and its continuation are the whole text.
    EXPECT_EQ(piece->decode({word}) + decode(*piece, StreamStart::continues_text, {4, word}),
              piece->decode({word, 4, word}));
}

struct BadCase {
    const char* name;
    const char* message;  // must occur in the error
    ErrorCode code;
    Edit edit;
};

json::object& model(json::object& root) { return root["model"].as_object(); }

TEST(TokenizerJson, RefusesWhatItCannotReadByName) {
    const BadCase cases[] = {
        {"no model", "model: expected an object", ErrorCode::corrupt_data, [](auto& r) { r.erase("model"); }},
        {"unigram", "model.type: \"Unigram\"", ErrorCode::unsupported,
         [](auto& r) { model(r)["type"] = "Unigram"; }},
        {"no vocab", "model.vocab: expected", ErrorCode::corrupt_data,
         [](auto& r) { model(r).erase("vocab"); }},
        {"vocab list", "model.vocab: expected", ErrorCode::corrupt_data,
         [](auto& r) { model(r)["vocab"] = json::array{}; }},
        {"negative id", "model.vocab[\"x!\"]", ErrorCode::corrupt_data,
         [](auto& r) { model(r)["vocab"].as_object()["x!"] = -1; }},
        {"huge id", "model.vocab[\"x!\"]", ErrorCode::corrupt_data,
         [](auto& r) { model(r)["vocab"].as_object()["x!"] = int64_t{1} << 40; }},
        {"fraction id", "model.vocab[\"x!\"]", ErrorCode::corrupt_data,
         [](auto& r) { model(r)["vocab"].as_object()["x!"] = 1.5; }},
        {"same id", "the id 7 belongs to", ErrorCode::corrupt_data,
         [](auto& r) { model(r)["vocab"].as_object()["x!"] = 7; }},
        {"no merges", "model.merges: expected an array", ErrorCode::corrupt_data,
         [](auto& r) { model(r).erase("merges"); }},
        {"merge of one", "model.merges[4] is \"the\"", ErrorCode::corrupt_data,
         [](auto& r) { model(r)["merges"].as_array().emplace_back("the"); }},
        {"merge of unknown", "model.merges[4]: the token \"zzz\"", ErrorCode::corrupt_data,
         [](auto& r) { model(r)["merges"].as_array().emplace_back("a zzz"); }},
        {"merge to unknown", "model.merges[4]: the token \"zq\"", ErrorCode::corrupt_data,
         [](auto& r) { model(r)["merges"].as_array().emplace_back("z q"); }},
        {"merge number", "model.merges[4]: expected", ErrorCode::corrupt_data,
         [](auto& r) { model(r)["merges"].as_array().emplace_back(7); }},
        {"dropout", "model.dropout", ErrorCode::unsupported, [](auto& r) { model(r)["dropout"] = 0.1; }},
        {"suffix", "model.end_of_word_suffix: \"</w>\"", ErrorCode::unsupported,
         [](auto& r) { model(r)["end_of_word_suffix"] = "</w>"; }},
        {"flag", "model.byte_fallback: expected true or false", ErrorCode::corrupt_data,
         [](auto& r) { model(r)["byte_fallback"] = "yes"; }},
        {"unk", "model.unk_token: \"<u>\"", ErrorCode::corrupt_data,
         [](auto& r) { model(r)["unk_token"] = "<u>"; }},
        {"added list", "added_tokens: expected an array", ErrorCode::corrupt_data,
         [](auto& r) { r["added_tokens"] = 3; }},
        {"added id", "added_tokens[1].id", ErrorCode::corrupt_data,
         [](auto& r) { r["added_tokens"].as_array()[1].as_object()["id"] = "x"; }},
        {"added twice", "added_tokens[1].id", ErrorCode::corrupt_data,
         [](auto& r) { r["added_tokens"].as_array()[1].as_object()["id"] = 260; }},
        {"added empty", "added_tokens[0].content", ErrorCode::corrupt_data,
         [](auto& r) { r["added_tokens"].as_array()[0].as_object()["content"] = ""; }},
        {"added long", "added_tokens[0].content", ErrorCode::corrupt_data,
         [](auto& r) { r["added_tokens"].as_array()[0].as_object()["content"] = std::string(5000, 'x'); }},
        {"added flag", "added_tokens[0].lstrip", ErrorCode::corrupt_data,
         [](auto& r) { r["added_tokens"].as_array()[0].as_object()["lstrip"] = 1; }},
        {"normalizer", "normalizer.type: \"Precompiled\"", ErrorCode::unsupported,
         [](auto& r) { r["normalizer"] = {{"type", "Precompiled"}}; }},
        {"normalizer in sequence", "normalizer.normalizers[1].type: \"Lowercase\"", ErrorCode::unsupported,
         [](auto& r) {
             r["normalizer"] = {{"type", "Sequence"},
                                {"normalizers", json::array{{{"type", "NFC"}}, {{"type", "Lowercase"}}}}};
         }},
        {"normalizer text", "normalizer: expected an object", ErrorCode::corrupt_data,
         [](auto& r) { r["normalizer"] = "NFC"; }},
        {"replace nothing", "normalizer.pattern", ErrorCode::corrupt_data,
         [](auto& r) {
             r["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", "x"}};
         }},
        {"pre_tokenizer", "pre_tokenizer.type: \"UnicodeScripts\"", ErrorCode::unsupported,
         [](auto& r) { r["pre_tokenizer"] = {{"type", "UnicodeScripts"}}; }},
        {"pre_tokenizer type", "pre_tokenizer.type: expected", ErrorCode::corrupt_data,
         [](auto& r) { r["pre_tokenizer"] = json::object{}; }},
        {"after ByteLevel", "\"Digits\" after ByteLevel", ErrorCode::unsupported,
         [](auto& r) {
             r["pre_tokenizer"] = {
                 {"type", "Sequence"},
                 {"pretokenizers", json::array{{{"type", "ByteLevel"}}, {{"type", "Digits"}}}}};
         }},
        {"split regex", "pre_tokenizer.pattern.Regex", ErrorCode::corrupt_data,
         [](auto& r) {
             r["pre_tokenizer"] = {
                 {"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}};
         }},
        {"split behavior", "pre_tokenizer.behavior", ErrorCode::corrupt_data,
         [](auto& r) {
             r["pre_tokenizer"] = {
                 {"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Sometimes"}};
         }},
        {"decoder", "decoder.type: \"WordPiece\"", ErrorCode::unsupported,
         [](auto& r) { r["decoder"] = {{"type", "WordPiece"}}; }},
        {"no decoder", "decoder: ", ErrorCode::unsupported, [](auto& r) { r["decoder"] = nullptr; }},
        {"other decoder", "decoder: ByteLevel without", ErrorCode::unsupported,
         [](auto& r) { r["decoder"] = {{"type", "Fuse"}}; }},
        {"deep sequence", "more than 64 stages", ErrorCode::resource_exhausted,
         [](auto& r) {
             json::array many;
             for (int i = 0; i < 70; ++i) many.push_back(json::object{{"type", "NFC"}});
             r["normalizer"] = {{"type", "Sequence"}, {"normalizers", many}};
         }},
    };
    for (const BadCase& bad : cases) {
        const Result<std::unique_ptr<Tokenizer>> tokenizer = load(bad.edit);
        ASSERT_FALSE(tokenizer) << bad.name;
        EXPECT_NE(tokenizer.error().message.find(bad.message), std::string::npos)
            << bad.name << ": " << tokenizer.error().message;
        EXPECT_EQ(tokenizer.error().code, bad.code) << bad.name;
    }
    EXPECT_EQ(Tokenizer::from_json("{").error().code, ErrorCode::corrupt_data);
    EXPECT_EQ(Tokenizer::from_json("[]").error().code, ErrorCode::corrupt_data);
    EXPECT_EQ(Tokenizer::from_json_file("/nonexistent/tokenizer.json").error().code, ErrorCode::not_found);
}

class Folder {
  public:
    Folder()
        : path_(std::filesystem::temp_directory_path() /
                ("deepinfer_tokenizer_test_" + std::to_string(getpid()))) {
        std::filesystem::create_directories(path_);
        write("tokenizer.json", json::serialize(small_tokenizer_json()));
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    void write(const char* name, std::string_view text) const {
        std::ofstream(path_ / name, std::ios::binary) << text;
    }
    Result<std::unique_ptr<Tokenizer>> load() const {
        return Tokenizer::from_json_file(path_ / "tokenizer.json");
    }

  private:
    std::filesystem::path path_;
};

TEST(TokenizerFolder, ReadsWhatLiesBesideTheTokenizer) {
    const Folder folder;
    EXPECT_EQ((*folder.load())->chat_template(), "");
    folder.write("tokenizer_config.json",
                 R"({"bos_token": "<think>", "eos_token": {"content": "<|end|>"}, "add_bos_token": true,
        "chat_template": [{"name": "tool", "template": "T"}, {"name": "default", "template": "D"}]})");
    folder.write("generation_config.json", R"({"eos_token_id": [257, 260, 1000]})");
    auto tokenizer = folder.load();
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ((*tokenizer)->bos(), 261);
    EXPECT_EQ((*tokenizer)->eos(), 260);
    EXPECT_TRUE((*tokenizer)->adds_bos());
    EXPECT_EQ((*tokenizer)->chat_template(), "D");
    EXPECT_EQ((*tokenizer)->end_of_generation(), (Ids{257, 260}));
    folder.write("chat_template.jinja", "J");
    EXPECT_EQ((*folder.load())->chat_template(), "J");

    for (const auto& [text, message] :
         {std::pair{"[]", "tokenizer_config.json: expected an object"},
          {R"({"eos_token": "nix"})", "tokenizer_config.json.eos_token: \"nix\""},
          {R"({"bos_token": 5})", "tokenizer_config.json.bos_token: expected"},
          {R"({"add_bos_token": 1})", "tokenizer_config.json.add_bos_token: expected"},
          {R"({"chat_template": 1})", "tokenizer_config.json.chat_template: expected"},
          {"{", "tokenizer_config.json: not valid JSON"}}) {
        folder.write("tokenizer_config.json", text);
        const auto bad = folder.load();
        ASSERT_FALSE(bad) << text;
        EXPECT_NE(bad.error().message.find(message), std::string::npos) << bad.error().message;
    }
    folder.write("tokenizer_config.json", "{}");
    folder.write("generation_config.json", R"({"eos_token_id": "x"})");
    EXPECT_NE(folder.load().error().message.find("generation_config.json.eos_token_id"), std::string::npos);
}

TEST(TokenizerJson, FindsBosInThePostProcessor) {
    const auto tokenizer = small([](json::object& root) {
        root["post_processor"] = {
            {"type", "TemplateProcessing"},
            {"single", json::array{{{"SpecialToken", {{"id", "<|end|>"}, {"type_id", 0}}}},
                                   {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
    });
    EXPECT_EQ(tokenizer->bos(), 260);
    EXPECT_TRUE(tokenizer->adds_bos());
}

}  // namespace
}  // namespace deepinfer::tokenizer
