#include "engine/step_timer.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>

namespace deepinfer::engine {

namespace {

int32_t blocks_of(const models::ChunkShape& chunk) {
    return static_cast<int32_t>(kv::blocks_for(chunk.position + chunk.rows));
}

}  // namespace

Result<StepTimer> StepTimer::create(models::Model& model, KvType kv_type, int32_t tokens) {
    auto layout = model.kv_layout(kv_type);
    if (!layout) return std::move(layout).error();
    auto blocks = kv::BlockPool::create(*layout, std::max(1, static_cast<int32_t>(kv::blocks_for(tokens))));
    if (!blocks) return std::move(blocks).error();
    StepTimer timer(model, std::move(*blocks));
    for (int32_t i = 0; i < timer.blocks_.total(); ++i) timer.table_.push_back(timer.blocks_.allocate());
    const models::ChunkShape first{std::min(kv::block_tokens, model.info().context_length), 0, 1};
    timer.run({&first, 1});
    const uint8_t* filled = timer.blocks_.data(timer.table_[0]);
    for (size_t i = 1; i < timer.table_.size(); ++i)
        std::memcpy(timer.blocks_.data(timer.table_[i]), filled, layout->block_bytes);
    return timer;
}

int32_t StepTimer::blocks(std::span<const models::ChunkShape> step) {
    int32_t count = 0;
    for (const models::ChunkShape& chunk : step) count += blocks_of(chunk);
    return count;
}

TokenId StepTimer::next_token() {  // any tokens do; spread over the vocabulary
    random_ = random_ * 1664525u + 1013904223u;
    return static_cast<TokenId>((random_ >> 8) % static_cast<uint32_t>(model_.info().vocabulary));
}

double StepTimer::run(std::span<const models::ChunkShape> step) {
    models::Batch batch;
    size_t used = 0;
    for (const models::ChunkShape& chunk : step) {
        const auto first = static_cast<int32_t>(batch.tokens.size());
        const auto blocks = static_cast<size_t>(blocks_of(chunk));
        assert(used + blocks <= table_.size());
        batch.sequences.push_back(
            {first, chunk.rows, chunk.position, std::span(table_).subspan(used, blocks)});
        used += blocks;
        for (int32_t i = 0; i < chunk.rows; ++i) batch.tokens.push_back(next_token());
        for (int32_t i = chunk.rows - chunk.logit_rows; i < chunk.rows; ++i)
            batch.logit_rows.push_back(first + i);
    }
    const size_t logits = batch.logit_rows.size() * static_cast<size_t>(model_.info().vocabulary);
    if (logits_.size() < logits) logits_.resize(logits);
    const auto begin = std::chrono::steady_clock::now();
    model_.forward(batch, blocks_, logits_.data());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace deepinfer::engine
