// The tokens of a sequence as penalties see them: which the prompt has, and how often the output has each.
//
// Kept up to date token by token: a token costs the same after a hundred as after a hundred thousand. Where the parameters
// have no penalty, it only counts, and allocates nothing. Copies share the prompt's part.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/sampling_params.h"

namespace deepinfer::engine {

class TokenHistory {
  public:
    struct Output {
        TokenId token = -1;
        int32_t count = 0;
        bool in_prompt = false;  // only known if there is a repetition penalty
    };

    TokenHistory() = default;  // for parameters without penalties
    // The prompt's tokens must be in the vocabulary.
    TokenHistory(const SamplingParams& params, std::span<const TokenId> prompt, int32_t vocabulary);

    // A token of the output, in the vocabulary.
    void add(TokenId token);

    int64_t generated() const { return generated_; }
    // Each token once; empty without a repetition penalty.
    std::span<const TokenId> prompt() const;
    // Each token once; empty without penalties.
    std::span<const Output> output() const { return output_; }

  private:
    struct Prompt {
        std::vector<TokenId> tokens;
        std::vector<bool> contains;  // by token
    };

    bool counts_ = false;
    int64_t generated_ = 0;
    std::shared_ptr<const Prompt> prompt_;
    std::vector<Output> output_;
    std::unordered_map<TokenId, size_t> index_;  // into output_
};

}  // namespace deepinfer::engine
