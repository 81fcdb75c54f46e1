// Operations of decoders whose attention keeps one latent vector per token, compresses older tokens, and lets an index choose
// among them, with mixtures of experts: per row and per attended pair, in closed form from a layer's description. Dense
// decoders have models/step_cost.h.
//
// The unit is a multiply-add of FP4 numbers; one of wider numbers counts as often as hardware that is built for it needs longer.
// Not counted: draft models, padding, replicas, norms. Positions and sizes up to 2^31, sums within 2^63. All functions are pure.
#pragma once

#include <cstdint>

namespace deepinfer::models {

enum Unit : int64_t { unit_fp4 = 1, unit_fp8 = 2, unit_bf16 = 4, unit_f32 = 8 };

// Query rows of one sequence at positions [begin, end).
struct QueryRange {
    int64_t begin = 0, end = 0;
};

struct LatentLayer {
    int64_t hidden = 0;
    int64_t heads = 0, latent = 0;  // query heads; values of the latent vector that all of them share
    int64_t q_rank = 0;             // of the low-rank projection of queries
    int64_t output_groups = 0,
            output_rank = 0;  // heads in groups, each projected to so many values, then to `hidden`
    Unit projection = unit_fp8;

    int64_t window = 0;          // latest tokens seen as they are; 0: the layer keeps none of these
    int64_t ratio = 0;           // tokens that one compressed entry stands for; 0: no compressed entries
    int64_t most_chosen = 0;     // compressed entries that a query attends to at most; 0: all
    bool makes_entries = false;  // else those of an earlier layer are used

    int64_t index_heads = 0,
            index_dim = 0;  // of the queries that score the entries; 0: another layer's choice is used
    bool makes_index_keys = false;
    Unit index = unit_fp4;
    // Blocks of entries chosen first, in which alone entries are scored: `candidates` blocks of so many entries; 0: all
    // entries are scored.
    int64_t candidate_block = 0, candidates = 0;
};

// With weights, of each row: queries, outputs, the window's vector, entries, weights of the index.
int64_t projection_ops(const LatentLayer& layer);
// Keys of the index, of the entries that a chunk of a prompt completes (one at least), or that decoding rows may complete (one each).
int64_t index_key_ops(const LatentLayer& layer, QueryRange rows, bool decoding);
// Scores and sums over the window and the chosen entries. Of the window's vectors those before `first_kept` are missing.
int64_t attention_ops(const LatentLayer& layer, QueryRange rows, int64_t first_kept = 0);
// Scores of the index.
int64_t index_ops(const LatentLayer& layer, QueryRange rows);

struct ExpertLayer {
    int64_t hidden = 0, width = 0, experts = 0;
    int64_t chosen = 0, shared = 0;  // experts computed for each row
    Unit weights = unit_fp4;
};
int64_t expert_ops(const ExpertLayer& layer);  // per row, with the router

// Several residual streams beside each other, mixed before and after both halves of each layer. Per row.
int64_t stream_layer_ops(int64_t hidden, int64_t streams);
// Before the output head; nothing if the layers mix one half ahead (`shifted`), so that the last one has done it.
int64_t stream_head_ops(int64_t hidden, int64_t streams, bool shifted);
// Of a layer that projects the embeddings of n-grams, `width` values, to a value and to a key for each stream. Per row.
int64_t ngram_ops(int64_t hidden, int64_t streams, int64_t width, Unit weights);
int64_t logit_ops(int64_t hidden, int64_t vocabulary);  // per row of logits

}  // namespace deepinfer::models
