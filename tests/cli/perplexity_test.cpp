// deepinfer perplexity against a direct computation from the model's logits.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "../tokenizer/small_tokenizer.h"
#include "base/json.h"
#include "models/model.h"
#include "recipe/raw_prompt.h"
#include "run_command.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::cli {
namespace {

// A tiny model with a tokenizer in a folder, and a text.
class PerplexityCommand : public testing::Test {
  protected:
    void SetUp() override {
        folder_ = std::filesystem::temp_directory_path() /
                  ("deepinfer_perplexity_test_" + std::to_string(getpid()));
        std::filesystem::create_directories(folder_);
        const std::filesystem::path model = DEEPINFER_TEST_DATA "/oracle/llama";
        for (const char* name : {"config.json", "model.safetensors"})
            std::filesystem::create_symlink(model / name, folder_ / name);
        std::ofstream(folder_ / "tokenizer.json")
            << boost::json::serialize(tokenizer::small_tokenizer_json());
        for (int i = 0; i < 60; ++i) text_ += "the hill " + std::to_string(i * i) + (i % 3 ? " all " : "\n");
        std::ofstream(folder_ / "text", std::ios::binary) << text_;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    Outcome run(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"perplexity", "-m", folder_, "-f", folder_ / "text"});
        return run_command(add_perplexity_command, std::move(arguments));
    }
    boost::json::object run_json(std::vector<std::string> arguments) {
        arguments.insert(arguments.end(), {"-o", "json"});
        const Outcome outcome = run(std::move(arguments));
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        const auto parsed = parse_json(outcome.out, "output");
        EXPECT_TRUE(parsed.ok()) << outcome.out;
        return parsed.ok() ? parsed->as_object() : boost::json::object();
    }

    // Negative log-likelihoods of the second half of every chunk, each chunk computed in one piece, sums in double.
    std::vector<double> expected(int chunk, std::optional<TokenId> bos) {
        auto checkpoint = checkpoint::Checkpoint::open(folder_);
        EXPECT_TRUE(checkpoint.ok());
        auto tokenizer = tokenizer::Tokenizer::from_checkpoint(**checkpoint);
        EXPECT_TRUE(tokenizer.ok());
        std::vector<TokenId> tokens = (*tokenizer)->encode(text_);
        if (bos) tokens.insert(tokens.begin(), *bos);
        ThreadPool pool(1);
        models::LoadOptions load;
        load.compute = kernels::Compute::f32;
        auto model = models::Model::load(**checkpoint, pool, load);
        EXPECT_TRUE(model.ok());
        const auto vocabulary = static_cast<size_t>((*model)->info().vocabulary);
        std::vector<double> nll;
        for (size_t begin = 0; begin + static_cast<size_t>(chunk) <= tokens.size();
             begin += static_cast<size_t>(chunk)) {
            auto blocks = kv::BlockPool::create(*(*model)->kv_layout(KvType::f32), 8);
            std::vector<kv::BlockId> table;
            for (int i = 0; i < 8; ++i) table.push_back(blocks->allocate());
            models::Batch batch;
            batch.tokens.assign(tokens.begin() + static_cast<ptrdiff_t>(begin),
                                tokens.begin() + static_cast<ptrdiff_t>(begin) + chunk);
            if (bos) batch.tokens[0] = *bos;
            batch.sequences = {{0, chunk, 0, table}};
            for (int i = 0; i < chunk; ++i) batch.logit_rows.push_back(i);
            std::vector<float> logits(batch.tokens.size() * vocabulary);
            (*model)->forward(batch, *blocks, logits.data());
            for (int i = chunk / 2; i + 1 < chunk; ++i) {
                const float* row = logits.data() + static_cast<size_t>(i) * vocabulary;
                double sum = 0;
                for (size_t v = 0; v < vocabulary; ++v) sum += std::exp(static_cast<double>(row[v]));
                nll.push_back(std::log(sum) -
                              static_cast<double>(row[tokens[begin + static_cast<size_t>(i) + 1]]));
            }
        }
        return nll;
    }
    void compare(const boost::json::object& result, const std::vector<double>& nll) {
        const auto n = static_cast<double>(nll.size());
        double mean = 0, squares = 0;
        for (const double x : nll) mean += x / n;
        for (const double x : nll) squares += (x - mean) * (x - mean);
        EXPECT_EQ(result.at("n_scored"), nll.size());
        EXPECT_NEAR(result.at("perplexity").as_double(), std::exp(mean), 1e-5 * std::exp(mean));
        EXPECT_NEAR(result.at("error").as_double(), std::exp(mean) * std::sqrt(squares / n / (n - 1)),
                    1e-4 * std::exp(mean));
        EXPECT_EQ(result.at("running").as_array().back(), result.at("perplexity"));
    }

