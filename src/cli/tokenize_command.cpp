// `deepinfer tokenize` and `deepinfer detokenize`: text on stdin -> JSON ids on stdout, and back.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::cli {
namespace {

using tokenizer::Special;
using tokenizer::Tokenizer;

struct Options {
    std::string model;
    bool special = false;
    bool skip_special = false;
    std::vector<TokenId> ids;
};

// From a tokenizer.json, a GGUF file, or a folder with either tokenizer.json alone or a safetensors model.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& path) {
    std::error_code error;
    if (path.extension() == ".json") return Tokenizer::from_json_file(path);
    if (std::filesystem::is_directory(path, error) && std::filesystem::exists(path / "tokenizer.json", error))
        return Tokenizer::from_json_file(path / "tokenizer.json");
    const Result<std::unique_ptr<checkpoint::Checkpoint>> model = checkpoint::Checkpoint::open(path);
    if (!model) return model.error();
    return Tokenizer::from_checkpoint(**model);
}

Result<std::string> read_stdin() {
    std::string text;
    char buffer[1 << 16];
    while (const size_t got = std::fread(buffer, 1, sizeof buffer, stdin)) text.append(buffer, got);
    if (std::ferror(stdin)) return Error{ErrorCode::io_error, "standard input cannot be read"};
    return text;
}

Status write_stdout(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        return Error{ErrorCode::io_error, "standard output cannot be written"};
    return {};
}

Status tokenize(const Options& options) {
    const Result<std::unique_ptr<Tokenizer>> loaded = load_tokenizer(options.model);
    if (!loaded) return loaded.error();
    const Result<std::string> text = read_stdin();
    if (!text) return text.error();
    const std::vector<TokenId> ids =
        (*loaded)->encode(*text, options.special ? Special::parse : Special::as_text);
    std::string out = "[";
    for (size_t i = 0; i < ids.size(); ++i) {
        if (i > 0) out += ',';
        out += std::to_string(ids[i]);
    }
    return write_stdout(out + "]\n");
}

Result<std::vector<TokenId>> read_ids() {
    const Result<std::string> text = read_stdin();
    if (!text) return text.error();
    const Result<boost::json::value> value = parse_json(*text, "standard input");
    if (!value) return value.error();
    const Error bad{ErrorCode::invalid_argument, "standard input: expected a JSON array of token ids"};
    if (!value->is_array()) return bad;
    std::vector<TokenId> ids;
    for (const boost::json::value& id : value->get_array()) {
        if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() > INT32_MAX) return bad;
        ids.push_back(TokenId(id.get_int64()));
    }
    return ids;
}

Status detokenize(const Options& options) {
    const Result<std::unique_ptr<Tokenizer>> loaded = load_tokenizer(options.model);
    if (!loaded) return loaded.error();
    Result<std::vector<TokenId>> ids = options.ids.empty() ? read_ids() : options.ids;
    if (!ids) return std::move(ids).error();
    for (const TokenId id : *ids) {
        if (id < 0 || id >= (*loaded)->vocabulary_size())
            return Error{ErrorCode::invalid_argument, "the id " + std::to_string(id) + " is not one of the " +
                                                          std::to_string((*loaded)->vocabulary_size()) +
                                                          " ids of this tokenizer"};
    }
    return write_stdout((*loaded)->decode(*ids, !options.skip_special));
}

void finish(ExitStatus& exit, CLI::App* command, const std::shared_ptr<Options>& options,
            Status (*run)(const Options&)) {
    command->add_option("--model", options->model, "GGUF file, model folder or tokenizer.json")->required();
    command->callback([options, run, &exit] {
        const Status done = run(*options);
        if (done) return;
        std::fprintf(stderr, "deepinfer: %s\n", done.error().message.c_str());
        exit.code = 1;
    });
}

}  // namespace

void add_tokenize_command(CLI::App& app, ExitStatus& exit) {
    const auto tokenize_options = std::make_shared<Options>();
    CLI::App* command =
        app.add_subcommand("tokenize", "Turn text from standard input into a JSON array of token ids");
    command->add_flag("--special", tokenize_options->special,
                      "Spellings of special tokens in the text become those tokens");
    finish(exit, command, tokenize_options, tokenize);

    const auto detokenize_options = std::make_shared<Options>();
    command = app.add_subcommand("detokenize", "Turn token ids into text");
    command->add_option("ids", detokenize_options->ids,
                        "Token ids; without any, a JSON array is read from standard input");
    command->add_flag("--skip-special", detokenize_options->skip_special,
                      "Leave special tokens out of the text");
    finish(exit, command, detokenize_options, detokenize);
}

}  // namespace deepinfer::cli
