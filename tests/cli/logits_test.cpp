// deepinfer logits: its output is JSON whatever the model computes.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "run_command.h"

namespace deepinfer::cli {
namespace {

const std::string tiny = DEEPINFER_TEST_DATA "/oracle/gguf/llama-bf16.gguf";

Outcome logits(const std::string& model) {
    return run_command(add_logits_command, {"logits", "-m", model, "--tokens", "1,2,3", "--last", "2",
                                            "--greedy", "2", "--json"});
}

TEST(Logits, AreJson) {
    const Outcome outcome = logits(tiny);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const auto parsed = parse_json(outcome.out, "output");
    ASSERT_TRUE(parsed.ok()) << outcome.out.substr(0, 200);
    EXPECT_EQ(parsed->at("logits").as_array().size(), 2u);
    EXPECT_EQ(parsed->at("greedy").as_array().size(), 2u);
}

TEST(Logits, NumbersThatAreNotFiniteAreAnError) {
    const auto opened = checkpoint::Checkpoint::open(tiny);
    ASSERT_TRUE(opened.ok());
    const checkpoint::Tensor* norm = (*opened)->find("output_norm.weight");
    ASSERT_NE(norm, nullptr);
    ASSERT_EQ(norm->type, TensorType::f32);
    std::ifstream file(tiny, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const size_t at =
        bytes.find(std::string_view(reinterpret_cast<const char*>(norm->data.data()), norm->data.size()));
    ASSERT_NE(at, std::string::npos);
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::string changed = bytes;
        std::memcpy(&changed[at], &value, sizeof value);
        const auto path =
            std::filesystem::temp_directory_path() / ("deepinfer_logits_" + std::to_string(getpid()));
        std::ofstream(path, std::ios::binary) << changed;
        const Outcome outcome = logits(path);
        std::filesystem::remove(path);
        EXPECT_EQ(outcome.code, 1);
        EXPECT_EQ(outcome.out, "");
        EXPECT_NE(outcome.err.find("not finite"), std::string::npos) << outcome.err;
    }
}

}  // namespace
}  // namespace deepinfer::cli
