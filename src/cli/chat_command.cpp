// deepinfer chat: a conversation in the terminal, with the model in this process.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <mutex>

#include "base/quote.h"
#include "cli/commands.h"
#include "cli/load_model.h"
#include "cli/sampling_options.h"
#include "recipe/chat_format.h"
#include "recipe/text_stream.h"

namespace deepinfer::cli {

namespace {

struct ChatOptions {
    LoadOptions load;
    std::string system;
    engine::SamplingParams sampling;
};

// Ctrl-C ends the answer, not the program. A flag is all that a signal handler may touch.
volatile std::sig_atomic_t interrupted = 0;

class InterruptHandler {
  public:
    InterruptHandler() {
        struct sigaction action = {};
        action.sa_handler = [](int) {
            interrupted = 1;
        };  // without SA_RESTART, so that reading a line ends as well
        sigaction(SIGINT, &action, &before_);
    }
    ~InterruptHandler() { sigaction(SIGINT, &before_, nullptr); }

  private:
    struct sigaction before_;
};

class Chat {
  public:
    Chat(LoadedModel& model, const recipe::ChatFormat& format, const ChatOptions& options)
        : model_(model), format_(format), options_(options) {
        reset();
    }

    void reset() {
        conversation_.messages.clear();
        if (!options_.system.empty())
            conversation_.messages.push_back({.role = recipe::Role::system, .content = options_.system});
    }

    // Asks and prints the answer while it comes. On an error the question is taken back.
    Status ask(const std::string& question) {
        if (to_valid_utf8(question) != question)
            return Error{ErrorCode::invalid_argument, "the line is not valid UTF-8"};
        conversation_.messages.push_back({.role = recipe::Role::user, .content = question});
        Status status = answer();
        if (!status) conversation_.messages.pop_back();
        return status;
    }

  private:
    Status answer() {
        recipe::PromptOptions prompt;
        prompt.unix_seconds = std::time(nullptr);
        auto tokens = format_.encode(conversation_, prompt);
        if (!tokens) return std::move(tokens).error();
        engine::Request request;
        request.prompt = std::move(*tokens);
        request.sampling = options_.sampling;
        request.sampling.seed = options_.sampling.seed + conversation_.messages.size();

        std::mutex mutex;
        std::condition_variable changed;
        std::vector<TokenId> arrived;
        std::optional<engine::Finish> finish;
        engine::Listener listener;
        listener.on_token = [&](int32_t, const engine::SampledToken& token) {
            std::lock_guard lock(mutex);
            arrived.push_back(token.token);
            changed.notify_one();
        };
        listener.on_finish = [&](int32_t, const engine::Finish& end) {
            std::lock_guard lock(mutex);
            finish = end;
            changed.notify_one();
        };
        interrupted = 0;
        auto id = model_.engine->submit(std::move(request), std::move(listener));
        if (!id) return std::move(id).error();
        recipe::TextStream stream(model_.tokenizer(), {});
        std::string text;
        const auto print = [&text](const std::string& piece) {
            text += piece;
            std::fwrite(piece.data(), 1, piece.size(), stdout);
            std::fflush(stdout);
        };
        for (bool ended = false; !ended;) {
            std::vector<TokenId> batch;
            {
                std::unique_lock lock(mutex);
                changed.wait_for(lock, std::chrono::milliseconds(50),
                                 [&] { return finish || !arrived.empty(); });
                batch.swap(arrived);
                ended = finish.has_value();
            }
            for (TokenId token : batch) print(stream.push(token));
            if (interrupted) model_.engine->cancel(*id);
        }
        print(stream.finish());
        std::printf(finish->reason == engine::FinishReason::cancelled ? " [stopped]\n"
                    : finish->reason == engine::FinishReason::length  ? " [length]\n"
                                                                      : "\n");
        interrupted = 0;
        if (finish->reason == engine::FinishReason::error) return finish->error;
        conversation_.messages.push_back({.role = recipe::Role::assistant, .content = text});
        return {};
    }

    LoadedModel& model_;
    const recipe::ChatFormat& format_;
    const ChatOptions& options_;
    recipe::Conversation conversation_;
};

Status run(const ChatOptions& options) {
    auto loaded = load_model(options.load);
    if (!loaded) return std::move(loaded).error();
    if (loaded->tokenizer().chat_template().empty())
        return Error{ErrorCode::unsupported,
                     "the model has no chat template; `deepinfer generate` completes plain text"};
    auto format = recipe::ChatFormat::create(loaded->tokenizer(), loaded->tokenizer().chat_template());
    if (!format) return std::move(format).error();
    const bool terminal = isatty(STDIN_FILENO);
    if (terminal)
        std::printf("Chatting with %s. Ctrl-C stops an answer, /reset starts over, Ctrl-D ends.\n",
                    loaded->name().c_str());
    Chat chat(*loaded, **format, options);
    const InterruptHandler handler;
    std::string line;
    Status failed;
    for (;;) {
        if (terminal) std::printf("\n> "), std::fflush(stdout);
        if (!std::getline(std::cin, line)) {
            if (!interrupted) break;
            interrupted = 0;
            std::cin.clear();
            continue;
        }
        if (line == "/reset") {
            chat.reset();
        } else if (line == "/exit" || line == "/quit") {
            break;
        } else if (!line.empty()) {
            // The conversation goes on without the question that failed.
            if (Status status = chat.ask(line); !status) {
                std::fprintf(stderr, "%s\n", status.error().message.c_str());
                failed = std::move(status);
            }
        }
    }
    if (terminal) std::printf("\n");
    return terminal ? Status() : failed;
}

}  // namespace

void add_chat_command(CLI::App& app, ExitStatus& exit) {
    auto options = std::make_shared<ChatOptions>();
    options->sampling.max_tokens = 1024;
    options->sampling.temperature = 0.7f;
    options->sampling.top_p = 0.95f;
    CLI::App* command = app.add_subcommand("chat", "Talk to a model in the terminal");
    add_engine_options(*command, options->load);
    command->add_option("--system", options->system, "system message");
    add_sampling_options(*command, options->sampling);
    command->callback([options, &exit] {
        options->load.max_running = 1;
        options->load.no_async = true;  // one answer: handing steps over costs more than it hides
        if (Status status = run(*options); !status) {
            std::fprintf(stderr, "deepinfer chat: %s\n", status.error().message.c_str());
            exit.code = 1;
        }
    });
}

}  // namespace deepinfer::cli
