#include "cli/cache_fingerprint.h"

#include <gnu/libc-version.h>

#include "checkpoint/digest.h"

namespace deepinfer::cli {

namespace {

// To be raised whenever a kernel or a model may store other bits for the same tokens (docs/design/numerics.md): blocks
// computed before are not found any more.
constexpr int64_t numerics_version = 1;
// Of the order of values inside a block.
constexpr int64_t layout_version = 1;

}  // namespace

kv::BlockKey cache_fingerprint(const checkpoint::Checkpoint& checkpoint,
                               const tokenizer::Tokenizer* tokenizer, kernels::Compute compute,
                               const kv::Layout& layout, ThreadPool& pool,
                               const std::filesystem::path& folder) {
    kv::Fingerprint fingerprint;
    // Weights and their types, hyperparameters, positions; of a GGUF file its tokenizer as well.
    fingerprint.add("model", checkpoint::remembered_digest(checkpoint, pool, folder));
    if (tokenizer) {
        kv::Fingerprint vocabulary;
        for (TokenId id = 0; id < tokenizer->vocabulary_size(); ++id)
            vocabulary.add("", tokenizer->token_bytes(id, true));
        fingerprint.add("vocabulary", vocabulary.digest().hex());
    }
    fingerprint.add("compute", static_cast<int64_t>(compute))
        .add("numerics", numerics_version)
        .add("libm", gnu_get_libc_version())  // sine and cosine of positions
        .add("layout", layout_version)
        .add("kv type", to_string(layout.type))
        .add("block tokens", int64_t{kv::block_tokens})
        .add("block bytes", static_cast<int64_t>(layout.block_bytes));
    for (const kv::LayerLayout& layer : layout.layers)
        fingerprint.add("kv heads", int64_t{layer.kv_heads}).add("head dim", int64_t{layer.head_dim});
    return fingerprint.digest();
}

}  // namespace deepinfer::cli
