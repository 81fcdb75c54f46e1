// deepinfer serve: load a model and answer HTTP until a signal.
#include <pthread.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/start_thread.h"
#include "cli/commands.h"
#include "cli/load_model.h"
#include "cli/stats_log.h"
#include "server/server.h"

namespace deepinfer::cli {
namespace {

struct ServeOptions {
    LoadOptions load;
    server::ServerOptions server;
    std::vector<std::string> api_keys;
    std::string api_key_file, metrics_key, served_model_name, chat_template_file;
    int drain_seconds = 30, log_seconds = 10;
    double request_timeout = 0;  // seconds; 0: none
    std::string trace_file;
};

// SIGINT and SIGTERM, taken one by one by wait() instead of interrupting somebody.
class TerminationSignals {
  public:
    TerminationSignals() {
        sigemptyset(&set_);
        sigaddset(&set_, SIGINT);
        sigaddset(&set_, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &set_, nullptr);  // inherited by every thread that starts from now on
        signal(SIGPIPE, SIG_IGN);
    }
    void wait() const {
        int number = 0;
        while (sigwait(&set_, &number) != 0) {
        }
    }

  private:
    sigset_t set_;
};

Result<std::string> read_text_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) return Error{ErrorCode::not_found, "cannot read " + path};
    return std::move(text).str();
}

// Also fills in the tenants' weights.
Result<server::HandlerOptions> handler_options(ServeOptions& options) {
    server::HandlerOptions result = options.server.handler;
    result.longest_timeout = options.request_timeout;
    std::vector<std::string> keys = options.api_keys;
    if (!options.api_key_file.empty()) {
        Result<std::vector<server::ApiKey>> more = server::read_key_file(options.api_key_file);
        if (!more) return std::move(more).error();
        for (server::ApiKey& key : *more) {
            if (key.weight != 1)
                options.load.tenant_weights[server::ApiKeys::tenant_name(key.key)] = key.weight;
            keys.push_back(std::move(key.key));
        }
    }
    for (const std::string& key : keys)
        if (key.empty()) return Error{ErrorCode::invalid_argument, "an API key must not be empty"};
    result.keys = server::ApiKeys(keys);
    if (!options.metrics_key.empty()) result.metrics_key = server::ApiKeys({options.metrics_key});
    return result;
}

Result<std::shared_ptr<server::ServedModel>> load_served_model(const ServeOptions& options) {
    Result<LoadedModel> loaded = load_model(options.load);
    if (!loaded) return std::move(loaded).error();
    auto served = std::make_shared<server::ServedModel>();
    served->name = options.served_model_name.empty() ? loaded->name() : options.served_model_name;
    served->created = std::time(nullptr);
    served->tokenizer = std::move(loaded->memory.tokenizer);
    served->trace = loaded->trace;
    served->engine = std::move(loaded->engine);
    served->storage = std::make_shared<LoadedModel>(std::move(*loaded));

    std::string chat_template = served->tokenizer->chat_template();
    if (!options.chat_template_file.empty()) {
        Result<std::string> text = read_text_file(options.chat_template_file);
        if (!text) return std::move(text).error();
        chat_template = std::move(*text);
    }
    if (chat_template.empty()) {
        std::fprintf(stderr, "The model has no chat template: only /v1/completions is served.\n");
        return served;
    }
    Result<std::unique_ptr<recipe::ChatFormat>> format =
        recipe::ChatFormat::create(*served->tokenizer, chat_template);
    if (!format) return std::move(format).error();
    served->chat_format = std::move(*format);
    return served;
}

void write_trace(const engine::Trace& trace, const std::filesystem::path& path) {
    const std::string text = trace.json();
    std::FILE* file = std::fopen(path.c_str(), "w");
    const bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if ((file && std::fclose(file) != 0) || !written)
        std::fprintf(stderr, "deepinfer serve: the trace could not be written to %s\n", path.c_str());
}

// Before the model is loaded: an hour of requests should not end with a trace that cannot be kept.
Status check_writable(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "a");
    if (!file)
        return Error{ErrorCode::io_error,
                     "--trace: cannot write " + path + ": " + std::generic_category().message(errno)};
    std::fclose(file);
    return {};
}

