#include "models/step.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numbers>

namespace deepinfer::models {

namespace {

constexpr int run_tokens = 16;     // a vector of keys in the K layout
constexpr int rows_per_piece = 4;  // of row-wise work handed to a thread at a time

size_t product(int a, int b) { return static_cast<size_t>(a) * static_cast<size_t>(b); }

void grow(std::vector<float>& buffer, size_t size) {
    if (buffer.size() < size) buffer.resize(size);
}

// Beyond it a value, or in q8 the scale of its block, would become infinite.
float largest_stored(KvType type) {
    constexpr float largest_f16 = 65'504, largest_bf16 = 0x1.FEp127f;
    switch (type) {
        case KvType::f16:
            return largest_f16;
        case KvType::q8:
            return 127 * largest_f16;
        case KvType::bf16:
            return largest_bf16;
        case KvType::f32:
            break;
    }
    return std::numeric_limits<float>::max();
}

}  // namespace

template <class F>
void Step::each_row(F&& f) {
    context_.pool.for_each(rows_, rows_per_piece, [&](int begin, int end, int) {
        for (int row = begin; row < end; ++row) f(row);
    });
}

void Step::begin(const Batch& batch, const kv::BlockPool& pool, const kv::Layout& layout) {
    layout_ = &layout;
    rows_ = static_cast<int>(batch.tokens.size());
    for (auto* buffer : {&x, &h, &out}) grow(*buffer, product(rows_, config_.hidden));
    for (auto* buffer : {&q, &attended}) grow(*buffer, product(rows_, config_.heads * config_.head_dim));
    for (auto* buffer : {&k, &v}) grow(*buffer, product(rows_, config_.kv_heads * config_.head_dim));
    for (auto* buffer : {&gate, &up}) grow(*buffer, product(rows_, config_.ffn));
    end_position_ = 0;
    block_data_.clear();
    runs_.clear();
    sequences_.clear();
    std::vector<size_t> first_block;
    for (const SequenceChunk& chunk : batch.sequences) {
        const auto sequence = static_cast<int>(first_block.size());
        first_block.push_back(block_data_.size());
        end_position_ = std::max(end_position_, chunk.position + chunk.rows);
        const auto used = static_cast<size_t>(kv::blocks_for(chunk.position + chunk.rows));
        assert(used <= chunk.blocks.size());
        for (size_t b = 0; b < used; ++b) block_data_.push_back(pool.data(chunk.blocks[b]));
        for (int i = 0; i < chunk.rows;) {
            const int position = chunk.position + i,
                      take = std::min(run_tokens - position % run_tokens, chunk.rows - i);
            const kv::BlockId block = chunk.blocks[static_cast<size_t>(position / kv::block_tokens)];
            runs_.push_back({sequence, chunk.first_row + i, take, position, pool.data(block)});
            i += take;
        }
    }
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
        const SequenceChunk& chunk = batch.sequences[i];
        sequences_.push_back(
            {chunk.first_row, chunk.rows, chunk.position, block_data_.data() + first_block[i]});
    }
}

void Step::end() {
    not_finite_.clear();
    for (const Run& run : runs_)
        if (!run.finite && (not_finite_.empty() || not_finite_.back() != run.sequence))
            not_finite_.push_back(run.sequence);
}

void Step::project_normed(const std::vector<float>& norm_weight,
                          std::initializer_list<Projection> projections) {
    input_.reset(h.data(), rows_, config_.hidden, [this, &norm_weight](int row, float* y) {
        context_.table.rms_norm(x.data() + product(row, config_.hidden), norm_weight.data(), config_.norm_eps,
                                config_.hidden, y);
    });
    products_.clear();
    for (const Projection& p : projections)
        products_.push_back({&p.w, p.target.data(), static_cast<size_t>(p.w.outputs()),
                             p.bias ? p.bias->data() : nullptr, false});
    kernels::multiply(context_, input_, products_);
}

