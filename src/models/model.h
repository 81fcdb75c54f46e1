// A language model as the engine uses it: a batch of token rows in, logits out.
//
// Each row's result is bit-identical whatever else is in the batch, however a prompt is cut into chunks, and
// for any number of threads (kernels/kernel_table.h has the rule that makes it so).
#pragma once

#include <cstdint>
#include <filesystem>
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
#include "models/step_cost.h"

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

// Where the packed weights are. Files are shared with other processes.
enum class WeightPlace {
    private_memory,
    disk_file,       // in the page cache, which the system counts as available memory
    memory_file,     // tmpfs
    huge_page_file,  // hugetlbfs
};
const char* to_string(WeightPlace place);

struct ModelInfo {
    std::string architecture;
    int32_t vocabulary = 0;
    int32_t context_length = 0;  // trained
    uint64_t weight_bytes = 0;   // packed weights
    WeightPlace weight_place = WeightPlace::private_memory;
    uint64_t mapped_bytes = 0;  // weights read from the mapped checkpoint
    // Of all these, what answers need in memory although the system counts it as available.
    uint64_t cached_bytes() const {
        return mapped_bytes + (weight_place == WeightPlace::disk_file ? weight_bytes : 0);
    }
    uint64_t parameters = 0;
};

// Called from the loading thread with bytes done and in all.
using Progress = std::function<void(uint64_t done, uint64_t total)>;
// A line for people, from the loading thread.
using Notice = std::function<void(const std::string& line)>;

struct LoadOptions {
    kernels::Compute compute = kernels::Compute::serve;
    kernels::Isa isa = kernels::Isa::portable;
    // Where the packed weights are kept for the next start and for other processes; empty: in private memory.
    // Built if it does not exist or is not of this model, these files and this mode (weight_file.h).
    std::filesystem::path weight_file;
    bool verify_weight_file = false;  // compare all of it with its checksum; built again if it is damaged
    Progress progress;
    Notice notice;
};

class Model {
  public:
    // Reads the architecture and all shapes, refuses what is not supported by name, checks that the weights
    // fit into the memory available, then packs them or maps the file that holds them packed. `checkpoint` and `pool` must outlive the model.
    static Result<std::unique_ptr<Model>> load(const checkpoint::Checkpoint& checkpoint, ThreadPool& pool,
                                               const LoadOptions& options);
    virtual ~Model() = default;

    virtual const ModelInfo& info() const = 0;
    // An error if the model's heads cannot be stored like that.
    virtual Result<kv::Layout> kv_layout(KvType type) const = 0;
    // Operations and bytes of a step of these chunks, with keys and values stored like that. Pure, cheap, on any thread. The
    // default knows the numbers of rows only.
    virtual StepCost cost(std::span<const ChunkShape> step, KvType kv_type) const;
    // Stores the rows' keys and values in their blocks and writes logits[i * vocabulary + token] for
    // logit_rows[i]. Tokens, positions and block tables must be valid. One caller at a time; blocks until
    // computed.
    virtual void forward(const Batch& batch, const kv::BlockPool& pool, float* logits) = 0;
    // Indices into batch.sequences of the last forward(), increasing: a key or value of theirs was not a number, or too large to be
    // stored. Their new rows and blocks are of no use; those of the others are as if they had been alone.
    virtual std::span<const int32_t> not_finite() const { return {}; }
};

}  // namespace deepinfer::models
