// Collects a model's weights from a checkpoint by name, checks every shape, and then packs them in one go.
//
// Models call matrix(), vector() and embedding() while they are built; the first error is remembered and
// later calls do nothing, so that the code reads as a list of weights. pack() then allocates and fills, or maps
// the file where they are packed. A tensor of the checkpoint that nobody asked for is an error as well: a bias
// ignored would be a wrong answer.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "kernels/linear.h"
#include "models/config.h"
#include "models/model.h"
#include "models/weight_file.h"

namespace deepinfer::models {

class Weights {
  public:
    Weights(const checkpoint::Checkpoint& checkpoint, const DecoderConfig& config,
            const LoadOptions& options);

    // `gguf` and `hf` are the names in the two formats, "{}" standing for the layer number.
    void matrix(kernels::Linear& target, const char* gguf, const char* hf, int layer, int64_t outputs,
                int64_t inputs);
    // The last `count` matrices are multiplied in one call (kernels::multiply), so they are packed in one.
    void together(int count);
    void vector(std::vector<float>& target, const char* gguf, const char* hf, int layer, int64_t values);
    // A norm's weights; adds the one that some files leave out.
    void norm(std::vector<float>& target, const char* gguf, const char* hf, int layer, int64_t values);
    // Rows that are looked up, not multiplied: stays mapped.
    void embedding(kernels::MatrixView& target, const char* gguf, const char* hf, int64_t rows,
                   int64_t columns);

    // Checks for left-over tensors and memory, then packs all matrices or maps them packed. The memory belongs to
    // the model.
    Result<HugeBuffer> pack(kernels::Context& context, ModelInfo& info);
    // Of all matrices, as they are multiplied (Linear::bytes).
    int64_t read_bytes() const;

  private:
    const checkpoint::Tensor* find(const char* gguf, const char* hf, int layer,
                                   std::initializer_list<int64_t> shape);
    std::string name(const char* gguf, const char* hf, int layer) const;
    Status check_leftovers() const;
    void lay_out();
    Status check_memory(WeightPlace place, bool built) const;
    Result<WeightIdentity> identity() const;
    Result<WeightFile> shared(kernels::Context& context);
    void fill(kernels::Context& context, uint8_t* memory);

    struct Pending {
        std::string name;
        kernels::Linear* target;
        kernels::MatrixView view;
        int group;  // matrices of one multiply() have the same
        uint64_t offset = 0, bytes = 0;
    };
    const checkpoint::Checkpoint& checkpoint_;
    const DecoderConfig& config_;
    const LoadOptions& options_;
    std::vector<Pending> pending_;
    std::set<std::string> used_;
    uint64_t packed_bytes_ = 0, mapped_bytes_ = 0, parameters_ = 0;
    std::optional<Error> error_;
};

}  // namespace deepinfer::models
