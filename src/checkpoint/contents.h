// What the format parsers produce: everything a Checkpoint shows, over bytes that somebody else owns.
// Internal to the checkpoint layer.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/quote.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace deepinfer::checkpoint {

inline constexpr size_t kMaxTensors = 1'000'000;
inline constexpr size_t kMaxTensorNameBytes = 1024;

struct Contents {
    Metadata metadata;
    std::vector<Tensor> tensors;  // in file order
};

// `file` names the bytes in messages.
Result<Contents> read_gguf(std::span<const std::byte> file_bytes, std::string_view file);
Result<Contents> read_safetensors(std::span<const std::byte> file_bytes, std::string_view file);

// One entry of model.safetensors.index.json: which shard file holds a tensor.
struct ShardEntry {
    std::string tensor;
    std::string file;  // a plain file name, no folder
};

// Parses the text of a model.safetensors.index.json, whose `weight_map` it returns in the order of the file.
Result<std::vector<ShardEntry>> read_shard_index(std::string_view text, std::string_view file);

// Bytes that a tensor of this type and shape takes. Errors (about "tensor `name`") when a dimension is not
// positive, the product overflows, or a row is not a whole number of the type's blocks.
Result<size_t> tensor_bytes(std::string_view name, TensorType type, std::span<const int64_t> shape);

// Checks that no two tensors share bytes. Reorders nothing; all data spans must lie in one file.
Status check_no_overlap(std::span<const Tensor> tensors, std::string_view file);

// An Error of kind corrupt_data, "file: message".
Error corrupt(std::string_view file, std::string_view message);

}  // namespace deepinfer::checkpoint
