// A digest of all that a checkpoint says: metadata and tensors, names, types, shapes and bytes. Two checkpoints with the same
// digest are the same model.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"

namespace deepinfer::checkpoint {

// 64 hexadecimal digits: SHA-256 over the digests of pieces, which all threads of the pool compute. Reads everything, about
// as long as it takes to read the files.
std::string content_digest(const Checkpoint& checkpoint, ThreadPool& pool);

// The same, from a file in `folder` if one is there for these very files (path, sizes, times of change); else computed, and
// kept there if possible. Nothing is kept of parsed bytes, or if `folder` is empty.
std::string remembered_digest(const Checkpoint& checkpoint, ThreadPool& pool,
                              const std::filesystem::path& folder);

}  // namespace deepinfer::checkpoint