int fail(const Error& error) {
    std::fprintf(stderr, "deepinfer serve: %s\n", error.message.c_str());
    return 1;
}

int serve(ServeOptions options) {
    const TerminationSignals signals;
    Result<server::HandlerOptions> handler = handler_options(options);
    if (!handler) return fail(handler.error());
    if (!options.trace_file.empty())
        if (Status status = check_writable(options.trace_file); !status) return fail(status.error());
    const bool is_open = !handler->keys.required();
    options.server.handler = std::move(*handler);
    Result<std::unique_ptr<server::Server>> started = server::Server::start(options.server);
    if (!started) return fail(started.error());
    server::Server& server = **started;
    const std::string& host = options.server.host;
    if (is_open && host != "localhost" && host != "::1" && !host.starts_with("127."))
        std::fprintf(stderr, "Anybody who reaches %s can use this server: there is no --api-key.\n",
                     host.c_str());

    // Before the model is there, a signal ends the process at once; afterwards the first one drains and the
    // second one ends it at once.
    std::atomic<bool> serving{false}, stopping{false}, done{false};
    Result<std::thread> waiter = start_thread("that waits for signals", [&] {
        signals.wait();
        if (!serving) std::_Exit(0);
        stopping = true;
        stopping.notify_all();
        signals.wait();
        if (!done) std::_Exit(1);
    });
    if (!waiter) return fail(waiter.error());
    waiter->detach();  // it cannot be joined: from here on the process ends by std::_Exit()
    Result<std::shared_ptr<server::ServedModel>> model = load_served_model(options);
    if (!model) {
        std::_Exit(fail(model.error()));
    }
    std::fprintf(stderr, "Serving %s (context %d) on http://%s:%d\n", (*model)->name.c_str(),
                 static_cast<int>((*model)->engine->context_length()),
                 host.find(':') == std::string::npos ? host.c_str() : ("[" + host + "]").c_str(),
                 static_cast<int>(server.port()));
    const std::shared_ptr<const server::ServedModel> served = *model;
    server.set_model(std::move(*model));
    serving = true;
    {
        const auto log = StatsLog::start(served->engine.get(), options.log_seconds);
        if (!log) std::_Exit(fail(log.error()));
        stopping.wait(false);
    }
    std::fprintf(stderr, "Shutting down: running answers have %d seconds.\n", options.drain_seconds);
    server.drain(std::chrono::seconds(options.drain_seconds));
    if (!options.trace_file.empty()) write_trace(*served->trace, options.trace_file);
    started->reset();
    done = true;
    std::fflush(nullptr);
    std::_Exit(0);
}

