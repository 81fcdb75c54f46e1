// Gemma 3 (text): norms before and after each half, query and key heads normed, GELU gate, scaled embedding.
// Most layers attend to a sliding window and have a rotary base of their own.
#include <cmath>

#include "models/decoder.h"

namespace deepinfer::models {

namespace {

class Gemma3 final : public Decoder {
  public:
    using Decoder::Decoder;

  private:
    struct Layer {
        std::vector<float> attention_norm, post_attention_norm, ffn_norm, post_ffn_norm, q_norm, k_norm;
        AttentionWeights attention;
        FeedForwardWeights ffn;
    };
    std::vector<Layer> layers_;

    void weigh(Weights& w) override {
        embedding_scale_ = std::sqrt(static_cast<float>(config_.hidden));
        layers_.resize(static_cast<size_t>(config_.layers));
        for (int l = 0; l < config_.layers; ++l) {
            Layer& layer = layers_[static_cast<size_t>(l)];
            layer.attention.weigh(w, config_, l);
            layer.ffn.weigh(w, config_, l);
            w.norm(layer.attention_norm, "blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight",
                   l, config_.hidden);
            w.norm(layer.q_norm, "blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.q_norm.weight", l,
                   config_.head_dim);
            w.norm(layer.k_norm, "blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.k_norm.weight", l,
                   config_.head_dim);
            w.norm(layer.post_attention_norm, "blk.{}.post_attention_norm.weight",
                   "model.layers.{}.post_attention_layernorm.weight", l, config_.hidden);
            w.norm(layer.ffn_norm, "blk.{}.ffn_norm.weight",
                   "model.layers.{}.pre_feedforward_layernorm.weight", l, config_.hidden);
            w.norm(layer.post_ffn_norm, "blk.{}.post_ffw_norm.weight",
                   "model.layers.{}.post_feedforward_layernorm.weight", l, config_.hidden);
        }
    }

    void layer(int index, Step& s) override {
        const Layer& w = layers_[static_cast<size_t>(index)];
        const bool local = config_.local_layers[static_cast<size_t>(index)];
        s.project_normed(w.attention_norm,
                         {{w.attention.q, s.q}, {w.attention.k, s.k}, {w.attention.v, s.v}});
        s.attend(index, {local ? local_rope_ : rope_, false, local ? config_.sliding_window : 0, &w.q_norm,
                         &w.k_norm});
        s.add_attended(w.attention.o, &w.post_attention_norm);
        s.project_normed(w.ffn_norm, {{w.ffn.gate, s.gate}, {w.ffn.up, s.up}});
        s.add_gated(Step::Gate::gelu, w.ffn.down, &w.post_ffn_norm);
    }
};

}  // namespace

std::unique_ptr<Decoder> make_gemma3(const DecoderConfig& config, ThreadPool& pool, kernels::Isa isa) {
    return std::make_unique<Gemma3>(config, pool, isa);
}

}  // namespace deepinfer::models
