// Hyperparameters from GGUF metadata and from config.json. Run: model_config_fuzz NEW_INPUTS
// tests/fuzz/corpus/model_config
//
// Input: a GGUF file, or else the text of a config.json. What is accepted must be safe to build a model from.
#include <cmath>
#include <string>
#include <string_view>

#include "checkpoint_invariants.h"
#include "models/config.h"

namespace {

using namespace deepinfer;
using checkpoint::require;

// Only config.json: a folder with safetensors of which nothing else is looked at.
class ConfigOnly final : public checkpoint::Checkpoint {
  public:
    explicit ConfigOnly(std::string_view json) : json_(json) {}
    checkpoint::FileFormat format() const override { return checkpoint::FileFormat::safetensors; }
    const std::filesystem::path& path() const override { return path_; }
    const checkpoint::Metadata& metadata() const override { return metadata_; }
    const std::string& config_json() const override { return json_; }
    const std::vector<checkpoint::Tensor>& tensors() const override { return tensors_; }
    const checkpoint::Tensor* find(std::string_view) const override { return nullptr; }
    uint64_t file_bytes() const override { return 0; }
    void release_pages(std::span<const std::byte>) const override {}

  private:
    std::string json_;
    std::filesystem::path path_;
    checkpoint::Metadata metadata_;
    std::vector<checkpoint::Tensor> tensors_;
};

void check_rope(const models::RopeConfig& rope, int head_dim) {
    require(rope.dim > 0 && rope.dim % 2 == 0 && rope.dim <= head_dim);
    require(std::isfinite(rope.theta) && rope.theta > 1);
    require(std::isfinite(rope.scaling.factor) && rope.scaling.factor > 0);
    if (rope.scaling.kind == models::RopeScaling::Kind::llama3)
        require(rope.scaling.low_freq_factor > 0 &&
                rope.scaling.high_freq_factor > rope.scaling.low_freq_factor);
    require(rope.freq_factors.empty() || rope.freq_factors.size() == static_cast<size_t>(rope.dim / 2));
}

void check_config(const Result<models::DecoderConfig>& config) {
    if (!config) return checkpoint::check_error(config.error());
    require(config->layers > 0 && config->hidden > 0 && config->ffn > 0 && config->vocabulary > 0);
    require(config->context > 0 && config->head_dim > 0);
    require(config->kv_heads > 0 && config->heads > 0 && config->heads % config->kv_heads == 0);
    // Sizes are products of these; as int64 they must not overflow, nor come near it as int.
    for (const int64_t width :
         {int64_t{config->hidden}, int64_t{config->ffn}, int64_t{config->heads} * config->head_dim})
        require(width <= 1 << 20);
    require(std::isfinite(config->norm_eps) && config->norm_eps > 0);
    require(std::isfinite(config->attention_scale) && config->attention_scale > 0);
    check_rope(config->rope, config->head_dim);
    require(config->sliding_window >= 0);
    if (!config->local_layers.empty()) {
        require(config->local_layers.size() == static_cast<size_t>(config->layers));
        require(config->sliding_window > 0);
        check_rope(config->local_rope, config->head_dim);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    if (input.starts_with("GGUF")) {
        const auto file = checkpoint::Checkpoint::parse_gguf(std::as_bytes(std::span(data, size)));
        if (file) check_config(models::read_config(**file));  // otherwise gguf_fuzz's business
    } else {
        check_config(models::read_config(ConfigOnly(input)));
    }
    return 0;
}
