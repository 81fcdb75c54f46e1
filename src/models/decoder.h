// What the dense decoders share: the walk over a batch, and the steps that their layers are written in.
#pragma once

#include <memory>
#include <vector>

#include "kernels/attention.h"
#include "kernels/linear.h"
#include "models/config.h"
#include "models/model.h"
#include "models/rope.h"
#include "models/weights.h"

namespace deepinfer::models {

// The state of one forward pass. All buffers are [rows][width]; x is the residual stream. Each step works on
// all rows, in parallel over rows or outputs; none depends on another row except through attention.
class Step {
  public:
    Step(kernels::Context& context, const DecoderConfig& config) : context_(context), config_(config) {}

    std::vector<float> x, h, q, k, v, attended, gate, up, out;

    void begin(const Batch& batch, const kv::BlockPool& pool, const kv::Layout& layout);
    int rows() const { return rows_; }

    // h = rms_norm(x) * weight, the input of the projections that follow.
    void norm_input(const std::vector<float>& weight);
    // target = h W^T (+ bias)
    void project(const kernels::Linear& w, std::vector<float>& target,
                 const std::vector<float>* bias = nullptr);
    // out = source W^T
    void project_from(const kernels::Linear& w, const std::vector<float>& source);
    // Each head's vector normed on its own.
    void norm_heads(std::vector<float>& target, int heads, const std::vector<float>& weight);
    void rotate(std::vector<float>& target, int heads, RopeTable& table, bool interleaved);
    // Stores k and v of layer `layer`, then attended = attention(q) over everything stored. window 0: all
    // tokens.
    void attend(int layer, int window);
    void norm_out(const std::vector<float>& weight);  // out = rms_norm(out) * weight
    void add_out();                                   // x += out
    void silu_gate();                                 // gate = silu(gate) * up
    void gelu_gate();

    kernels::Context& context() { return context_; }

  private:
    template <class F>
    void each_row(F&& f);  // f(row) for all rows, in parallel when there are many

    kernels::Context& context_;
    const DecoderConfig& config_;
    const Batch* batch_ = nullptr;
    const kv::BlockPool* pool_ = nullptr;
    const kv::Layout* layout_ = nullptr;
    int rows_ = 0;
    int end_position_ = 0;                    // one behind the highest position of the batch
    std::vector<int> positions_;              // of each row
    std::vector<const uint8_t*> block_data_;  // block tables of all sequences, as addresses
    std::vector<size_t> first_block_;         // of each sequence in block_data_
    std::vector<kernels::AttentionSequence> sequences_;
    kernels::Activations input_, source_;
};

// The projections that all these architectures have, under the same names.
struct AttentionWeights {
    kernels::Linear q, k, v, o;
    void weigh(Weights& weights, const DecoderConfig& config, int layer);
};
struct FeedForwardWeights {
    kernels::Linear gate, up, down;
    void weigh(Weights& weights, const DecoderConfig& config, int layer);
};

class Decoder : public Model {
  public:
    Decoder(const DecoderConfig& config, ThreadPool& pool, kernels::Isa isa);

    const ModelInfo& info() const override { return info_; }
    kv::Layout kv_layout(kv::KvType type) const override;
    void forward(const Batch& batch, const kv::BlockPool& pool, float* logits) override;

    // Reads the weights named by weigh() and packs them.
    Status load(const checkpoint::Checkpoint& checkpoint, const LoadOptions& options);

  protected:
    virtual void weigh(Weights& weights) = 0;       // asks for the layers' weights
    virtual void layer(int index, Step& step) = 0;  // x += attention(...), x += feed_forward(...)

    const DecoderConfig config_;
    RopeTable rope_, local_rope_;
    float embedding_scale_ = 1.0f;

  private:
    void embed(const Batch& batch);
    void head(const Batch& batch, float* logits);

    kernels::Context context_;
    ModelInfo info_;
    HugeBuffer memory_;
    kernels::MatrixView embedding_;
    std::vector<float> output_norm_;
    kernels::Linear output_;
    Step step_;
    std::vector<float> selected_;
    kernels::Activations selected_activations_;
};

std::unique_ptr<Decoder> make_llama(const DecoderConfig& config, ThreadPool& pool, kernels::Isa isa);
std::unique_ptr<Decoder> make_qwen2(const DecoderConfig& config, ThreadPool& pool, kernels::Isa isa);
std::unique_ptr<Decoder> make_qwen3(const DecoderConfig& config, ThreadPool& pool, kernels::Isa isa);
std::unique_ptr<Decoder> make_gemma3(const DecoderConfig& config, ThreadPool& pool, kernels::Isa isa);

}  // namespace deepinfer::models
