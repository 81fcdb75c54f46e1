// Qwen2 and Qwen2.5: as Llama, with biases on the query, key and value projections.
#include "models/decoder.h"

namespace deepinfer::models {

namespace {

class Qwen2 final : public Decoder {
  public:
    using Decoder::Decoder;

  private:
    struct Layer {
        std::vector<float> attention_norm, ffn_norm, q_bias, k_bias, v_bias;
        AttentionWeights attention;
        FeedForwardWeights ffn;
    };
    std::vector<Layer> layers_;

    void weigh(Weights& w) override {
        const int q_width = config_.heads * config_.head_dim, kv_width = config_.kv_heads * config_.head_dim;
        layers_.resize(static_cast<size_t>(config_.layers));
        for (int l = 0; l < config_.layers; ++l) {
            Layer& layer = layers_[static_cast<size_t>(l)];
            layer.attention.weigh(w, config_, l);
            layer.ffn.weigh(w, config_, l);
            w.norm(layer.attention_norm, "blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight",
                   l, config_.hidden);
            w.vector(layer.q_bias, "blk.{}.attn_q.bias", "model.layers.{}.self_attn.q_proj.bias", l, q_width);
            w.vector(layer.k_bias, "blk.{}.attn_k.bias", "model.layers.{}.self_attn.k_proj.bias", l,
                     kv_width);
            w.vector(layer.v_bias, "blk.{}.attn_v.bias", "model.layers.{}.self_attn.v_proj.bias", l,
                     kv_width);
            w.norm(layer.ffn_norm, "blk.{}.ffn_norm.weight",
                   "model.layers.{}.post_attention_layernorm.weight", l, config_.hidden);
        }
    }

    void layer(int index, Step& s) override {
        const Layer& w = layers_[static_cast<size_t>(index)];
        s.project_normed(w.attention_norm, {{w.attention.q, s.q, &w.q_bias},
                                            {w.attention.k, s.k, &w.k_bias},
                                            {w.attention.v, s.v, &w.v_bias}});
        s.attend(index, {rope_, config_.rope.interleaved});
        s.add_attended(w.attention.o);
        s.project_normed(w.ffn_norm, {{w.ffn.gate, s.gate}, {w.ffn.up, s.up}});
        s.add_gated(Step::Gate::silu, w.ffn.down);
    }
};

}  // namespace

std::unique_ptr<Decoder> make_qwen2(const DecoderConfig& config, ThreadPool& pool, kernels::Isa isa) {
    return std::make_unique<Qwen2>(config, pool, isa);
}

}  // namespace deepinfer::models
