#include "models/decoder.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/dequantize.h"

namespace deepinfer::models {

namespace {

constexpr int rows_per_piece = 4;  // of row-wise work handed to a thread at a time

size_t product(int a, int b) { return static_cast<size_t>(a) * static_cast<size_t>(b); }

}  // namespace

void AttentionWeights::weigh(Weights& w, const DecoderConfig& config, int layer) {
    const int hidden = config.hidden, q_width = config.heads * config.head_dim;
    const int kv_width = config.kv_heads * config.head_dim;
    w.matrix(q, "blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight", layer, q_width, hidden);
    w.matrix(k, "blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight", layer, kv_width, hidden);
    w.matrix(v, "blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight", layer, kv_width, hidden);
    w.together(3);
    w.matrix(o, "blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight", layer, hidden,
             q_width);
}

void FeedForwardWeights::weigh(Weights& w, const DecoderConfig& config, int layer) {
    const int hidden = config.hidden, ffn = config.ffn;
    w.matrix(gate, "blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight", layer, ffn, hidden);
    w.matrix(up, "blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight", layer, ffn, hidden);
    w.together(2);
    w.matrix(down, "blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight", layer, hidden, ffn);
}

Decoder::Decoder(const DecoderConfig& config, ThreadPool& pool, kernels::Isa isa)
    : config_(config),
      rope_(config.rope),
      local_rope_(config.local_layers.empty() ? RopeTable() : RopeTable(config.local_rope)),
      context_(pool, isa),
      shape_(dense_shape(config_)),
      step_(context_, config_) {
    info_.architecture = config.architecture;
    info_.vocabulary = config.vocabulary;
    info_.context_length = config.context;
}

Result<kv::Layout> Decoder::kv_layout(KvType type) const {
    if (!kv_type_fits(type, config_.head_dim))
        return Error{ErrorCode::unsupported, "a KV cache of type " + std::string(to_string(type)) +
                                                 " needs heads of a multiple of 32; this model's have " +
                                                 std::to_string(config_.head_dim) + ": use f16"};
    kv::Layout layout;
    layout.type = type;
    for (int l = 0; l < config_.layers; ++l) layout.add_layer(config_.kv_heads, config_.head_dim);
    return layout;
}

Status Decoder::load(const checkpoint::Checkpoint& checkpoint, const LoadOptions& options) {
    Weights weights(checkpoint, config_, options);
    weights.embedding(embedding_, "token_embd.weight", "model.embed_tokens.weight", config_.vocabulary,
                      config_.hidden);
    weigh(weights);
    weights.norm(output_norm_, "output_norm.weight", "model.norm.weight", 0, config_.hidden);
    if (config_.tied_embeddings)
        weights.matrix(output_, "token_embd.weight", "model.embed_tokens.weight", 0, config_.vocabulary,
                       config_.hidden);
    else
        weights.matrix(output_, "output.weight", "lm_head.weight", 0, config_.vocabulary, config_.hidden);
    auto memory = weights.pack(context_, info_);
    if (!memory) return std::move(memory).error();
    memory_ = std::move(*memory);
    shape_.head_bytes = static_cast<int64_t>(output_.bytes());
    shape_.layer_bytes = weights.read_bytes() - shape_.head_bytes;
    return {};
}

void Decoder::embed(const Batch& batch) {
    const size_t row_size = row_bytes(embedding_.type, static_cast<size_t>(config_.hidden));
    context_.pool.for_each(step_.rows(), rows_per_piece, [&](int begin, int end, int) {
        for (int row = begin; row < end; ++row) {
            float* x = step_.x.data() + product(row, config_.hidden);
            kernels::dequantize_row(
                embedding_.type,
                embedding_.data.data() +
                    static_cast<size_t>(batch.tokens[static_cast<size_t>(row)]) * row_size,
                x, static_cast<size_t>(config_.hidden));
            if (embedding_scale_ != 1.0f) context_.table.scale(x, embedding_scale_, config_.hidden);
        }
    });
}

void Decoder::head(const Batch& batch, float* logits) {
    const int count = static_cast<int>(batch.logit_rows.size());
    if (count == 0) return;
    if (selected_.size() < product(count, config_.hidden)) selected_.resize(product(count, config_.hidden));
    selected_activations_.reset(selected_.data(), count, config_.hidden, [&](int i, float* y) {
        const int row = batch.logit_rows[static_cast<size_t>(i)];
        context_.table.rms_norm(step_.x.data() + product(row, config_.hidden), output_norm_.data(),
                                config_.norm_eps, config_.hidden, y);
    });
    const kernels::Product product_of{&output_, logits, static_cast<size_t>(config_.vocabulary)};
    kernels::multiply(context_, selected_activations_, {&product_of, 1});
}

void Decoder::forward(const Batch& batch, const kv::BlockPool& pool, float* logits) {
    step_.begin(batch, pool, pool.layout());
    embed(batch);
    for (int l = 0; l < config_.layers; ++l) layer(l, step_);
    head(batch, logits);
    step_.end();
}

}  // namespace deepinfer::models
