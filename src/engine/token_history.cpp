#include "engine/token_history.h"

namespace deepinfer::engine {

TokenHistory::TokenHistory(const SamplingParams& params, std::span<const TokenId> prompt, int32_t vocabulary)
    : counts_(params.penalises()) {
    if (params.repetition_penalty == 1.0f) return;
    auto seen = std::make_shared<Prompt>();
    seen->contains.resize(static_cast<size_t>(vocabulary));
    for (TokenId token : prompt) {
        auto known = seen->contains[static_cast<size_t>(token)];
        if (!known) seen->tokens.push_back(token);
        known = true;
    }
    prompt_ = std::move(seen);
}

void TokenHistory::add(TokenId token) {
    ++generated_;
    if (!counts_) return;
    const auto [entry, fresh] = index_.try_emplace(token, output_.size());
    if (fresh) output_.push_back({token, 0, prompt_ && prompt_->contains[static_cast<size_t>(token)]});
    ++output_[entry->second].count;
}

std::span<const TokenId> TokenHistory::prompt() const {
    return prompt_ ? std::span<const TokenId>(prompt_->tokens) : std::span<const TokenId>();
}

}  // namespace deepinfer::engine
