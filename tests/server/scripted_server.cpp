// A server over a scripted engine, for client tests that need no model:
//
//     scripted_server [--port N] [--api-key KEY] [--running N] [--queue N]
//
// Prints "port N" and serves until its standard input ends. The answer to a prompt is its letters in an order
// that the seed chooses (in their own order at temperature 0), over and over. A prompt that contains the word
// "slow" is answered at 20 ms a token, "prefill" waits two seconds first.
#include <cstdio>
#include <cstring>
#include <random>

#include "server/server.h"
#include "support/byte_tokenizer.h"
#include "support/scripted_engine.h"

using namespace deepinfer;
using testing::ByteTokenizer;
using testing::ScriptedEngine;

namespace {

ScriptedEngine::Answer answer(const engine::Request& request) {
    std::string letters;
    std::string prompt;
    for (const TokenId token : request.prompt) {
        if (token < 256) prompt += static_cast<char>(token);
        if (token < 128 && (std::isalpha(token) || token == ' ')) letters += static_cast<char>(token);
    }
    if (letters.empty()) letters = "x";
    ScriptedEngine::Answer result;
    if (prompt.find("slow") != std::string::npos) result.per_token = std::chrono::milliseconds(20);
    if (prompt.find("prefill") != std::string::npos) result.prefill = std::chrono::seconds(2);
    std::mt19937_64 random(request.sampling.seed);
    for (size_t i = 0; i < 4000; ++i) {
        const size_t at = request.sampling.temperature > 0 ? random() % letters.size() : i % letters.size();
        result.tokens.push_back(static_cast<unsigned char>(letters[at]));
    }
    return result;
}

}  // namespace

int main(int argc, char** argv) {
    server::ServerOptions options;
    options.port = 0;
    ScriptedEngine::Options engine_options;
    engine_options.max_running = 64;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (std::strcmp(argv[i], "--port") == 0) options.port = static_cast<uint16_t>(std::atoi(argv[i + 1]));
        if (std::strcmp(argv[i], "--api-key") == 0) options.handler.keys = server::ApiKeys({argv[i + 1]});
        if (std::strcmp(argv[i], "--running") == 0)
            engine_options.max_running = std::strtoul(argv[i + 1], nullptr, 10);
        if (std::strcmp(argv[i], "--queue") == 0)
            engine_options.max_queue = std::strtoul(argv[i + 1], nullptr, 10);
    }
    auto started = server::Server::start(options);
    if (!started) {
        std::fprintf(stderr, "%s\n", started.error().message.c_str());
        return 1;
    }
    auto model = std::make_shared<server::ServedModel>();
    model->name = "scripted";
    model->tokenizer = std::make_unique<ByteTokenizer>();
    auto format = recipe::ChatFormat::create(*model->tokenizer, model->tokenizer->chat_template());
    if (!format) return 1;
    model->chat_format = std::move(*format);
    model->engine = std::make_unique<ScriptedEngine>(engine_options, answer);
    (*started)->set_model(std::move(model));
    std::printf("port %d\n", static_cast<int>((*started)->port()));
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    return 0;
}
