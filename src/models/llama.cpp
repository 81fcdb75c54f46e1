// Llama: pre-norm decoder, grouped-query attention with rotary embedding, SwiGLU.
#include "models/decoder.h"

namespace deepinfer::models {

namespace {

class Llama final : public Decoder {
  public:
    using Decoder::Decoder;

  private:
    struct Layer {
        std::vector<float> attention_norm, ffn_norm;
        AttentionWeights attention;
        FeedForwardWeights ffn;
    };
    std::vector<Layer> layers_;

    void weigh(Weights& w) override {
        layers_.resize(static_cast<size_t>(config_.layers));
        for (int l = 0; l < config_.layers; ++l) {
            Layer& layer = layers_[static_cast<size_t>(l)];
            layer.attention.weigh(w, config_, l);
            layer.ffn.weigh(w, config_, l);
            w.norm(layer.attention_norm, "blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight",
                   l, config_.hidden);
            w.norm(layer.ffn_norm, "blk.{}.ffn_norm.weight",
                   "model.layers.{}.post_attention_layernorm.weight", l, config_.hidden);
        }
    }

    void layer(int index, Step& s) override {
        const Layer& w = layers_[static_cast<size_t>(index)];
        s.project_normed(w.attention_norm,
                         {{w.attention.q, s.q}, {w.attention.k, s.k}, {w.attention.v, s.v}});
        s.attend(index, {rope_, config_.rope.interleaved});
        s.add_attended(w.attention.o);
        s.project_normed(w.ffn_norm, {{w.ffn.gate, s.gate}, {w.ffn.up, s.up}});
        s.add_gated(Step::Gate::silu, w.ffn.down);
    }
};

}  // namespace

std::unique_ptr<Decoder> make_llama(const DecoderConfig& config, ThreadPool& pool, kernels::Isa isa) {
    return std::make_unique<Llama>(config, pool, isa);
}

}  // namespace deepinfer::models
