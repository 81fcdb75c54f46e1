// A model for tests of the engine: it keeps, in the KV blocks that it is given, a running hash of the tokens of each
// sequence, and its logits follow from that hash. So a wrong block, a copy that came too late, or a token in the wrong place
// changes every answer after it; and what a request must answer can be computed without an engine.
#pragma once

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/sampler.h"
#include "kernels/isa.h"
#include "models/model.h"

namespace deepinfer::testing {

class HashModel final : public models::Model {
  public:
    explicit HashModel(int32_t vocabulary = 64, int32_t context = 4096,
                       std::chrono::microseconds per_step = {})
        : per_step_(per_step) {
        info_.architecture = "hash";
        info_.vocabulary = vocabulary;
        info_.context_length = context;
    }

    const models::ModelInfo& info() const override { return info_; }
    Result<kv::Layout> kv_layout(KvType type) const override {
        kv::Layout layout;
        layout.type = type;
        layout.add_layer(1, 16);  // 64 tokens take more than their hashes
        return layout;
    }

    void forward(const models::Batch& batch, const kv::BlockPool& pool, float* logits) override {
        if (per_step_.count() > 0) std::this_thread::sleep_for(per_step_);
        std::vector<uint64_t> hashes(batch.tokens.size());
        not_finite_.clear();
        for (size_t i = 0; i < batch.sequences.size(); ++i) {
            const auto tokens = std::span(batch.tokens)
                                    .subspan(static_cast<size_t>(batch.sequences[i].first_row),
                                             static_cast<size_t>(batch.sequences[i].rows));
            if (std::ranges::count(tokens, bad_token_) > 0) not_finite_.push_back(static_cast<int32_t>(i));
        }
        for (const models::SequenceChunk& s : batch.sequences)
            for (int32_t i = 0; i < s.rows; ++i) {
                const int32_t position = s.position + i;
                const uint64_t before = position == 0 ? 0 : load(slot(pool, s, position - 1));
                const auto row = static_cast<size_t>(s.first_row + i);
                hashes[row] = mix(before, static_cast<uint64_t>(batch.tokens[row]));
                std::memcpy(slot(pool, s, position), &hashes[row], sizeof hashes[row]);
            }
        for (int32_t row : batch.logit_rows) logits = write_logits(hashes[static_cast<size_t>(row)], logits);
    }

    // From now on the keys of this token are said to be no numbers.
    void report_not_finite(TokenId token) { bad_token_ = token; }
    std::span<const int32_t> not_finite() const override { return not_finite_; }

    // What a request must answer, whatever runs beside it: tokens and the sampled tokens' log-probabilities.
    struct Answer {
        std::vector<engine::SampledToken> tokens, prompt;
        engine::FinishReason reason = engine::FinishReason::length;
    };
    Answer answer(const engine::Request& request, int32_t choice,
                  const std::vector<TokenId>& end_of_generation, int32_t context) const {
        engine::Sampler sampler(kernels::kernel_table(kernels::Isa::portable), info_.vocabulary,
                                end_of_generation);
        engine::SamplingParams params = request.sampling;
        params.seed = engine::choice_seed(params.seed, choice);
        std::vector<TokenId> tokens = request.prompt;
        engine::TokenHistory history(params, tokens, info_.vocabulary);
        uint64_t hash = 0;
        std::vector<float> logits(static_cast<size_t>(info_.vocabulary));
        Answer result;
        for (size_t i = 0; i < tokens.size(); ++i) {
            if (i > 0 && params.prompt_logprobs >= 0) {
                write_logits(hash, logits.data());
                result.prompt.push_back(*sampler.score(logits.data(), tokens[i], params.prompt_logprobs));
            }
            hash = mix(hash, static_cast<uint64_t>(tokens[i]));
        }
        while (static_cast<int32_t>(result.tokens.size()) < params.max_tokens &&
               static_cast<int32_t>(tokens.size()) < context) {
            write_logits(hash, logits.data());
            auto sampled =
                sampler.sample(logits.data(), params, history, static_cast<int64_t>(tokens.size()));
            const TokenId token = sampled->token;
            history.add(token);
            tokens.push_back(token);
            hash = mix(hash, static_cast<uint64_t>(token));
            const auto in = [token](const std::vector<TokenId>& ids) {
                return std::find(ids.begin(), ids.end(), token) != ids.end();
            };
            if (in(params.stop_ids) || (!params.ignore_eos && in(end_of_generation))) {
                result.reason = engine::FinishReason::stop;
                break;
            }
            result.tokens.push_back(std::move(*sampled));
        }
        return result;
    }

  private:
    static uint64_t mix(uint64_t a, uint64_t b) {
        uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0x632BE59BD9B4E019u;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
        return x ^ (x >> 31);
    }
    static uint8_t* slot(const kv::BlockPool& pool, const models::SequenceChunk& s, int32_t position) {
        return pool.data(s.blocks[static_cast<size_t>(position / kv::block_tokens)]) +
               static_cast<size_t>(position % kv::block_tokens) * sizeof(uint64_t);
    }
    static uint64_t load(const uint8_t* p) {
        uint64_t value = 0;
        std::memcpy(&value, p, sizeof value);
        return value;
    }
    float* write_logits(uint64_t hash, float* logits) const {
        for (int32_t i = 0; i < info_.vocabulary; ++i)
            *logits++ =
                static_cast<float>(mix(hash, static_cast<uint64_t>(i)) >> 40) * (8.0f / (1 << 24)) - 4.0f;
        return logits;
    }

    TokenId bad_token_ = -1;
    std::vector<int32_t> not_finite_;
    models::ModelInfo info_;
    std::chrono::microseconds per_step_;
};

}  // namespace deepinfer::testing
