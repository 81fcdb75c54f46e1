// The same weights as GGUF and as safetensors (tests/oracle/gguf, written by make_gguf.py) are the same
// numbers.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "kernels/dequantize.h"

namespace deepinfer::checkpoint {
namespace {

const std::string kOracle = DEEPINFER_TEST_DATA "/oracle/";

std::unique_ptr<Checkpoint> open(const std::string& path) {
    auto opened = Checkpoint::open(kOracle + path);
    if (!opened) {
        ADD_FAILURE() << opened.error().message;
        return nullptr;
    }
    return std::move(*opened);
}

std::vector<float> values_of(const Tensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.values()));
    kernels::dequantize_row(tensor.type, tensor.data.data(), values.data(), values.size());
    return values;
}

// GGUF tensor name -> safetensors tensor name.
std::string safetensors_name(const std::string& name, bool gemma) {
    static const std::map<std::string, std::string> whole = {
        {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
    static const std::map<std::string, std::string> llama_parts = {
        {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
        {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
        {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
        {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
        {"ffn_down", "mlp.down_proj"},
    };
    static const std::map<std::string, std::string> gemma_parts = {
        {"attn_q_norm", "self_attn.q_norm"},
        {"attn_k_norm", "self_attn.k_norm"},
        {"post_attention_norm", "post_attention_layernorm"},
        {"ffn_norm", "pre_feedforward_layernorm"},
        {"post_ffw_norm", "post_feedforward_layernorm"},
    };
    const std::string stem = name.substr(0, name.rfind(".weight"));
    if (const auto found = whole.find(stem); found != whole.end()) return found->second + ".weight";
    const size_t dot = stem.find('.', 4);  // blk.N.part
    const std::string part = stem.substr(dot + 1);
    const auto in_gemma = gemma_parts.find(part);
    const std::string& other =
        gemma && in_gemma != gemma_parts.end() ? in_gemma->second : llama_parts.at(part);
    return "model.layers." + stem.substr(4, dot - 4) + "." + other + ".weight";
}

// Llama's GGUF keeps the two halves of each head's query and key rows interleaved; this puts them back.
std::vector<float> separate_halves(const std::vector<float>& rows, size_t heads, size_t columns) {
    const size_t head_dim = rows.size() / columns / heads;
    std::vector<float> out;
    out.reserve(rows.size());
    for (size_t head = 0; head < heads; ++head) {
        for (size_t i = 0; i < head_dim; ++i) {
            const size_t row = i < head_dim / 2 ? 2 * i : 2 * (i - head_dim / 2) + 1;
            const auto begin = rows.begin() + static_cast<ptrdiff_t>((head * head_dim + row) * columns);
            out.insert(out.end(), begin, begin + static_cast<ptrdiff_t>(columns));
        }
    }
    return out;
}

// Every tensor of either file must have its counterpart.
void expect_same_weights(const Checkpoint& gguf, const Checkpoint& safetensors) {
    const std::string arch = gguf.metadata().string("general.architecture").value().value();
    const bool gemma = arch == "gemma3";
    const auto heads =
        static_cast<size_t>(gguf.metadata().integer(arch + ".attention.head_count").value().value());
    const auto kv_heads =
        static_cast<size_t>(gguf.metadata().integer(arch + ".attention.head_count_kv").value().value());
    std::set<std::string> seen;
    for (const Tensor& stored : gguf.tensors()) {
        if (stored.name == "rope_freqs.weight") continue;  // derived from config.json
        SCOPED_TRACE(stored.name + " " + to_string(stored.type));
        const std::string name = safetensors_name(stored.name, gemma);
        const Tensor* other = safetensors.find(name);
        ASSERT_NE(other, nullptr) << name;
        ASSERT_TRUE(seen.insert(name).second);
        ASSERT_EQ(stored.shape, other->shape);
        const auto columns = static_cast<size_t>(stored.columns());
        std::vector<float> actual = values_of(stored), expected = values_of(*other);
        if (!gemma && stored.name.ends_with("attn_q.weight"))
            actual = separate_halves(actual, heads, columns);
        if (!gemma && stored.name.ends_with("attn_k.weight"))
            actual = separate_halves(actual, kv_heads, columns);
        if (gemma && stored.name.find("norm") != std::string::npos) {
            for (float& value : expected) value += 1.0f;
        }
        for (size_t i = 0; i < actual.size(); ++i) ASSERT_EQ(actual[i], expected[i]) << "value " << i;
    }
    EXPECT_EQ(seen.size(), safetensors.tensors().size());
}

TEST(Equivalence, ReferenceLlama) {
    const auto gguf = open("gguf/llama-bf16.gguf"), safetensors = open("llama");
    ASSERT_TRUE(gguf && safetensors);
    expect_same_weights(*gguf, *safetensors);
    EXPECT_NE(gguf->find("rope_freqs.weight"), nullptr);
}

TEST(Equivalence, ReferenceGemma3) {
    const auto gguf = open("gguf/gemma3-bf16.gguf"), safetensors = open("gemma3");
    ASSERT_TRUE(gguf && safetensors);
    expect_same_weights(*gguf, *safetensors);
    const MetadataArray* pattern = gguf->metadata().array("gemma3.attention.sliding_window_pattern");
    ASSERT_NE(pattern, nullptr);
    EXPECT_EQ(std::get<std::vector<bool>>(pattern->values), (std::vector<bool>{true, true, false, true}));
}

TEST(Equivalence, EveryTensorType) {
    const auto gguf = open("gguf/all_types/all_types.gguf"), safetensors = open("gguf/all_types");
    ASSERT_TRUE(gguf && safetensors);
    expect_same_weights(*gguf, *safetensors);
    std::set<TensorType> types;
    for (const Tensor& tensor : gguf->tensors()) types.insert(tensor.type);
    EXPECT_EQ(types.size(), 15u);
}

TEST(Equivalence, ReferenceFoldersHaveTheirConfig) {
    for (const std::string arch : {"llama", "qwen2", "qwen3", "gemma3"}) {
        const auto model = open(arch);
        ASSERT_TRUE(model);
        EXPECT_NE(model->config_json().find("\"model_type\": \"" + arch), std::string::npos);
        EXPECT_NE(model->find("model.embed_tokens.weight"), nullptr);
    }
}

}  // namespace
}  // namespace deepinfer::checkpoint
