// What the bytes of KV blocks depend on, as one value that goes into their keys.
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "kernels/linear.h"
#include "kv/block_key.h"
#include "kv/layout.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::cli {

// `tokenizer` may be null. `folder`: where digests of models are remembered; empty: nowhere.
kv::BlockKey cache_fingerprint(const checkpoint::Checkpoint& checkpoint,
                               const tokenizer::Tokenizer* tokenizer, kernels::Compute compute,
                               const kv::Layout& layout, ThreadPool& pool,
                               const std::filesystem::path& folder);

}  // namespace deepinfer::cli
