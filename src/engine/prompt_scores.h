// Log-probabilities of a prompt's own tokens: the logits of a prompt's row say how likely the next token was, which is known.
//
// They cost an output row for each token of the prompt, so chunks of such prompts are small.
#pragma once

#include <span>

#include "engine/sequence.h"
#include "engine/step_runner.h"

namespace deepinfer::engine {

constexpr int32_t most_scored_rows = 64;  // of a chunk: bounds the memory for logits

// Whether rows of the sequence that are still to be computed give some.
bool wants_scores(const Sequence& s);

// The sequence gets `rows` rows of the step from `first` in the batch on: adds the scores they give. How many these are.
// To be called before s.computed is moved on.
int32_t add_scores(Sequence& s, int32_t first, int32_t rows, StepInputs& inputs);

// Takes in what add_scores() asked for. Once the prompt is complete, tells the listener. Errors: of the first that failed.
Status take_scores(Sequence& s, std::span<Result<SampledToken>> scores);

}  // namespace deepinfer::engine