    std::filesystem::path folder_;
    std::string text_;
};

TEST_F(PerplexityCommand, IsTheMeanOverSecondHalves) {
    for (const int chunk : {64, 37, 300}) {  // one whose second half is longer than the rows computed at once
        const auto result = run_json({"--chunk", std::to_string(chunk), "--compute", "f32", "-t", "2"});
        EXPECT_EQ(result.at("n_ctx"), chunk);
        EXPECT_EQ(result.at("kv_type"), "f32");
        compare(result, expected(chunk, std::nullopt));
    }
}

TEST_F(PerplexityCommand, BosReplacesTheFirstTokenOfEveryChunk) {
    boost::json::object config = tokenizer::small_tokenizer_json();
    config["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", boost::json::array{{{"SpecialToken", {{"id", "<|end|>"}, {"type_id", 0}}}},
                                      {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair", boost::json::array{}},
        {"special_tokens",
         {{"<|end|>",
           {{"id", "<|end|>"},
            {"ids", boost::json::array{260}},
            {"tokens", boost::json::array{"<|end|>"}}}}}}};
    std::ofstream(folder_ / "tokenizer.json") << boost::json::serialize(config);
    std::ofstream(folder_ / "tokenizer_config.json") << R"({"bos_token": "<|end|>", "add_bos_token": true})";
    compare(run_json({"--chunk", "48", "--compute", "f32"}), expected(48, 260));
}

TEST_F(PerplexityCommand, ServingIsCloseAndOtherKeysAndValuesDoNotMatterMuch) {
    const double exact = run_json({"--chunk", "64", "--compute", "f32"}).at("perplexity").as_double();
    for (const char* type : {"f16", "bf16", "f32"}) {
        const auto result = run_json({"--chunk", "64", "--kv-type", type});
        EXPECT_EQ(result.at("kv_type"), boost::json::string(type));
        EXPECT_NEAR(result.at("perplexity").as_double(), exact, 0.01 * exact);
    }
}

TEST_F(PerplexityCommand, KeysAndValuesThatDoNotFitAreRefused) {
    const Outcome outcome = run({"--kv-type", "q8"});  // the model's heads have 16 values
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("multiple of 32"), std::string::npos) << outcome.err;
}

TEST_F(PerplexityCommand, ChunksCanBeLimited) {
    const auto all = run_json({"--chunk", "32", "--compute", "f32"}),
               two = run_json({"--chunk", "32", "--compute", "f32", "--chunks", "2"});
    EXPECT_GT(all.at("n_chunks").as_int64(), 2);
    EXPECT_EQ(two.at("n_chunks"), 2);
    EXPECT_EQ(two.at("n_scored"), 2 * 15);
    EXPECT_EQ(two.at("perplexity"), all.at("running").at(1));
    const Outcome text = run({"--chunk", "32", "--compute", "f32", "--chunks", "2"});
    EXPECT_NE(text.out.find("[2]"), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("over 30 tokens"), std::string::npos) << text.out;
}

TEST_F(PerplexityCommand, ADashIsStandardInput) {
    std::istringstream text(text_);
    std::streambuf* const before = std::cin.rdbuf(text.rdbuf());
    const Outcome piped = run_command(
        add_perplexity_command, {"perplexity", "-m", folder_, "-f", "-", "--chunk", "32", "-o", "json"});
    std::cin.rdbuf(before);
    ASSERT_EQ(piped.code, 0) << piped.err;
    const auto parsed = parse_json(piped.out, "output");
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->at("running"), run_json({"--chunk", "32"}).at("running"));
}

TEST_F(PerplexityCommand, SaysWhatIsWrong) {
    Outcome outcome = run({"--chunk", "100000"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("context"), std::string::npos) << outcome.err;
    std::filesystem::resize_file(folder_ / "text", 20);
    outcome = run({"--chunk", "32"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("fewer than a chunk"), std::string::npos) << outcome.err;
    EXPECT_EQ(run({"--kv-type", "q3"}).code, 2);
    EXPECT_EQ(run({"--compute", "int4"}).code, 2);
    EXPECT_EQ(run({"-c", "3"}).code, 2);
    const Outcome absent =
        run_command(add_perplexity_command, {"perplexity", "-m", folder_, "-f", folder_ / "absent"});
    EXPECT_EQ(absent.code, 1);
    EXPECT_NE(absent.err.find("absent"), std::string::npos) << absent.err;
}

}  // namespace
}  // namespace deepinfer::cli
