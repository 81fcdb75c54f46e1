#include "cli/perplexity.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace deepinfer::cli {

namespace {

constexpr int logit_rows =
    64;  // computed at once: logits of many tokens over a large vocabulary are many megabytes

class Scorer {
  public:
    static Result<Scorer> create(models::Model& model, const kernels::KernelTable& table,
                                 const PerplexityOptions& options) {
        const auto count = static_cast<int>(kv::blocks_for(options.chunk));
        auto layout = model.kv_layout(options.kv_type);
        if (!layout) return std::move(layout).error();
        auto blocks = kv::BlockPool::create(*layout, count);
        if (!blocks) return std::move(blocks).error();
        return Scorer(model, table, options, std::move(*blocks));
    }

    // Adds the tokens [chunk / 2 + 1, chunk) of the chunk.
    Status add_chunk(std::span<const TokenId> tokens) {
        const int length = static_cast<int>(tokens.size()), first = length / 2;
        forward(tokens, 0, first, false);
        for (int at = first; at < length - 1; at += logit_rows) {
            const int end = std::min(at + logit_rows, length - 1);
            forward(tokens, at, end, true);
            for (int i = at; i < end; ++i)
                if (Status status = score(i - at, tokens[static_cast<size_t>(i) + 1]); !status) return status;
        }
        ++chunks_;
        return {};
    }
    Perplexity so_far() const {
        Perplexity p;
        p.chunks = chunks_;
        p.scored = scored_;
        const auto n = static_cast<double>(scored_);
        const double mean = sum_ / n, variance = squares_ / n - mean * mean;
        p.value = std::exp(mean);
        if (scored_ > 1 && variance > 0) p.error = p.value * std::sqrt(variance / (n - 1));
        return p;
    }

  private:
    Scorer(models::Model& model, const kernels::KernelTable& table, const PerplexityOptions& options,
           kv::BlockPool blocks)
        : model_(&model), table_(&table), bos_(options.bos), blocks_(std::move(blocks)) {
        for (int i = 0; i < blocks_.total(); ++i) block_table_.push_back(blocks_.allocate());
        logits_.resize(logit_rows * static_cast<size_t>(model.info().vocabulary));
    }
    void forward(std::span<const TokenId> tokens, int begin, int end, bool want_logits) {
        models::Batch batch;
        batch.tokens.assign(tokens.begin() + begin, tokens.begin() + end);
        if (begin == 0 && bos_) batch.tokens[0] = *bos_;
        batch.sequences = {{0, end - begin, begin, block_table_}};
        if (want_logits)
            for (int i = 0; i < end - begin; ++i) batch.logit_rows.push_back(i);
        model_->forward(batch, blocks_, logits_.data());
    }
    Status score(int row, TokenId token) {
        const int vocabulary = model_->info().vocabulary;
        const float* logits = logits_.data() + static_cast<size_t>(row) * static_cast<size_t>(vocabulary);
        const float max = logits[table_->argmax(logits, vocabulary)];
        const double nll = static_cast<double>(table_->log_sum_exp(logits, vocabulary, max)) -
                           static_cast<double>(logits[token]);
        if (!std::isfinite(nll))
            return Error{ErrorCode::internal,
                         "the model produced logits that are not finite numbers in chunk " +
                             std::to_string(chunks_ + 1)};
        sum_ += nll;
        squares_ += nll * nll;
        ++scored_;
        return {};
    }

    models::Model* model_;
    const kernels::KernelTable* table_;
    std::optional<TokenId> bos_;
    kv::BlockPool blocks_;
    std::vector<kv::BlockId> block_table_;
    std::vector<float> logits_;
    double sum_ = 0, squares_ = 0;
    int64_t scored_ = 0;
    int chunks_ = 0;
};

}  // namespace

Result<Perplexity> measure_perplexity(models::Model& model, const kernels::KernelTable& table,
                                      std::span<const TokenId> tokens, const PerplexityOptions& options,
                                      const PerplexityProgress& progress) {
    if (options.chunk < 4 || options.chunk > model.info().context_length)
        return Error{ErrorCode::invalid_argument,
                     "a chunk must have 4 to " + std::to_string(model.info().context_length) +
                         " tokens, the model's context; not " + std::to_string(options.chunk)};
    const auto length = static_cast<size_t>(options.chunk);
    size_t chunks = tokens.size() / length;
    if (chunks == 0)
        return Error{ErrorCode::invalid_argument, "the text has " + std::to_string(tokens.size()) +
                                                      " tokens, fewer than a chunk of " +
                                                      std::to_string(options.chunk)};
    if (options.most_chunks > 0) chunks = std::min(chunks, static_cast<size_t>(options.most_chunks));
    auto scorer = Scorer::create(model, table, options);
    if (!scorer) return std::move(scorer).error();
    for (size_t c = 0; c < chunks; ++c) {
        if (Status status = scorer->add_chunk(tokens.subspan(c * length, length)); !status)
            return std::move(status).error();
        if (progress) progress(scorer->so_far(), static_cast<int>(chunks));
    }
    return scorer->so_far();
}

}  // namespace deepinfer::cli
