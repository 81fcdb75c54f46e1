// deepinfer bench: tokens per second of prefill and decode of the model alone, without server and sampler.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/commands.h"
#include "cli/load_model.h"

namespace deepinfer::cli {

namespace {

struct BenchOptions {
    LoadOptions load;
    int prefill = 512, decode = 128, depth = 0, batch = 1, repetitions = 3;
    bool json = false;
};

double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

class Bench {
  public:
    Bench(models::Model& model, kv::BlockPool& blocks, const BenchOptions& options)
        : model_(model), blocks_(blocks), options_(options) {
        const int per_sequence = blocks.total() / options.batch;
        tables_.resize(static_cast<size_t>(options.batch));
        for (auto& table : tables_)
            for (int i = 0; i < per_sequence; ++i) table.push_back(blocks.allocate());
        logits_.resize(static_cast<size_t>(options.batch) * static_cast<size_t>(model.info().vocabulary));
    }
    // `rows` tokens for each sequence from `position`; seconds taken.
    double forward(int position, int rows) {
        models::Batch batch;
        for (size_t s = 0; s < tables_.size(); ++s) {
            const auto first = static_cast<int32_t>(batch.tokens.size());
            for (int i = 0; i < rows; ++i) batch.tokens.push_back(next_token());
            batch.sequences.push_back({first, rows, position, tables_[s]});
            batch.logit_rows.push_back(first + rows - 1);
        }
        const double start = seconds();
        model_.forward(batch, blocks_, logits_.data());
        return seconds() - start;
    }
    void fill(int from, int to) {
        for (int at = from; at < to; at += 512) forward(at, std::min(512, to - at));
    }

  private:
    TokenId next_token() {  // any tokens do; spread over the vocabulary
        state_ = state_ * 1664525u + 1013904223u;
        return static_cast<TokenId>((state_ >> 8) % static_cast<uint32_t>(model_.info().vocabulary));
    }
    models::Model& model_;
    kv::BlockPool& blocks_;
    const BenchOptions& options_;
    std::vector<std::vector<kv::BlockId>> tables_;
    std::vector<float> logits_;
    uint32_t state_ = 1;
};

Status run(const BenchOptions& options) {
    auto loaded = load_model_only(options.load);
    if (!loaded) return std::move(loaded).error();
    models::Model& model = *loaded->model;
    const int tokens = options.depth + std::max(options.prefill, options.decode);
    if (tokens > model.info().context_length)
        return Error{ErrorCode::invalid_argument, std::to_string(tokens) +
                                                      " tokens are more than the context of " +
                                                      std::to_string(model.info().context_length)};
    const int blocks_each = (tokens + kv::block_tokens - 1) / kv::block_tokens;
    auto blocks = kv::BlockPool::create(model.kv_layout(KvType::f16), blocks_each * options.batch);
    if (!blocks) return std::move(blocks).error();
    Bench bench(model, *blocks, options);
    std::vector<double> prefill, decode;
    bench.fill(0, options.depth);
    for (int r = 0; r <= options.repetitions; ++r) {  // the first is a warm-up
        double time = 0;
        if (options.prefill > 0) {
            for (int at = 0; at < options.prefill; at += 512)
                time += bench.forward(options.depth + at, std::min(512, options.prefill - at));
            if (r) prefill.push_back(options.batch * options.prefill / time);
        }
        time = 0;
        for (int i = 0; i < options.decode; ++i) time += bench.forward(options.depth + i, 1);
        if (r && options.decode > 0) decode.push_back(options.batch * options.decode / time);
    }
    if (options.json)
        std::printf(
            "{\"model\":\"%s\",\"threads\":%d,\"isa\":\"%s\",\"batch\":%d,\"depth\":%d,\"prefill\":%d,"
            "\"decode\":%d,"
            "\"prefill_tokens_per_second\":%.2f,\"decode_tokens_per_second\":%.2f}\n",
            loaded->name.c_str(), loaded->pool->threads(), kernels::to_string(loaded->isa), options.batch,
            options.depth, options.prefill, options.decode, median(prefill), median(decode));
    else
        std::printf(
            "%s, %d threads, %s, %d sequence(s) at depth %d: prefill of %d tokens %.1f tokens/s, decode %.1f "
            "tokens/s (medians of %d)\n",
            loaded->name.c_str(), loaded->pool->threads(), kernels::to_string(loaded->isa), options.batch,
            options.depth, options.prefill, median(prefill), median(decode), options.repetitions);
    return {};
}

}  // namespace

void add_bench_command(CLI::App& app, ExitStatus& exit) {
    auto options = std::make_shared<BenchOptions>();
    CLI::App* command = app.add_subcommand("bench", "Measure prefill and decode speed of a model");
    options->load.need_tokenizer = false;
    options->load.quiet = true;
    add_model_options(*command, options->load);
    command->add_option("--prefill", options->prefill, "prompt tokens (0: skip)")
        ->check(CLI::Range(0, 1 << 20))
        ->capture_default_str();
    command->add_option("--decode", options->decode, "tokens to generate (0: skip)")
        ->check(CLI::Range(0, 1 << 20))
        ->capture_default_str();
    command->add_option("--depth", options->depth, "tokens already in the context")
        ->check(CLI::Range(0, 1 << 20))
        ->capture_default_str();
    command->add_option("--batch", options->batch, "sequences side by side")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    command->add_option("--repetitions,-r", options->repetitions, "measured repetitions after a warm-up")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    command->add_flag("--json", options->json, "one JSON object");
    command->callback([options, &exit] {
        if (Status status = run(*options); !status) {
            std::fprintf(stderr, "deepinfer bench: %s\n", status.error().message.c_str());
            exit.code = 1;
        }
    });
}

}  // namespace deepinfer::cli
