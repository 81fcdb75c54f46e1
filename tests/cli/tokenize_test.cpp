#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../tokenizer/small_tokenizer.h"
#include "run_command.h"

namespace deepinfer::cli {
namespace {

class Tokenize : public testing::Test {
  protected:
    void SetUp() override {
        folder_ =
            std::filesystem::temp_directory_path() / ("deepinfer_tokenize_test_" + std::to_string(getpid()));
        std::filesystem::create_directories(folder_);
        std::ofstream(folder_ / "tokenizer.json")
            << boost::json::serialize(tokenizer::small_tokenizer_json());
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    Outcome run(std::vector<std::string> arguments, const std::string& input) {
        const std::string path = folder_ / "input";
        std::ofstream(path, std::ios::binary) << input;
        EXPECT_NE(std::freopen(path.c_str(), "rb", stdin), nullptr);
        return run_command(add_tokenize_command, std::move(arguments));
    }
    std::string model() const { return folder_ / "tokenizer.json"; }

    std::filesystem::path folder_;
};

TEST_F(Tokenize, TextToIds) {
    Outcome outcome = run({"tokenize", "--model", model()}, "the the<|end|>");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "[257,258,60,124,101,110,100,124,62]\n");
    outcome = run({"tokenize", "--special", "--model", folder_}, "the the<|end|>");  // the folder will do
    EXPECT_EQ(outcome.out, "[257,258,260]\n");
    EXPECT_EQ(run({"tokenize", "--model", model()}, "").out, "[]\n");
    EXPECT_EQ(run({"tokenize", "--model", model()}, std::string("\0\xFF", 2)).out, "[0,255]\n");
}

TEST_F(Tokenize, IdsToText) {
    Outcome outcome = run({"detokenize", "--model", model()}, "[257, 258, 260]\n");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "the the<|end|>");
    EXPECT_EQ(run({"detokenize", "--skip-special", "--model", model()}, "[257,258,260]").out, "the the");
    EXPECT_EQ(run({"detokenize", "--model", model(), "257", "258"}, "").out, "the the");
    EXPECT_EQ(run({"detokenize", "--model", model()}, "[]").out, "");
}

TEST_F(Tokenize, SaysWhatIsWrong) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"[263]", "the id 263 is not one of the 263 ids"},
        {"[-1]", "expected a JSON array of token ids"},
        {"{}", "expected a JSON array"},
        {"[1.5]", "expected a JSON array"},
        {"[1", "standard input: not valid JSON"},
        {"", "standard input"}};
    for (const auto& [input, message] : cases) {
        const Outcome outcome = run({"detokenize", "--model", model()}, input);
        EXPECT_EQ(outcome.code, 1) << input;
        EXPECT_EQ(outcome.out, "") << input;
        EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
    }
    EXPECT_EQ(run({"tokenize"}, "x").code, 2);  // no model
    const Outcome outcome = run({"tokenize", "--model", "/nonexistent.gguf"}, "x");
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("/nonexistent.gguf"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace deepinfer::cli
