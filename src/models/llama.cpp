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
        kernels::Linear q, k, v, o, gate, up, down;
    };
    std::vector<Layer> layers_;

    void weigh(Weights& w) override {
        const int hidden = config_.hidden, q = config_.heads * config_.head_dim,
                  kv = config_.kv_heads * config_.head_dim;
        layers_.resize(static_cast<size_t>(config_.layers));
        for (int l = 0; l < config_.layers; ++l) {
            Layer& layer = layers_[static_cast<size_t>(l)];
            w.norm(layer.attention_norm, "blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight",
                   l, hidden);
            w.matrix(layer.q, "blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight", l, q,
                     hidden);
            w.matrix(layer.k, "blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight", l, kv,
                     hidden);
            w.matrix(layer.v, "blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight", l, kv,
                     hidden);
            w.matrix(layer.o, "blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight", l,
                     hidden, q);
            w.norm(layer.ffn_norm, "blk.{}.ffn_norm.weight",
                   "model.layers.{}.post_attention_layernorm.weight", l, hidden);
            w.matrix(layer.gate, "blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight", l,
                     config_.ffn, hidden);
            w.matrix(layer.up, "blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight", l, config_.ffn,
                     hidden);
            w.matrix(layer.down, "blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight", l, hidden,
                     config_.ffn);
        }
    }

    void layer(int index, Step& s) override {
        const Layer& w = layers_[static_cast<size_t>(index)];
        s.norm_input(w.attention_norm);
        s.project(w.q, s.q);
        s.project(w.k, s.k);
        s.project(w.v, s.v);
        s.rotate(s.q, config_.heads, rope_, config_.rope.interleaved);
        s.rotate(s.k, config_.kv_heads, rope_, config_.rope.interleaved);
        s.attend(index, 0);
        s.project_from(w.o, s.attended);
        s.add_out();

        s.norm_input(w.ffn_norm);
        s.project(w.gate, s.gate);
        s.project(w.up, s.up);
        s.silu_gate();
        s.project_from(w.down, s.gate);
        s.add_out();
    }
};

}  // namespace

std::unique_ptr<Decoder> make_llama(const DecoderConfig& config, ThreadPool& pool, kernels::Isa isa) {
    return std::make_unique<Llama>(config, pool, isa);
}

}  // namespace deepinfer::models
