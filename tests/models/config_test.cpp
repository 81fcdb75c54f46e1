// Rotary parameters that no model can have are refused when a configuration is read.
#include "models/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/gguf_builder.h"

namespace deepinfer::models {
namespace {

using namespace checkpoint;

// Only config.json: a folder with safetensors of which nothing else is looked at.
class ConfigOnly final : public Checkpoint {
  public:
    explicit ConfigOnly(std::string json) : json_(std::move(json)) {}
    FileFormat format() const override { return FileFormat::safetensors; }
    const std::filesystem::path& path() const override { return path_; }
    const Metadata& metadata() const override { return metadata_; }
    const std::string& config_json() const override { return json_; }
    const std::vector<Tensor>& tensors() const override { return tensors_; }
    const Tensor* find(std::string_view) const override { return nullptr; }
    uint64_t file_bytes() const override { return 0; }
    void release_pages(std::span<const std::byte>) const override {}

  private:
    std::string json_;
    std::filesystem::path path_;
    Metadata metadata_;
    std::vector<Tensor> tensors_;
};

Result<DecoderConfig> read(const std::string& architecture, const std::string& fields) {
    return read_config(ConfigOnly(R"({"model_type": ")" + architecture + R"(", "num_hidden_layers": 2,
        "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "head_dim": 16,
        "vocab_size": 512, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, )" +
                                  fields + "}"));
}

void expect_refused(const Result<DecoderConfig>& config, const std::string& named) {
    ASSERT_FALSE(config.ok()) << named;
    EXPECT_EQ(config.error().code, ErrorCode::corrupt_data) << named;
    EXPECT_NE(config.error().message.find(named), std::string::npos) << config.error().message;
}

std::string rope(const std::string& type, const std::string& fields) {
    return R"("rope_parameters": {"rope_type": ")" + type + R"(", "factor": 8, )" + fields + "}";
}

TEST(RopeConfig, OfLlama3) {
    const auto with = [](const std::string& original, const std::string& low, const std::string& high) {
        return read("llama",
                    rope("llama3", "\"original_max_position_embeddings\": " + original +
                                       ", \"low_freq_factor\": " + low + ", \"high_freq_factor\": " + high));
    };
    EXPECT_TRUE(with("128", "1", "4").ok());
    expect_refused(with("0", "1", "4"), "original context");
    expect_refused(with("-128", "1", "4"), "original context");
    expect_refused(with("1e300", "1", "4"), "original context");
    expect_refused(with("128", "0", "4"), "low frequency factor");
    expect_refused(with("128", "-1", "4"), "low frequency factor");
    expect_refused(with("128", "1", "-4"), "high frequency factor");
    expect_refused(with("128", "4", "4"), "below the high one");  // divides by their difference
    expect_refused(with("128", "5", "4"), "below the high one");
}

TEST(RopeConfig, OfYarn) {
    const auto with = [](const std::string& fields) {
        return read("llama", rope("yarn", "\"original_max_position_embeddings\": 128, " + fields));
    };
    EXPECT_TRUE(with(R"("beta_fast": 32, "beta_slow": 1, "attention_factor": 0)").ok());
    EXPECT_TRUE(with(R"("attention_factor": 1.2)").ok());
    expect_refused(with(R"("beta_fast": 0)"), "beta_fast");
    expect_refused(with(R"("beta_slow": -1)"), "beta_slow");
    expect_refused(with(R"("attention_factor": -0.5)"), "attention factor");
    expect_refused(with(R"("attention_factor": 1e39)"), "attention factor");
    expect_refused(read("llama", rope("yarn", R"("original_max_position_embeddings": 0)")),
                   "original context");
}

TEST(RopeConfig, WhatAKindDoesNotUseIsNotChecked) {
    EXPECT_TRUE(read("llama", rope("linear", R"("original_max_position_embeddings": 0)")).ok());
}

TEST(RopeConfig, OfLayersWithAWindow) {
    const auto with = [](const std::string& low) {
        return read("gemma3", R"("sliding_window": 16, "rope_parameters": {"full_attention": {},
            "sliding_attention": {"rope_type": "llama3", "factor": 2, "high_freq_factor": 4,
            "original_max_position_embeddings": 128, "low_freq_factor": )" +
                                  low + "}}");
    };
    EXPECT_TRUE(with("1").ok());
    expect_refused(with("4"), "below the high one");
}

TEST(ModelConfig, LayerTypesOfAWrongTypeAreRefused) {
    const auto with = [](const std::string& types) {
        return read("gemma3", "\"sliding_window\": 16, \"layer_types\": " + types);
    };
    EXPECT_TRUE(with(R"(["sliding_attention", "full_attention"])").ok());
    EXPECT_TRUE(with("null").ok());
    expect_refused(with(R"("sliding_attention")"), "layer_types must be an array");
    expect_refused(with(R"({"0": "full_attention"})"), "layer_types must be an array");
}

// A file with rope_freqs.weight, all 1 but the last.
Result<DecoderConfig> with_factor(float last) {
    GgufSpec spec;
    const auto count = [](uint32_t v) { return typed(4, encoded(v)); };
    spec.metadata = {{"general.architecture", string_value("llama")},
                     {"llama.block_count", count(2)},
                     {"llama.embedding_length", count(64)},
                     {"llama.feed_forward_length", count(128)},
                     {"llama.attention.head_count", count(4)},
                     {"llama.context_length", count(1024)},
                     {"llama.attention.layer_norm_rms_epsilon", typed(6, encoded(1e-5f))}};
    spec.tensors = {
        {.name = "rope_freqs.weight", .dimensions = {8}, .offset = 0, .dimension_count = {}},
        {.name = "token_embd.weight", .dimensions = {64, 1}, .offset = 32, .dimension_count = {}}};
    spec.data_bytes = 32 + 256;
    std::string bytes = spec.build();
    float factors[8] = {1, 1, 1, 1, 1, 1, 1, last};
    std::memcpy(&bytes[bytes.size() - spec.data_bytes], factors, sizeof factors);
    const auto file = Checkpoint::parse_gguf(as_span(bytes));
    if (!file) return file.error();
    return read_config(**file);
}

TEST(RopeConfig, FrequencyFactorsOfTheFile) {
    const auto config = with_factor(2);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->rope.freq_factors.back(), 2);
    for (const float bad : {0.0f, -1.0f, std::numeric_limits<float>::infinity(), NAN})
        expect_refused(with_factor(bad), "frequency factor 7");
}

}  // namespace
}  // namespace deepinfer::models
