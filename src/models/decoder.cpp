#include "models/decoder.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/dequantize.h"

namespace deepinfer::models {

namespace {

static_assert(kv::block_tokens == kernels::kv_block_tokens, "the kernels read the pool's blocks");

constexpr int rows_per_piece = 4;  // of row-wise work handed to a thread at a time

size_t product(int a, int b) { return static_cast<size_t>(a) * static_cast<size_t>(b); }

void grow(std::vector<float>& buffer, size_t size) {
    if (buffer.size() < size) buffer.resize(size);
}

}  // namespace

template <class F>
void Step::each_row(F&& f) {
    context_.pool.for_each(rows_, rows_per_piece, [&](int begin, int end, int) {
        for (int row = begin; row < end; ++row) f(row);
    });
}

void Step::begin(const Batch& batch, const kv::BlockPool& pool, const kv::Layout& layout) {
    batch_ = &batch;
    pool_ = &pool;
    layout_ = &layout;
    rows_ = static_cast<int>(batch.tokens.size());
    for (auto* buffer : {&x, &h, &out}) grow(*buffer, product(rows_, config_.hidden));
    for (auto* buffer : {&q, &attended}) grow(*buffer, product(rows_, config_.heads * config_.head_dim));
    for (auto* buffer : {&k, &v}) grow(*buffer, product(rows_, config_.kv_heads * config_.head_dim));
    for (auto* buffer : {&gate, &up}) grow(*buffer, product(rows_, config_.ffn));
    positions_.assign(static_cast<size_t>(rows_), 0);
    end_position_ = 0;
    block_data_.clear();
    first_block_.clear();
    sequences_.clear();
    for (const SequenceChunk& chunk : batch.sequences) {
        first_block_.push_back(block_data_.size());
        for (int i = 0; i < chunk.rows; ++i)
            positions_[static_cast<size_t>(chunk.first_row + i)] = chunk.position + i;
        end_position_ = std::max(end_position_, chunk.position + chunk.rows);
        const int used = (chunk.position + chunk.rows + kv::block_tokens - 1) / kv::block_tokens;
        assert(static_cast<size_t>(used) <= chunk.blocks.size());
        for (int b = 0; b < used; ++b) block_data_.push_back(pool.data(chunk.blocks[static_cast<size_t>(b)]));
    }
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
        const SequenceChunk& chunk = batch.sequences[i];
        sequences_.push_back(
            {chunk.first_row, chunk.rows, chunk.position, block_data_.data() + first_block_[i]});
    }
}

void Step::norm_input(const std::vector<float>& weight) {
    const size_t width = static_cast<size_t>(config_.hidden);
    each_row([&](int row) {
        const size_t at = static_cast<size_t>(row) * width;
        context_.table.rms_norm(x.data() + at, weight.data(), config_.norm_eps, config_.hidden,
                                h.data() + at);
    });
    input_.reset(h.data(), rows_, config_.hidden);
}

void Step::project(const kernels::Linear& w, std::vector<float>& target, const std::vector<float>* bias) {
    const size_t width = static_cast<size_t>(w.outputs());
    w.forward(context_, input_, target.data(), width);
    if (!bias) return;
    each_row([&](int row) {
        float* y = target.data() + static_cast<size_t>(row) * width;
        context_.table.add(y, bias->data(), w.outputs(), y);
    });
}

void Step::project_from(const kernels::Linear& w, const std::vector<float>& source) {
    source_.reset(source.data(), rows_, w.columns());
    w.forward(context_, source_, out.data(), static_cast<size_t>(w.outputs()));
}

void Step::norm_heads(std::vector<float>& target, int heads, const std::vector<float>& weight) {
    each_row([&](int row) {
        for (int head = 0; head < heads; ++head) {
            float* y = target.data() + product(row * heads + head, config_.head_dim);
            context_.table.rms_norm(y, weight.data(), config_.norm_eps, config_.head_dim, y);
        }
    });
}

void Step::rotate(std::vector<float>& target, int heads, RopeTable& table, bool interleaved) {
    table.ensure(end_position_);
    each_row([&](int row) {
        const float* cos_sin = table.row(positions_[static_cast<size_t>(row)]);
        for (int head = 0; head < heads; ++head)
            context_.table.rope(target.data() + product(row * heads + head, config_.head_dim), cos_sin,
                                config_.rope.dim, interleaved);
    });
}

