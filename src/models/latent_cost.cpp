#include "models/latent_cost.h"

#include <algorithm>

#include "models/pairs.h"

namespace deepinfer::models {

namespace {

int64_t stream_mix(int64_t hidden, int64_t streams) { return unit_f32 * streams * hidden; }

}  // namespace

int64_t projection_ops(const LatentLayer& l) {
    const int64_t index_width = l.index_heads * l.index_dim,
                  inputs = l.hidden * (l.q_rank + (l.window > 0 ? l.latent : 0)) +
                           l.q_rank * (l.heads * l.latent + index_width),
                  outputs = l.output_groups * l.output_rank * l.hidden;
    // A group's heads are projected to output_rank values: all groups together read each value of each head once.
    int64_t ops = l.projection * (inputs + outputs) + unit_fp8 * l.heads * l.latent * l.output_rank +
                  unit_bf16 * l.hidden * l.index_heads;
    // An entry of several tokens is a weighted sum: values and weights are projected.
    if (l.makes_entries) ops += unit_bf16 * l.hidden * l.latent * (l.ratio == 1 ? 1 : 2);
    return ops;
}

int64_t index_key_ops(const LatentLayer& l, QueryRange rows, bool decoding) {
    if (!l.makes_index_keys || rows.end <= rows.begin) return 0;
    const int64_t keys =
        decoding ? rows.end - rows.begin : std::max<int64_t>(1, rows.end / l.ratio - rows.begin / l.ratio);
    return unit_bf16 * l.latent * l.index_dim * keys;
}

int64_t attention_ops(const LatentLayer& l, QueryRange rows, int64_t first_kept) {
    if (rows.end <= rows.begin) return 0;
    int64_t pairs = 0;
    if (l.window > 0) {
        const int64_t begin = std::max<int64_t>(0, rows.begin - first_kept),
                      end = std::max<int64_t>(0, rows.end - first_kept);
        pairs += pairs_of(begin, end, 1, l.window);
    }
    if (l.ratio > 0) pairs += pairs_of(rows.begin, rows.end, l.ratio, l.most_chosen);
    return unit_bf16 * l.heads * 2 * l.latent * pairs;
}

int64_t index_ops(const LatentLayer& l, QueryRange rows) {
    if (l.index_heads == 0 || l.ratio == 0 || rows.end <= rows.begin) return 0;
    int64_t scored = 0;
    if (l.candidate_block == 0) {
        scored = pairs_of(rows.begin, rows.end, l.ratio, 0);
    } else {
        // A block counts from its first entry on: query t sees floor((t + ratio (block - 1)) / (ratio block)) of them.
        const int64_t ratio = l.ratio * l.candidate_block, shift = ratio - l.ratio;
        scored = l.candidate_block * pairs_of(rows.begin + shift, rows.end + shift, ratio, l.candidates);
    }
    return l.index * l.index_heads * l.index_dim * scored;
}

int64_t expert_ops(const ExpertLayer& l) {
    return l.weights * 3 * l.hidden * l.width * (l.chosen + l.shared) + unit_bf16 * l.hidden * l.experts;
}

int64_t stream_layer_ops(int64_t hidden, int64_t streams) {
    const int64_t mix = stream_mix(hidden, streams), before = mix * streams * (streams + 2) + mix,
                  after = mix * (streams + 1);
    return 2 * (before + after);
}

int64_t stream_head_ops(int64_t hidden, int64_t streams, bool shifted) {
    return shifted ? 0 : stream_mix(hidden, streams) * (1 + streams);
}

int64_t ngram_ops(int64_t hidden, int64_t streams, int64_t width, Unit weights) {
    return weights * width * hidden * (streams + 1) + stream_mix(hidden, streams);
}

int64_t logit_ops(int64_t hidden, int64_t vocabulary) { return unit_bf16 * hidden * vocabulary; }

}  // namespace deepinfer::models
