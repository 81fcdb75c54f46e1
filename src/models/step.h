// One forward pass over a batch: the buffers, and the steps that the layers of dense decoders are written in.
#pragma once

#include <span>
#include <vector>

#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kv/block_pool.h"
#include "models/config.h"
#include "models/model.h"
#include "models/rope.h"

namespace deepinfer::models {

// All buffers are [rows][width]; x is the residual stream. Each step works on all rows, in parallel over rows or
// outputs; none depends on another row except through attention. Steps that only prepare a row for the next
// product (norms, gates) are done when that product quantises the row.
class Step {
  public:
    Step(kernels::Context& context, const DecoderConfig& config) : context_(context), config_(config) {}

    std::vector<float> x, h, q, k, v, attended, gate, up, out;

    void begin(const Batch& batch, const kv::BlockPool& pool, const kv::Layout& layout);
    void end();
    // After end(): as Model::not_finite().
    std::span<const int32_t> not_finite() const { return not_finite_; }
    int rows() const { return rows_; }

    struct Projection {
        const kernels::Linear& w;
        std::vector<float>& target;
        const std::vector<float>* bias = nullptr;
    };
    // Each target = h W^T (+ bias), where h = rms_norm(x) * weight.
    void project_normed(const std::vector<float>& norm_weight, std::initializer_list<Projection> projections);

    struct Attention {
        RopeTable& rope;
        bool interleaved = false;
        int window = 0;  // 0: all tokens
        const std::vector<float>*q_norm = nullptr,
              *k_norm = nullptr;  // of each head's vector, before rotating
    };
    // Rotates q and k, stores k and v of layer `layer`, then attended = attention(q) over everything stored.
    void attend(int layer, const Attention& how);

    // x += attended W^T, and with a weight: x += rms_norm(attended W^T) * weight.
    void add_attended(const kernels::Linear& w, const std::vector<float>* norm_weight = nullptr);
    enum class Gate { silu, gelu };
    // The same with act(gate) * up instead of attended.
    void add_gated(Gate act, const kernels::Linear& w, const std::vector<float>* norm_weight = nullptr);

  private:
    template <class F>
    void each_row(F&& f);  // f(row) for all rows, in parallel when there are many
    void add_product(const kernels::Linear& w, const std::vector<float>* norm_weight);  // of source_

    // Up to 16 consecutive tokens of one sequence in one KV block.
    struct Run {
        int sequence = 0, first_row = 0, rows = 0, position = 0;
        uint8_t* block = nullptr;
        bool finite = true;  // what it stored so far
    };
    void prepare_run(Run& run, const kv::LayerLayout& place, const Attention& how);

    kernels::Context& context_;
    const DecoderConfig& config_;
    const kv::Layout* layout_ = nullptr;
    int rows_ = 0;
    int end_position_ = 0;                    // one behind the highest position of the batch
    std::vector<Run> runs_;                   // cover all rows
    std::vector<const uint8_t*> block_data_;  // block tables of all sequences, as addresses
    std::vector<kernels::AttentionSequence> sequences_;
    std::vector<int32_t> not_finite_;
    std::vector<kernels::Product> products_;
    kernels::Activations input_, source_;
};

}  // namespace deepinfer::models
