// Perplexity of a model on a text, by the method of llama.cpp's llama-perplexity, so that numbers can be compared: the
// text's tokens are cut into chunks of equal length, an incomplete last one is dropped; each chunk is computed on its own,
// with BOS in place of its first token where the vocabulary wants BOS; of each chunk the tokens of the second half but the
// first are scored, each of which has at least half a chunk before it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/block_pool.h"
#include "models/model.h"

namespace deepinfer::cli {

struct PerplexityOptions {
    int chunk = 512;             // tokens, at least 4
    int most_chunks = 0;         // 0: all
    std::optional<TokenId> bos;  // replaces the first token of every chunk
    KvType kv_type = KvType::f16;
};

// exp of the mean negative log-likelihood of the scored tokens; `error` is its standard error by first-order propagation:
// perplexity * s / sqrt(n - 1), with s the standard deviation of the negative log-likelihoods.
struct Perplexity {
    double value = 0, error = 0;
    int chunks = 0;
    int64_t scored = 0;  // tokens
};

// Called after each chunk with the value so far.
using PerplexityProgress = std::function<void(const Perplexity& so_far, int chunks)>;

// Errors: invalid_argument if the text has no complete chunk or a chunk does not fit into the model's context; internal if
// the model's numbers are not finite.
Result<Perplexity> measure_perplexity(models::Model& model, const kernels::KernelTable& table,
                                      std::span<const TokenId> tokens, const PerplexityOptions& options,
                                      const PerplexityProgress& progress = {});

}  // namespace deepinfer::cli
