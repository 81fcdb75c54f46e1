// deepinfer generate: one completion from a prompt in a file, through the whole engine.
#include <CLI/CLI.hpp>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/load_model.h"
#include "cli/sampling_options.h"
#include "recipe/raw_prompt.h"

namespace deepinfer::cli {

namespace {

struct GenerateOptions {
    LoadOptions load;
    std::string prompt, prompt_file, compute = "serve";
    engine::SamplingParams sampling;
    bool json = false, special = false;
};

Result<std::string> read_prompt(const GenerateOptions& options) {
    if (options.prompt_file.empty()) return options.prompt;
    std::ifstream file;
    if (options.prompt_file != "-") {
        std::error_code error;
        if (std::filesystem::is_directory(options.prompt_file, error))
            return Error{ErrorCode::invalid_argument,
                         "the prompt file " + options.prompt_file + " is a directory"};
        file.open(options.prompt_file, std::ios::binary);
        if (!file) return Error{ErrorCode::not_found, "cannot read the prompt file " + options.prompt_file};
    }
    std::istream& in = options.prompt_file == "-" ? std::cin : file;
    return std::string(std::istreambuf_iterator<char>(in), {});
}

// Runs one request to its end on the calling thread's behalf.
struct Outcome {
    std::mutex mutex;
    std::condition_variable done;
    bool finished = false;
    engine::Finish finish;
};

Status run(const GenerateOptions& options) {
    auto text = read_prompt(options);
    if (!text) return std::move(text).error();
    auto loaded = load_model(options.load);
    if (!loaded) return std::move(loaded).error();
    const tokenizer::Tokenizer& tokenizer = loaded->tokenizer();
    engine::Request request;
    request.prompt = recipe::encode_raw_prompt(
        tokenizer, *text,
        {.special = options.special ? tokenizer::Special::parse : tokenizer::Special::as_text});
    request.sampling = options.sampling;
    const std::vector<TokenId> prompt = request.prompt;

    Outcome outcome;
    std::vector<engine::SampledToken> tokens;
    tokenizer::StreamDecoder decoder(tokenizer, false, tokenizer::StreamStart::continues_text);
    std::string answer;
    engine::Listener listener;
    listener.on_token = [&](int32_t, const engine::SampledToken& token) {
        const std::string piece = decoder.push(token.token);
        answer += piece;
        tokens.push_back(token);
        if (!options.json) std::fwrite(piece.data(), 1, piece.size(), stdout), std::fflush(stdout);
    };
    listener.on_finish = [&](int32_t, const engine::Finish& finish) {
        std::lock_guard lock(outcome.mutex);
        outcome.finish = finish;
        outcome.finished = true;
        outcome.done.notify_one();
    };
    auto id = loaded->engine->submit(std::move(request), std::move(listener));
    if (!id) return std::move(id).error();
    {
        std::unique_lock lock(outcome.mutex);
        outcome.done.wait(lock, [&] { return outcome.finished; });
    }
    if (outcome.finish.reason == engine::FinishReason::error) return outcome.finish.error;
    const std::string tail = decoder.finish();
    answer += tail;
    if (!options.json) {
        std::printf("%s\n", tail.c_str());
        return {};
    }
    boost::json::object result;
    result["text"] = answer;
    boost::json::array token_ids, logprobs;
    for (const auto& token : tokens) {
        token_ids.push_back(token.token);
        logprobs.push_back(static_cast<double>(token.logprob));
    }
    result["tokens"] = token_ids;
    if (options.sampling.top_logprobs >= 0) result["logprobs"] = logprobs;
    result["prompt_tokens"] = boost::json::array(prompt.begin(), prompt.end());
    result["finish_reason"] = outcome.finish.reason == engine::FinishReason::stop ? "stop" : "length";
    std::printf("%s\n", boost::json::serialize(result).c_str());
    return {};
}

}  // namespace

void add_generate_command(CLI::App& app, ExitStatus& exit) {
    auto options = std::make_shared<GenerateOptions>();
    CLI::App* command = app.add_subcommand("generate", "Complete a prompt and print the text");
    add_engine_options(*command, options->load);
    auto* prompt = command->add_option("--prompt", options->prompt, "the prompt");
    auto* file = command->add_option("--prompt-file", options->prompt_file,
                                     "file that holds the prompt; - reads standard input");
    prompt->excludes(file);
    add_sampling_options(*command, options->sampling);
    command->add_flag("--ignore-eos", options->sampling.ignore_eos, "do not stop at the end-of-text token");
    command->add_flag("--special", options->special,
                      "spellings of special tokens in the prompt become those tokens");
    command
        ->add_option("--compute", options->compute, "serve: as the server computes; f32: float32 activations")
        ->check(CLI::IsMember({"f32", "serve"}));
    command
        ->add_option("--logprobs", options->sampling.top_logprobs,
                     "report log-probabilities (0: of the chosen tokens)")
        ->check(CLI::Range(0, engine::max_top_logprobs));
    const std::map<std::string, engine::LogprobsMode> modes{{"raw", engine::LogprobsMode::raw},
                                                            {"processed", engine::LogprobsMode::processed}};
    command
        ->add_option("--logprobs-mode", options->sampling.logprobs_mode,
                     "raw: of the model's distribution; processed: of the one that is drawn from")
        ->transform(CLI::CheckedTransformer(modes))
        ->needs("--logprobs");
    command->add_flag("--json", options->json, "one JSON object instead of text");
    command->callback([options, prompt, file, &exit] {
        if (prompt->count() + file->count() == 0) throw CLI::RequiredError("--prompt or --prompt-file");
        options->load.compute = options->compute == "f32" ? kernels::Compute::f32 : kernels::Compute::serve;
        options->load.max_running = 1;
        options->load.no_async = true;  // one answer: handing steps over costs more than it hides
        options->load.quiet = options->json;
        if (Status status = run(*options); !status) {
            std::fprintf(stderr, "deepinfer generate: %s\n", status.error().message.c_str());
            exit.code = 1;
        }
    });
}

}  // namespace deepinfer::cli