void Step::prepare_run(Run& run, const kv::LayerLayout& place, const Attention& how) {
    const kernels::KernelTable& table = context_.table;
    const int dim = config_.head_dim, kv_heads = config_.kv_heads;
    const auto prepare = [&](float* head, const std::vector<float>* norm, const float* cos_sin) {
        if (norm) table.rms_norm(head, norm->data(), config_.norm_eps, dim, head);
        table.rope(head, cos_sin, config_.rope.dim, how.interleaved);
    };
    for (int i = 0; i < run.rows; ++i) {
        const int row = run.first_row + i;
        const float* cos_sin = how.rope.row(run.position + i);
        float* queries = q.data() + product(row, config_.heads * dim);
        for (int head = 0; head < config_.heads; ++head) prepare(queries + head * dim, how.q_norm, cos_sin);
        table.scale(queries, config_.attention_scale * std::numbers::log2e_v<float>, config_.heads * dim);
        for (int head = 0; head < kv_heads; ++head)
            prepare(k.data() + product(row * kv_heads + head, dim), how.k_norm, cos_sin);
    }
    const size_t first = product(run.first_row, kv_heads * dim);
    for (const float* stored : {k.data() + first, v.data() + first})
        run.finite =
            run.finite && table.all_within(stored, run.rows * kv_heads * dim, largest_stored(layout_->type));
    for (int head = 0; head < kv_heads; ++head) {
        const size_t at = product(run.first_row * kv_heads + head, dim),
                     offset = static_cast<size_t>(head) * place.head_stride;
        table.store_kv(k.data() + at, v.data() + at, product(kv_heads, dim), dim,
                       run.position % kv::block_tokens, run.rows, layout_->type,
                       run.block + place.k_offset + offset, run.block + place.v_offset + offset);
    }
}

void Step::attend(int layer, const Attention& how) {
    const kv::LayerLayout& place = layout_->layers[static_cast<size_t>(layer)];
    how.rope.ensure(end_position_);
    // Runs write different token slots; nobody reads before all have written.
    context_.pool.for_each(static_cast<int>(runs_.size()), 2, [&](int begin, int end, int) {
        for (int r = begin; r < end; ++r) prepare_run(runs_[static_cast<size_t>(r)], place, how);
    });
    const kernels::AttentionShape shape{config_.heads, config_.kv_heads, config_.head_dim, how.window};
    const kernels::KvLayerView view{place.k_offset, place.v_offset, place.head_stride, layout_->type};
    kernels::attention(context_, shape, view, sequences_, q.data(), attended.data());
}

void Step::add_product(const kernels::Linear& w, const std::vector<float>* norm_weight) {
    const auto width = static_cast<size_t>(config_.hidden);
    const kernels::Product product_of{&w, norm_weight ? out.data() : x.data(), width, nullptr, !norm_weight};
    kernels::multiply(context_, source_, {&product_of, 1});
    if (!norm_weight) return;
    each_row([&](int row) {
        float *y = out.data() + product(row, config_.hidden), *to = x.data() + product(row, config_.hidden);
        context_.table.rms_norm(y, norm_weight->data(), config_.norm_eps, config_.hidden, y);
        context_.table.add(to, y, config_.hidden, to);
    });
}

void Step::add_attended(const kernels::Linear& w, const std::vector<float>* norm_weight) {
    source_.reset(attended.data(), rows_, w.columns());
    add_product(w, norm_weight);
}

void Step::add_gated(Gate act, const kernels::Linear& w, const std::vector<float>* norm_weight) {
    const auto gated = act == Gate::silu ? context_.table.silu_mul : context_.table.gelu_mul;
    source_.reset(gate.data(), rows_, config_.ffn, [this, gated](int row, float* y) {
        gated(y, up.data() + product(row, config_.ffn), config_.ffn, y);
    });
    add_product(w, norm_weight);
}

}  // namespace deepinfer::models
