// deepinfer recipe: the codec of the official DeepSeek service on the command line.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/official_codec.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/recipe_json.h"
#include "cli/recipe_stream.h"
#include "cli/recipe_vectors.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::cli {
namespace {

namespace json = boost::json;
using tokenizer::Tokenizer;

constexpr const char* spellings_help =
    "JSON file of spellings by token id that make it the tokenizer of V4.1";
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
    std::string tokenizer, added_tokens, api = "chat", request;
    std::vector<std::string> folders;
};

const std::map<std::string, api::Protocol> protocols = {{"chat", api::Protocol::chat},
                                                        {"responses", api::Protocol::responses},
                                                        {"messages", api::Protocol::messages}};

Result<std::string> read_stdin() {
    std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    if (std::cin.bad()) return Error{ErrorCode::io_error, "standard input cannot be read"};
    return text;
}

// Null if no tokenizer was named.
Result<std::unique_ptr<Tokenizer>> load_given_tokenizer(const Options& options) {
    if (options.tokenizer.empty()) return std::unique_ptr<Tokenizer>();
    return load_tokenizer(options.tokenizer, options.added_tokens);
}

Result<api::OfficialRequest> read_request(const Options& options, const std::string& body) {
    auto read = api::read_official_request({}, protocols.at(options.api), body);
    if (!read) return Error{ErrorCode::invalid_argument, "the request is refused: " + read.error().message};
    return std::move(*read);
}

Status render(const Options& options) {
    const auto body = read_stdin();
    if (!body) return body.error();
    const auto tokenizer = load_given_tokenizer(options);
    if (!tokenizer) return tokenizer.error();
    const auto request = read_request(options, *body);
    if (!request) return request.error();
    json::object out{{"text", request->prompt.marked.text},
                     {"special_ranges", ranges_json(request->prompt.marked)},
                     {"images", images_json(request->prompt.images)},
                     {"inference_options", options_json(request->options)},
                     {"parsing_options", output_json(request->converted.output)},
                     {"conversation", conversation_json(request->converted.conversation)}};
    if (*tokenizer) {
        const auto ids = recipe::encode(**tokenizer, request->prompt.marked);
        if (!ids) return ids.error();
        out["token_ids"] = json::array(ids->begin(), ids->end());
    }
    std::printf("%s\n", json::serialize(out).c_str());
    return {};
}

// Chunks of output, one JSON object a line, as the recorded streams have them.
Status parse(const Options& options) {
    const auto body = read_file(options.request);
    if (!body) return body.error();
    const auto tokenizer = load_given_tokenizer(options);
    if (!tokenizer) return tokenizer.error();
    const auto request = read_request(options, *body);
    if (!request) return request.error();
    StreamPlayer player(protocols.at(options.api), {.response_id = "resp-1", .body = *body}, *request,
                        tokenizer->get());
    const auto print = [](const json::array& events) {
        for (const json::value& event : events) std::printf("%s\n", json::serialize(event).c_str());
    };
    size_t number = 0;
    for (std::string line; std::getline(std::cin, line);) {
        ++number;
        if (line.empty()) continue;
        const auto chunk = parse_json(line, "line " + std::to_string(number));
        if (!chunk) return chunk.error();
        if (!chunk->is_object())
            return Error{ErrorCode::corrupt_data, "line " + std::to_string(number) + " is no object"};
        const auto events = player.push(chunk->get_object());
        if (!events) return events.error();
        print(*events);
    }
    print(player.finish());
    std::printf("%s\n", json::serialize(json::object{{"final", player.whole()}}).c_str());
    return {};
}

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
    for (const std::string& name : vectors.excluded())
        std::printf("excluded %s: what was recorded is surpassed\n", name.c_str());
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
    const auto run = [&exit](const Status& done) {
        if (done) return;
        std::fprintf(stderr, "deepinfer: %s\n", done.error().message.c_str());
        exit.code = 1;
    };
    const auto add_request_options = [&](CLI::App* sub) {
        sub->add_option("--api", options->api, "The protocol of the request: chat, responses or messages")
            ->check(CLI::IsMember({"chat", "responses", "messages"}));
        sub->add_option("--tokenizer", options->tokenizer, "tokenizer.json of DeepSeek V4");
        sub->add_option("--added-tokens", options->added_tokens, spellings_help);
    };
    CLI::App* rendering = command->add_subcommand(
        "render", "Turn a request from standard input into its prompt, as text, token ids and options");
    add_request_options(rendering);
    rendering->callback([options, run] { run(render(*options)); });
    CLI::App* parsing = command->add_subcommand(
        "parse",
        "Turn chunks of output from standard input, one JSON object a line, into the events of the answer");
    add_request_options(parsing);
    parsing->add_option("--request", options->request, "File with the request that is answered")->required();
    parsing->callback([options, run] { run(parse(*options)); });
    CLI::App* checking =
        command->add_subcommand("check", "Compare recorded cases of the official codec with this one");
    checking->add_option("--tokenizer", options->tokenizer, "tokenizer.json of DeepSeek V4")->required();
    checking->add_option("--added-tokens", options->added_tokens, spellings_help);
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
