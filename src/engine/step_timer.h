// Times steps of a model outside the engine: a batch of any shape on keys and values that nobody needs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/block_pool.h"
#include "models/model.h"

namespace deepinfer::engine {

// Uses the model, so nobody else may meanwhile.
class StepTimer {
  public:
    // With memory for `tokens` keys and values, of all sequences of a step together; a sequence takes whole blocks of 64. They
    // are filled by computing a block and copying it: real values, read from memory. Errors: those of Model::kv_layout and
    // BlockPool::create.
    static Result<StepTimer> create(models::Model& model, KvType kv_type, int32_t tokens);

    // Blocks that a step needs, and those there are.
    static int32_t blocks(std::span<const models::ChunkShape> step);
    int32_t total_blocks() const { return blocks_.total(); }

    // Seconds of Model::forward. The logits wanted of a chunk are those of its last rows. Requires enough blocks, and positions
    // within the model's context.
    double run(std::span<const models::ChunkShape> step);

  private:
    StepTimer(models::Model& model, kv::BlockPool blocks) : model_(model), blocks_(std::move(blocks)) {}
    TokenId next_token();

    models::Model& model_;
    kv::BlockPool blocks_;
    std::vector<kv::BlockId> table_;  // all blocks, allocated
    std::vector<float> logits_;
    uint32_t random_ = 1;
};

}  // namespace deepinfer::engine
