// A language model as the engine uses it: a batch of token rows in, logits out.
//
// Each row's result is bit-identical whatever else is in the batch, however a prompt is cut into chunks, and
// for any number of threads (kernels/kernel_table.h has the rule that makes it so).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "base/token.h"
#include "checkpoint/checkpoint.h"
#include "kernels/linear.h"
#include "kv/block_pool.h"

namespace deepinfer::models {

// Consecutive tokens of one sequence: rows first_row .. first_row + rows - 1 of the batch, at positions
// position ...
struct SequenceChunk {
    int32_t first_row = 0, rows = 0, position = 0;
    std::span<const kv::BlockId> blocks;  // block table; covers all positions up to the chunk's last
};

struct Batch {
    std::vector<TokenId> tokens;
    std::vector<SequenceChunk> sequences;  // cover all rows, in order
    std::vector<int32_t> logit_rows;       // rows whose logits are wanted, increasing
};

struct ModelInfo {
    std::string architecture;
    int32_t vocabulary = 0;
    int32_t context_length = 0;  // trained
    uint64_t weight_bytes = 0;   // packed weights in memory
    uint64_t mapped_bytes = 0;   // weights read from the mapped file
    uint64_t parameters = 0;
};

// Called from the loading thread with bytes done and in all.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

struct LoadOptions {
    kernels::Compute compute = kernels::Compute::serve;
    kernels::Isa isa = kernels::Isa::portable;
    Progress progress;
};

class Model {
  public:
    // Reads the architecture and all shapes, refuses what is not supported by name, checks that the weights
    // fit into the memory available, then packs them. `checkpoint` and `pool` must outlive the model.
    static Result<std::unique_ptr<Model>> load(const checkpoint::Checkpoint& checkpoint, ThreadPool& pool,
                                               const LoadOptions& options);
    virtual ~Model() = default;

    virtual const ModelInfo& info() const = 0;
    // An error if the model's heads cannot be stored like that.
    virtual Result<kv::Layout> kv_layout(KvType type) const = 0;
    // Stores the rows' keys and values in their blocks and writes logits[i * vocabulary + token] for
    // logit_rows[i]. Tokens, positions and block tables must be valid. One caller at a time; blocks until
    // computed.
    virtual void forward(const Batch& batch, const kv::BlockPool& pool, float* logits) = 0;
};

}  // namespace deepinfer::models
