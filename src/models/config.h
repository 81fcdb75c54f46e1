// Hyperparameters of a dense decoder, read from GGUF metadata or a Hugging Face config.json and checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "models/rope.h"

namespace deepinfer::models {

struct DecoderConfig {
    std::string architecture;
    int layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0, context = 0;
    float norm_eps = 1e-5f;
    float attention_scale = 0;  // of q k^T
    RopeConfig rope;
    bool tied_embeddings = false;

    // Gemma 3: some layers see a window only, and have a rotary embedding of their own.
    int sliding_window = 0;
    std::vector<bool> local_layers;  // empty: none
    RopeConfig local_rope;

    // Safetensors of Gemma store norm weights minus one; GGUF files store them complete.
    bool norm_weights_minus_one = false;
};

// The name that selects the model class: "llama", "qwen2", ... as the file says it, variants of one class unified.
Result<std::string> read_architecture(const checkpoint::Checkpoint& checkpoint);

// Errors: corrupt_data for a field that is missing or out of range, unsupported for a feature that is not
// implemented; the message names the field. The architecture is taken as it is.
Result<DecoderConfig> read_config(const checkpoint::Checkpoint& checkpoint);

}  // namespace deepinfer::models
