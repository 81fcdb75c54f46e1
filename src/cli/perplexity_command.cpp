// deepinfer perplexity: how well a model predicts a text, to see what quantisation costs.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/json.h"
#include "base/memory_info.h"
#include "base/quote.h"
#include "cli/commands.h"
#include "cli/kv_type.h"
#include "cli/load_model.h"
#include "cli/perplexity.h"
#include "recipe/raw_prompt.h"

namespace deepinfer::cli {

namespace {

constexpr size_t most_text_bytes = size_t{256} << 20;

struct CommandOptions {
    LoadOptions load;
    std::string file, compute = "serve", output = "text";
    PerplexityOptions perplexity;
};

Result<std::string> read_text(const std::string& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error))
        return Error{ErrorCode::invalid_argument, path + " is a directory"};
    std::ifstream file;
    if (path != "-") file.open(path, std::ios::binary);
    std::istream& in = path == "-" ? std::cin : file;
    if (!in) return Error{ErrorCode::not_found, "cannot read " + path};
    std::string text;
    for (char piece[1 << 16]; in.read(piece, sizeof piece), in.gcount() > 0;) {
        text.append(piece, static_cast<size_t>(in.gcount()));
        if (text.size() > most_text_bytes)
            return Error{ErrorCode::resource_exhausted,
                         path + " is longer than the " + format_bytes(most_text_bytes) + " that are read"};
    }
    return text;
}

void print_json(const CommandOptions& options, const ModelInMemory& model, const Perplexity& result,
                const std::vector<double>& running, double seconds) {
    boost::json::object o;
    o["build_version"] = DEEPINFER_VERSION;
    o["model_filename"] = to_valid_utf8(options.load.model.string());
    o["file"] = to_valid_utf8(options.file);
    o["compute"] = options.compute;
    o["kv_type"] = to_string(options.perplexity.kv_type);
    o["isa"] = kernels::to_string(model.isa);
    o["n_threads"] = model.pool->threads();
    o["n_ctx"] = options.perplexity.chunk;
    o["n_chunks"] = result.chunks;
    o["n_scored"] = result.scored;
    o["perplexity"] = result.value;
    o["error"] = result.error;
    o["running"] = boost::json::array(running.begin(), running.end());
    o["seconds"] = seconds;
    std::printf("%s\n", boost::json::serialize(o).c_str());
}

Status run(CommandOptions& options) {
    auto text = read_text(options.file);
    if (!text) return std::move(text).error();
    auto loaded = load_model_only(options.load);
    if (!loaded) return std::move(loaded).error();
    const std::vector<TokenId> tokens = recipe::encode_raw_prompt(*loaded->tokenizer, *text, {});
    if (loaded->tokenizer->adds_bos()) options.perplexity.bos = loaded->tokenizer->bos();
    const bool json = options.output == "json";
    const auto start = std::chrono::steady_clock::now();
    std::vector<double> running;
    auto result = measure_perplexity(*loaded->model, kernels::kernel_table(loaded->isa), tokens,
                                     options.perplexity, [&](const Perplexity& so_far, int chunks) {
                                         running.push_back(so_far.value);
                                         if (json) return;
                                         if (so_far.chunks == 1)
                                             std::printf("%zu tokens, %d chunks of %d\n", tokens.size(),
                                                         chunks, options.perplexity.chunk);
                                         std::printf("[%d]%.4f,", so_far.chunks, so_far.value);
                                         std::fflush(stdout);
                                     });
    if (!result) return std::move(result).error();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (json)
        print_json(options, *loaded, *result, running, seconds);
    else
        std::printf("\nperplexity %.4f +/- %.5f over %lld tokens, in %.1f s\n", result->value, result->error,
                    static_cast<long long>(result->scored), seconds);
    return {};
}

}  // namespace

void add_perplexity_command(CLI::App& app, ExitStatus& exit) {
    auto options = std::make_shared<CommandOptions>();
    CLI::App* command = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
    options->load.quiet = true;
    add_model_options(*command, options->load);
    command->add_option("-f,--file", options->file, "the text; - reads standard input")->required();
    command->add_option("-c,--chunk", options->perplexity.chunk, "tokens of a chunk")
        ->check(CLI::Range(4, 1 << 24))
        ->capture_default_str();
    command->add_option("--chunks", options->perplexity.most_chunks, "chunks at most (0: all)")
        ->check(CLI::Range(0, 1 << 24));
    command
        ->add_option("--compute", options->compute, "serve: as the server computes; f32: float32 activations")
        ->check(CLI::IsMember({"serve", "f32"}));
    add_kv_type_options(*command, options->load.kv_type);
    command->add_option("-o,--output", options->output, "text or json")
        ->check(CLI::IsMember({"text", "json"}));
    command->callback([options, &exit] {
        options->load.compute = options->compute == "f32" ? kernels::Compute::f32 : kernels::Compute::serve;
        options->perplexity.kv_type = options->load.kv_type.value_or(default_kv_type(options->load.compute));
        if (Status status = run(*options); !status) {
            std::fprintf(stderr, "deepinfer perplexity: %s\n", status.error().message.c_str());
            exit.code = 1;
        }
    });
}

}  // namespace deepinfer::cli
