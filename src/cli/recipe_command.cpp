// deepinfer recipe: the codec of the official DeepSeek service on the command line.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/recipe_vectors.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::cli {
namespace {

namespace json = boost::json;
using tokenizer::Tokenizer;

constexpr JsonLimits file_limits{.max_bytes = size_t{64} << 20, .max_depth = 64, .unique_keys = false};

Result<std::string> read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return Error{ErrorCode::not_found, path + " cannot be read"};
    return std::string{std::istreambuf_iterator<char>(file), {}};
}

// A tokenizer.json whose added tokens are spelled as another file says: {"128799": "<｜System｜>", …}.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path,
                                                  const std::string& spellings_path) {
    if (spellings_path.empty()) return Tokenizer::from_json_file(path);
    auto text = read_file(path);
    if (!text) return text.error();
    auto file = parse_json(*text, path, file_limits);
    if (!file) return file.error();
    auto spellings_text = read_file(spellings_path);
    if (!spellings_text) return spellings_text.error();
    const auto spellings = parse_json(*spellings_text, spellings_path, file_limits);
    if (!spellings) return spellings.error();
    json::object* root = file->if_object();
    json::value* added = root ? root->if_contains("added_tokens") : nullptr;
    if (!added || !added->is_array() || !spellings->is_object())
        return Error{ErrorCode::corrupt_data,
                     "no added tokens in " + path + ", or no object of spellings in " + spellings_path};
    size_t changed = 0;
    for (json::value& token : added->get_array()) {
        const json::value* id = token.is_object() ? token.get_object().if_contains("id") : nullptr;
        if (!id || !id->is_int64()) continue;
        const json::value* spelling = spellings->get_object().if_contains(std::to_string(id->get_int64()));
        if (!spelling) continue;
        token.get_object()["content"] = *spelling;
        ++changed;
    }
    if (changed != spellings->get_object().size())
        return Error{ErrorCode::corrupt_data,
                     spellings_path + " names ids that are no added tokens of " + path};
    return Tokenizer::from_json(json::serialize(*file));
}

struct Options {
    std::string tokenizer, added_tokens;
    std::vector<std::string> folders;
};

Result<bool> check(const Options& options) {
    const auto v4 = load_tokenizer(options.tokenizer, "");
    if (!v4) return v4.error();
    std::unique_ptr<Tokenizer> v41;
    if (!options.added_tokens.empty()) {
        auto loaded = load_tokenizer(options.tokenizer, options.added_tokens);
        if (!loaded) return loaded.error();
        v41 = std::move(*loaded);
    }
    RecipeVectors vectors(**v4, v41.get());
    for (const std::string& folder : options.folders)
        if (Status checked = vectors.check(folder); !checked) return checked.error();
    for (const RecipeVectors::Failure& failure : vectors.failures())
        std::printf("FAILED %s: %s\n", failure.name.c_str(), failure.difference.c_str());
    for (const std::string& file : vectors.skipped()) std::printf("skipped %s\n", file.c_str());
    size_t passed = 0, failed = 0;
    for (const auto& [kind, tally] : vectors.by_kind()) {
        std::printf("%-10s %zu passed, %zu failed\n", kind.c_str(), tally.passed, tally.failed);
        passed += tally.passed;
        failed += tally.failed;
    }
    std::printf("%zu passed, %zu failed\n", passed, failed);
    return failed == 0 && passed > 0;
}

}  // namespace

void add_recipe_command(CLI::App& app, ExitStatus& exit) {
    CLI::App* command = app.add_subcommand(
        "recipe", "The codec of the official DeepSeek service: prompts, output, recorded cases");
    command->require_subcommand(1);
    auto options = std::make_shared<Options>();
    CLI::App* checking =
        command->add_subcommand("check", "Compare recorded cases of the official codec with this one");
    checking->add_option("--tokenizer", options->tokenizer, "tokenizer.json of DeepSeek V4")->required();
    checking->add_option("--added-tokens", options->added_tokens,
                         "JSON file of the spellings by token id that make it the tokenizer of V4.1");
    checking->add_option("DIR", options->folders, "Folders or files of recorded cases")->required();
    checking->callback([options, &exit] {
        const auto passed = check(*options);
        if (!passed) {
            std::fprintf(stderr, "deepinfer: %s\n", passed.error().message.c_str());
            exit.code = 1;
        } else if (!*passed) {
            exit.code = 1;
        }
    });
}

}  // namespace deepinfer::cli
