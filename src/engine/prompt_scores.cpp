#include "engine/prompt_scores.h"

#include <algorithm>

namespace deepinfer::engine {

bool wants_scores(const Sequence& s) {
    return s.sampling->prompt_logprobs >= 0 && s.scored < s.prompt_tokens - 1;
}

// Row i decides token i + 1. What was scored before a preemption is not scored again.
int32_t add_scores(Sequence& s, int32_t first, int32_t rows, StepInputs& inputs) {
    if (!wants_scores(s)) return 0;
    const int32_t from = std::max(s.computed, s.scored),
                  to = std::min(s.computed + rows, s.prompt_tokens - 1);
    for (int32_t i = from; i < to; ++i) {
        inputs.scores.push_back({static_cast<int32_t>(inputs.batch.logit_rows.size()),
                                 s.tokens[static_cast<size_t>(i) + 1], s.sampling->prompt_logprobs});
        inputs.batch.logit_rows.push_back(first + i - s.computed);
    }
    s.scored = std::max(s.scored, to);
    return std::max(to - from, 0);
}

Status take_scores(Sequence& s, std::span<Result<SampledToken>> scores) {
    if (s.over || s.scores_told || s.sampling->prompt_logprobs < 0) return {};
    for (Result<SampledToken>& score : scores) {
        if (!score) return score.error();
        s.scores.push_back(std::move(*score));
    }
    if (static_cast<int32_t>(s.scores.size()) < s.prompt_tokens - 1) return {};
    s.scores_told = true;
    if (s.listener->on_prompt) s.listener->on_prompt(std::exchange(s.scores, {}));
    return {};
}

}  // namespace deepinfer::engine
