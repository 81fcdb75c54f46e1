// deepinfer logits: the raw numbers of a forward pass, for comparison with other implementations.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/kv_type.h"
#include "cli/load_model.h"
#include "kernels/isa.h"

namespace deepinfer::cli {

namespace {

struct LogitsOptions {
    LoadOptions load;
    std::string tokens;
    int last = 8, greedy = 0, chunk = 0;
    std::string compute = "f32";
    bool json = false;
};

// One sequence with all blocks of a small pool.
class Run {
  public:
    static Result<Run> create(models::Model& model, KvType type, int tokens) {
        const auto count = static_cast<int>(kv::blocks_for(tokens));
        auto layout = model.kv_layout(type);
        if (!layout) return std::move(layout).error();
        auto blocks = kv::BlockPool::create(*layout, count);
        if (!blocks) return std::move(blocks).error();
        return Run(model, std::move(*blocks), count);
    }
    // Appends tokens; returns the logits of the last `wanted` of them.
    std::vector<float> forward(const std::vector<TokenId>& tokens, int wanted) {
        models::Batch batch;
        batch.tokens = tokens;
        const auto rows = static_cast<int32_t>(tokens.size());
        batch.sequences = {{0, rows, position_, table_}};
        for (int i = rows - wanted; i < rows; ++i) batch.logit_rows.push_back(i);
        std::vector<float> logits(static_cast<size_t>(wanted) *
                                  static_cast<size_t>(model_->info().vocabulary));
        model_->forward(batch, blocks_, logits.data());
        position_ += rows;
        return logits;
    }

  private:
    Run(models::Model& model, kv::BlockPool blocks, int count) : model_(&model), blocks_(std::move(blocks)) {
        for (int i = 0; i < count; ++i) table_.push_back(blocks_.allocate());
    }
    models::Model* model_;
    kv::BlockPool blocks_;
    std::vector<kv::BlockId> table_;
    int32_t position_ = 0;
};

// "1,2,3" -> ids.
Result<std::vector<TokenId>> parse_tokens(const std::string& text, int vocabulary) {
    std::vector<TokenId> tokens;
    for (const char *at = text.data(), *end = at + text.size();; ++at) {
        TokenId token = 0;
        const auto [next, error] = std::from_chars(at, end, token);
        if (error != std::errc() || (next != end && *next != ','))
            return Error{ErrorCode::invalid_argument,
                         "--tokens takes ids separated by commas, such as 1,2,3; not '" + text + "'"};
        if (token < 0 || token >= vocabulary)
            return Error{ErrorCode::invalid_argument, "token " + std::to_string(token) +
                                                          " is not in the vocabulary of " +
                                                          std::to_string(vocabulary)};
        tokens.push_back(token);
        if (next == end) return tokens;
        at = next;
    }
}

void append_rows(std::string& out, const std::vector<float>& values, int vocabulary) {
    out += '[';
    for (size_t i = 0; i < values.size(); ++i) {
        if (i % static_cast<size_t>(vocabulary) == 0)
            out += i ? "],[" : "[";
        else
            out += ',';
        char text[32];
        std::snprintf(text, sizeof text, "%.9g", static_cast<double>(values[i]));
        out += text;
    }
    out += values.empty() ? "]" : "]]";
}

Status run(const LogitsOptions& options) {
    auto loaded = load_model_only(options.load);
    if (!loaded) return std::move(loaded).error();
    models::Model& model = *loaded->model;
    const int vocabulary = model.info().vocabulary;
    auto tokens = parse_tokens(options.tokens, vocabulary);
    if (!tokens) return std::move(tokens).error();
    const int count = static_cast<int>(tokens->size());
    if (count + options.greedy > model.info().context_length)
        return Error{ErrorCode::invalid_argument, std::to_string(count + options.greedy) +
                                                      " tokens are more than the context of " +
                                                      std::to_string(model.info().context_length)};
    auto sequence = Run::create(model, default_kv_type(options.load.compute), count + options.greedy);
    if (!sequence) return std::move(sequence).error();
    const int last = std::min(options.last, count), chunk = options.chunk > 0 ? options.chunk : count;
    std::vector<float> logits;
    for (int at = 0; at < count; at += chunk) {
        const int end = std::min(count, at + chunk), wanted = std::max(0, end - std::max(at, count - last));
        const auto part = sequence->forward({tokens->begin() + at, tokens->begin() + end}, wanted);
        logits.insert(logits.end(), part.begin(), part.end());
    }
    std::vector<float> row(logits.empty() ? logits.end() : logits.end() - vocabulary, logits.end()),
        greedy_logits;
    std::vector<TokenId> greedy;
    const auto& table = kernels::kernel_table(loaded->isa);
    for (int i = 0; i < options.greedy; ++i) {
        greedy_logits.insert(greedy_logits.end(), row.begin(), row.end());
        greedy.push_back(table.argmax(row.data(), vocabulary));
        if (i + 1 < options.greedy) row = sequence->forward({greedy.back()}, 1);
    }
    for (const auto* values : {&logits, &greedy_logits})
        for (float value : *values)
            if (!std::isfinite(value))
                return Error{ErrorCode::internal, "the model produced logits that are not finite numbers"};
    std::string out = "{\"logits\":";
    append_rows(out, logits, vocabulary);
    out += ",\"greedy\":[";
    for (size_t i = 0; i < greedy.size(); ++i) out += (i ? "," : "") + std::to_string(greedy[i]);
    out += "],\"greedy_logits\":";
    append_rows(out, greedy_logits, vocabulary);
    std::printf("%s}\n", out.c_str());
    return {};
}

}  // namespace

void add_logits_command(CLI::App& app, ExitStatus& exit) {
    auto options = std::make_shared<LogitsOptions>();
    CLI::App* command = app.add_subcommand(
        "logits", "Print the logits of the last positions of a token sequence, and a greedy continuation");
    options->load.need_tokenizer = false;
    options->load.quiet = true;
    add_model_options(*command, options->load);
    command->add_option("--tokens", options->tokens, "token ids, separated by commas")->required();
    command->add_option("--last", options->last, "positions to print, counted from the end")
        ->check(CLI::Range(1, 1 << 20));
    command->add_option("--greedy", options->greedy, "tokens to continue with, most likely first")
        ->check(CLI::Range(0, 1 << 20));
    command
        ->add_option("--chunk", options->chunk,
                     "compute the sequence in chunks of this many tokens (0: at once)")
        ->check(CLI::Range(0, 1 << 20));
    command
        ->add_option("--compute", options->compute, "f32: float32 activations; serve: as the server computes")
        ->check(CLI::IsMember({"f32", "serve"}));
    command->add_flag("--json", options->json, "JSON output (the only form there is)");
    command->callback([options, &exit] {
        options->load.compute = options->compute == "serve" ? kernels::Compute::serve : kernels::Compute::f32;
        if (Status status = run(*options); !status) {
            std::fprintf(stderr, "deepinfer logits: %s\n", status.error().message.c_str());
            exit.code = 1;
        }
    });
}

}  // namespace deepinfer::cli