void Step::attend(int layer, int window) {
    const kv::LayerLayout& place = layout_->layers[static_cast<size_t>(layer)];
    const bool f16 = layout_->type == kv::KvType::f16;
    const int dim = config_.head_dim, kv_heads = config_.kv_heads;
    each_row([&](int row) {  // rows write different token slots; nobody reads before all have written
        const auto sequence =
            std::upper_bound(batch_->sequences.begin(), batch_->sequences.end(), row,
                             [](int r, const SequenceChunk& c) { return r < c.first_row; }) -
            batch_->sequences.begin() - 1;
        const int position = positions_[static_cast<size_t>(row)];
        const kv::BlockId block = batch_->sequences[static_cast<size_t>(sequence)]
                                      .blocks[static_cast<size_t>(position / kv::block_tokens)];
        uint8_t* data = pool_->data(block);
        for (int head = 0; head < kv_heads; ++head) {
            const size_t at = product(row * kv_heads + head, dim),
                         offset = static_cast<size_t>(head) * place.head_bytes;
            context_.table.store_kv(k.data() + at, v.data() + at, dim, position % kv::block_tokens, f16,
                                    data + place.k_offset + offset, data + place.v_offset + offset);
        }
        context_.table.scale(q.data() + product(row, config_.heads * dim), config_.attention_scale,
                             config_.heads * dim);
    });
    const kernels::AttentionShape shape{config_.heads, kv_heads, dim, window};
    const kernels::KvLayerView view{place.k_offset, place.v_offset, place.head_bytes, f16};
    kernels::attention(context_, shape, view, sequences_, q.data(), attended.data());
}

void Step::norm_out(const std::vector<float>& weight) {
    each_row([&](int row) {
        float* y = out.data() + product(row, config_.hidden);
        context_.table.rms_norm(y, weight.data(), config_.norm_eps, config_.hidden, y);
    });
}

void Step::add_out() {
    each_row([&](int row) {
        float* y = x.data() + product(row, config_.hidden);
        context_.table.add(y, out.data() + product(row, config_.hidden), config_.hidden, y);
    });
}

void Step::silu_gate() {
    each_row([&](int row) {
        float* y = gate.data() + product(row, config_.ffn);
        context_.table.silu_mul(y, up.data() + product(row, config_.ffn), config_.ffn, y);
    });
}

void Step::gelu_gate() {
    each_row([&](int row) {
        float* y = gate.data() + product(row, config_.ffn);
        context_.table.gelu_mul(y, up.data() + product(row, config_.ffn), config_.ffn, y);
    });
}

void AttentionWeights::weigh(Weights& w, const DecoderConfig& config, int layer) {
    const int hidden = config.hidden, q_width = config.heads * config.head_dim;
    const int kv_width = config.kv_heads * config.head_dim;
    w.matrix(q, "blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight", layer, q_width, hidden);
    w.matrix(k, "blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight", layer, kv_width, hidden);
    w.matrix(v, "blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight", layer, kv_width, hidden);
    w.matrix(o, "blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight", layer, hidden,
             q_width);
}

void FeedForwardWeights::weigh(Weights& w, const DecoderConfig& config, int layer) {
    const int hidden = config.hidden, ffn = config.ffn;
    w.matrix(gate, "blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight", layer, ffn, hidden);
    w.matrix(up, "blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight", layer, ffn, hidden);
    w.matrix(down, "blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight", layer, hidden, ffn);
}

Decoder::Decoder(const DecoderConfig& config, ThreadPool& pool, kernels::Isa isa)
    : config_(config),
      rope_(config.rope),
      local_rope_(config.local_layers.empty() ? RopeTable() : RopeTable(config.local_rope)),
      context_(pool, isa),
      step_(context_, config_) {
    info_.architecture = config.architecture;
    info_.vocabulary = config.vocabulary;
    info_.context_length = config.context;
}

kv::Layout Decoder::kv_layout(kv::KvType type) const {
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
    grow(selected_, product(count, config_.hidden));
    context_.pool.for_each(count, rows_per_piece, [&](int begin, int end, int) {
        for (int i = begin; i < end; ++i)
            context_.table.rms_norm(
                step_.x.data() + product(batch.logit_rows[static_cast<size_t>(i)], config_.hidden),
                output_norm_.data(), config_.norm_eps, config_.hidden,
                selected_.data() + product(i, config_.hidden));
    });
    selected_activations_.reset(selected_.data(), count, config_.hidden);
    output_.forward(context_, selected_activations_, logits, static_cast<size_t>(config_.vocabulary));
}

void Decoder::forward(const Batch& batch, const kv::BlockPool& pool, float* logits) {
    step_.begin(batch, pool, pool.layout());
    embed(batch);
    for (int l = 0; l < config_.layers; ++l) layer(l, step_);
    head(batch, logits);
}

}  // namespace deepinfer::models
