#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "cli/load_model.h"
#include "run_command.h"

namespace deepinfer::cli {
namespace {

const std::string kModels = DEEPINFER_TEST_DATA "/oracle/";

Outcome inspect(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "inspect");
    return run_command(add_inspect_command, std::move(arguments));
}

TEST(Inspect, GgufAsText) {
    const Outcome outcome = inspect({kModels + "gguf/all_types/all_types.gguf"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    for (const char* line :
         {"  format gguf, 202016 bytes (0.2 MiB)\n", "\nMetadata (15 keys)\n",
          "  general.architecture = \"llama\"\n", "  llama.attention.head_count = 2\n",
          "  llama.attention.layer_norm_rms_epsilon = 1e-05\n", "\nTensors (21)\n",
          "  blk.0.attn_q.weight       Q2_K   [64, 256]                       5376 bytes\n"})
        EXPECT_NE(outcome.out.find(line), std::string::npos) << line << "is not in\n" << outcome.out;
}

TEST(Inspect, GgufAsJson) {
    const Outcome outcome = inspect({"--json", kModels + "gguf/gemma3-bf16.gguf"});
    EXPECT_EQ(outcome.code, 0);
    const Result<boost::json::value> parsed = parse_json(outcome.out, "output");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->at("format"), "gguf");
    EXPECT_EQ(parsed->at("config"), nullptr);
    EXPECT_EQ(parsed->at("metadata").at("gemma3.block_count"), 4);
    const auto& pattern = parsed->at("metadata").at("gemma3.attention.sliding_window_pattern");
    EXPECT_EQ(pattern.at("type"), "boolean");
    EXPECT_EQ(pattern.at("count"), 4);
    EXPECT_EQ(pattern.at("first"), (boost::json::array{true, true, false, true}));
    const auto& tensors = parsed->at("tensors").as_array();
    ASSERT_EQ(tensors.size(), 54u);
    int64_t bytes = 0;
    for (const auto& tensor : tensors) bytes += tensor.at("bytes").as_int64();
    EXPECT_EQ(parsed->at("total").at("bytes"), bytes);
    EXPECT_EQ(parsed->at("totals_by_type").at("BF16").at("tensors").as_int64() +
                  parsed->at("totals_by_type").at("F32").at("tensors").as_int64(),
              54);
}

TEST(Inspect, WeightFiles) {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("deepinfer_inspect_" + std::to_string(getpid()));
    LoadOptions options;
    options.model = kModels + "gguf/llama-bf16.gguf";
    options.weight_file = path;
    options.need_tokenizer = false;
    options.quiet = true;
    ASSERT_TRUE(load_model_only(options).ok());
    Outcome outcome = inspect({path});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("the checksum is right"), std::string::npos) << outcome.out;
    outcome = inspect({path, "--json"});
    const auto parsed = parse_json(outcome.out, "output");
    ASSERT_TRUE(parsed) << outcome.out;
    EXPECT_EQ(parsed->at("format"), "weight file");
    {
        std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
        file.seekg(5000);
        const char byte = static_cast<char>(file.get() ^ 0x10);
        file.seekp(5000);
        file.put(byte);
    }
    outcome = inspect({path});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("is damaged: its packed weights"), std::string::npos) << outcome.err;
    const auto unfinished = path.string() + ".building";
    std::filesystem::rename(path, unfinished);
    std::filesystem::resize_file(unfinished, 0);
    outcome = inspect({unfinished});
    std::filesystem::remove(unfinished);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("not finished: a start with --weight-file " + path.string()),
              std::string::npos)
        << outcome.err;
}

TEST(Inspect, SafetensorsFolder) {
    const Outcome outcome = inspect({"--json", kModels + "qwen2"});
    EXPECT_EQ(outcome.code, 0);
    const Result<boost::json::value> parsed = parse_json(outcome.out, "output");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->at("format"), "safetensors");
    EXPECT_EQ(parsed->at("config").at("model_type"), "qwen2");
    EXPECT_EQ(parsed->at("tensors").at(0).at("name"), "model.embed_tokens.weight");
    EXPECT_EQ(parsed->at("tensors").at(0).at("shape"), (boost::json::array{512, 64}));
    EXPECT_EQ(parsed->at("tensors").at(0).at("bytes"), 65536);
}

TEST(Inspect, FailureIsOneLineOnStandardError) {
    const Outcome outcome = inspect({kModels + "absent.gguf"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "deepinfer: cannot open " + kModels + "absent.gguf: No such file or directory\n");
    EXPECT_EQ(inspect({kModels + "README.md"}).code, 1);
}

TEST(Inspect, WrongUsage) {
    EXPECT_EQ(inspect({}).code, 2);
    EXPECT_EQ(inspect({"a", "b"}).code, 2);
    EXPECT_EQ(inspect({"--unknown", "a"}).code, 2);
}

}  // namespace
}  // namespace deepinfer::cli
