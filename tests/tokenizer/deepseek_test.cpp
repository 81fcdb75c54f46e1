// Ids of the DeepSeek tokenizers, equal to recorded vectors. The tokenizer file is fetched by
// fetch_deepseek_tokenizer.py (ctest does it); its path is in the environment variable
// DEEPINFER_DEEPSEEK_TOKENIZER.
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::tokenizer {
namespace {

namespace json = boost::json;
using Ids = std::vector<TokenId>;

std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    return {std::istreambuf_iterator<char>(file), {}};
}

json::value vectors(const char* name) {
    Result<json::value> value = parse_json(read(std::filesystem::path(DEEPINFER_VECTORS) / name), name);
    EXPECT_TRUE(value) << value.error().message;
    return std::move(*value);
}

Ids ids_of(const json::value& list) {
    Ids ids;
    for (const json::value& id : list.as_array()) ids.push_back(TokenId(id.as_int64()));
    return ids;
}

std::string sha256(const Ids& ids) {
    std::string text;
    for (const TokenId id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
    std::string hex;
    for (const unsigned char byte : digest) {
        char two[3];
        std::snprintf(two, sizeof two, "%02x", byte);
        hex += two;
    }
    return hex;
}

// The vectors' second tokenizer: the same file with other spellings at some ids.
std::string with_other_spellings(std::string_view file) {
    JsonLimits limits;
    json::value root = std::move(*parse_json(file, "tokenizer.json", limits));
    const json::value overrides = vectors("v41_added_token_overrides.json");
    size_t changed = 0;
    for (json::value& token : root.as_object()["added_tokens"].as_array()) {
        const std::string id = std::to_string(token.as_object()["id"].as_int64());
        if (const json::value* spelling = overrides.as_object().if_contains(id)) {
            token.as_object()["content"] = *spelling;
            ++changed;
        }
    }
    EXPECT_EQ(changed, overrides.as_object().size());
    return json::serialize(root);
}

class DeepSeek : public testing::Test {
  protected:
    void SetUp() override {
        const char* path = std::getenv("DEEPINFER_DEEPSEEK_TOKENIZER");
        if (!path)
            GTEST_SKIP() << "DEEPINFER_DEEPSEEK_TOKENIZER is not set; the test tokenizer_deepseek sets it";
        const std::string file = read(path);
        auto loaded = Tokenizer::from_json(file);
        ASSERT_TRUE(loaded) << loaded.error().message;
        v4_ = std::move(*loaded);
        loaded = Tokenizer::from_json(with_other_spellings(file));
        ASSERT_TRUE(loaded) << loaded.error().message;
        v41_ = std::move(*loaded);
    }
    std::unique_ptr<Tokenizer> v4_;
    std::unique_ptr<Tokenizer> v41_;
};

TEST_F(DeepSeek, EncodesAllRecordedTexts) {
    size_t texts = 0;
    for (const char* name :
         {"basic.json", "cjk.json", "code.json", "combining.json", "control.json", "emoji.json", "fuzz.json",
          "numbers.json", "scripts.json", "special.json", "whitespace.json"}) {
        const json::value file = vectors(name);
        for (const json::value& entry : file.as_object().at("cases").as_array()) {
            const json::object& one = entry.as_object();
            const std::string text(one.at("text").as_string());
            const Ids plain = ids_of(one.at("ids_plain"));
            const Ids v4 = one.at("ids_v4").is_null() ? plain : ids_of(one.at("ids_v4"));
            const Ids v41 = one.at("ids_v41").is_null() ? v4 : ids_of(one.at("ids_v41"));
            EXPECT_EQ(v4_->encode(text), plain) << name << ": " << text;
            EXPECT_EQ(v41_->encode(text), plain) << name << ": " << text;
            EXPECT_EQ(v4_->encode(text, Special::parse), v4) << name << ": " << text;
            EXPECT_EQ(v41_->encode(text, Special::parse), v41) << name << ": " << text;
            EXPECT_EQ(v4_->decode(v4, true), text) << name;
            ++texts;
        }
    }
    EXPECT_GT(texts, 300u);
}

TEST_F(DeepSeek, EncodesLongRuns) {
    const json::value file = vectors("long_runs.json");
    for (const json::value& entry : file.as_object().at("cases").as_array()) {
        const json::object& one = entry.as_object();
        std::string text;
        for (int64_t i = one.at("repeat").as_int64(); i > 0; --i) text += one.at("unit").as_string().c_str();
        const auto check = [&](const Ids& ids, const char* which) {
            const json::object& expected = one.at(which).as_object();
            EXPECT_EQ(int64_t(ids.size()), expected.at("count").as_int64())
                << which << json::serialize(one.at("unit"));
            EXPECT_EQ(sha256(ids), expected.at("sha256").as_string())
                << which << json::serialize(one.at("unit"));
        };
        check(v4_->encode(text), "plain");
        check(v4_->encode(text, Special::parse), "v4");
        check(v41_->encode(text, Special::parse), "v41");
    }
}

TEST_F(DeepSeek, DecodesAllRecordedIds) {
    const json::value file = vectors("decode.json");
    for (const json::value& entry : file.as_object().at("cases").as_array()) {
        const json::object& one = entry.as_object();
        EXPECT_EQ(v41_->decode(ids_of(one.at("ids")), true), one.at("text").as_string());
    }
}

TEST_F(DeepSeek, StopsAtItsEndOfSentence) {
    EXPECT_EQ(v4_->end_of_generation(), Ids{1});
    EXPECT_EQ(v4_->find_special("<｜User｜>"), 128803);
    EXPECT_EQ(v4_->vocabulary_size(), 129280);
}

}  // namespace
}  // namespace deepinfer::tokenizer