// Who waits, and how long steps take.
void add_scheduling_options(CLI::App& command, ServeOptions& options) {
    command.add_option("--max-running", options.load.max_running, "Requests computed side by side")
        ->capture_default_str()
        ->check(CLI::Range(1, 65'536));
    command
        .add_option("--max-queue", options.load.max_waiting,
                    "Requests that may wait; more are answered with 429")
        ->capture_default_str()
        ->check(CLI::Range(1, 1'000'000));
    command
        .add_option(
            "--max-wait", options.load.max_wait_seconds,
            "Requests that would wait longer for their turn, in seconds, are answered with 429; 0: none")
        ->check(real_number(0.0, 1e6));
    command
        .add_option("--step-ms", options.load.step_ms,
                    "Time of a step that nobody's next token waits for: bounds how long a new request waits "
                    "for it (80, or 8 "
                    "times what a step of one row takes if that is more)")
        ->check(real_number(1.0, 1e6));
    command
        .add_option(
            "--itl-ms", options.load.itl_ms,
            "Time between the tokens of an answer while prompts are computed beside it; 0: 2.5 times what "
            "it is without")
        ->check(real_number(0.0, 1e6));
    command.add_flag("--no-profile", options.load.no_profile,
                     "Do not time a few steps at the start (2 s, kept for the next one): how long steps take "
                     "is then learned from the first requests");
    command.add_flag("--no-async", options.load.no_async,
                     "Plan a step only when the one before is done; answers are the same");
}

// What is computed once only.
void add_cache_options(CLI::App& command, ServeOptions& options) {
    add_store_options(command, options.load.stores);
    command
        .add_option_function<std::string>(
            "--cache-retention",
            [handler = &options.server.handler](const std::string& name) {
                handler->retention = *engine::parse_retention(name);
            },
            "How long computed prefixes are kept after their last use, unless a request says otherwise: chat "
            "(7 "
            "days, the default), agent (3 days), none (in memory only)")
        ->check(CLI::IsMember({"chat", "agent", "none"}));
    CLI::Option* no_cache = command.add_flag(
        "--no-prefix-cache", options.load.no_prefix_cache,
        "Compute every prompt whole, also where the same beginning was computed before; answers "
        "are the same");
    command.add_flag("--share-prefix-cache", options.load.share_prefix_cache,
                     "Find again what was computed for other API keys, too: who measures times can then tell "
                     "whether somebody else sent the same text");
    for (const char* of_the_cache : {"--cache-dir", "--cache-size", "--cache-size-per-key", "--cache-url",
                                     "--shared-cache-dir", "--cache-retention", "--share-prefix-cache"})
        no_cache->excludes(command.get_option(of_the_cache));
}

}  // namespace

void add_serve_command(CLI::App& app, ExitStatus& exit) {
    CLI::App* command = app.add_subcommand("serve", "Answer HTTP requests (OpenAI's API) with a model");
    auto options = std::make_shared<ServeOptions>();
    add_engine_options(*command, options->load);
    server::ServerOptions& server = options->server;
    command->add_option("--host", server.host, "Address to listen on")->capture_default_str();
    command->add_option("--port", server.port, "Port to listen on; 0: any free one")->capture_default_str();
    command->add_option("--served-model-name", options->served_model_name, "The model's name in the API");
    command
        ->add_option("--chat-template", options->chat_template_file,
                     "A file with a chat template to use instead")
        ->check(CLI::ExistingFile);
    command
        ->add_option("--api-key", options->api_keys,
                     "A key that clients must send; may be given several times")
        ->take_all();
    command->add_option(
        "--api-key-file", options->api_key_file,
        "A file with one API key per line; \"KEY weight=N\" gives it N times the compute of a "
        "key without when all keys want some");
    command->add_option("--metrics-key", options->metrics_key,
                        "A further key that opens /metrics only (API keys open it, too)");
    command->add_option("--cors-origin", server.handler.cors_origin,
                        "Origin that browsers may call from, or *");
    command
        ->add_option("--log-seconds", options->log_seconds,
                     "Say every so many seconds what the engine does, if it does something; 0: never")
        ->capture_default_str()
        ->check(CLI::Range(0, 86'400));
    command->add_option(
        "--trace", options->trace_file,
        "Record when the engine plans and computes; written to this file at the end, and at /debug/trace "
        "(Chrome's trace format, for chrome://tracing or Perfetto)");
    command
        ->add_option("--request-timeout", options->request_timeout,
                     "Seconds after which a request that is not done is given up; 0: never. Requests may say "
                     "less with \"timeout\"")
        ->check(real_number(0.0, 86'400.0));
    add_scheduling_options(*command, *options);
    add_cache_options(*command, *options);
    command->add_option("--max-connections", server.max_connections, "Connections at a time")
        ->capture_default_str()
        ->check(CLI::Range(1, 1'000'000));
    command
        ->add_option("--drain-seconds", options->drain_seconds,
                     "How long running answers may take at shutdown")
        ->capture_default_str()
        ->check(CLI::Range(0, 86'400));
    const CLI::Option* retention = command->get_option("--cache-retention");
    command->callback([options, retention, &exit] {
        if (retention->count() > 0 && !options->load.stores.any())
            throw CLI::ValidationError("--cache-retention", "requires a disk cache or another store");
        options->load.step_times = true;
        options->load.record_trace = !options->trace_file.empty();
        exit.code = serve(std::move(*options));
    });
}

}  // namespace deepinfer::cli
