// What the dense decoders share: weights of the common names, embedding, the walk over the layers, logits.
#pragma once

#include <memory>
#include <vector>

#include "kernels/linear.h"
#include "models/config.h"
#include "models/model.h"
#include "models/rope.h"
#include "models/step.h"
#include "models/weights.h"

namespace deepinfer::models {

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
    Result<kv::Layout> kv_layout(KvType type) const override;
    StepCost cost(std::span<const ChunkShape> step, KvType kv_type) const override {
        return dense_cost(shape_, step, kv_type);
    }
    void forward(const Batch& batch, const kv::BlockPool& pool, float* logits) override;
    std::span<const int32_t> not_finite() const override { return step_.not_finite(); }

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
    DenseShape shape_;
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
