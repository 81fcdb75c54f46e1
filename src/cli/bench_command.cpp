// deepinfer bench: tokens per second of prefill and decode of the model alone, without server and sampler.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>

#include "cli/bench_options.h"
#include "cli/bench_report.h"
#include "cli/bench_session.h"
#include "cli/commands.h"

namespace deepinfer::cli {

namespace {

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

// Every combination of the lists but models and threads, the innermost first: prompts, generations, pairs.
std::vector<BenchTest> make_tests(const BenchOptions& options) {
    std::vector<BenchTest> tests;
    for (const KvType kv_type : options.kv_types)
        for (const int depth : options.depths)
            for (const int sequences : options.sequences)
                for (const int batch_rows : options.batch_rows)
                    for (const int micro_batch_rows : options.micro_batch_rows) {
                        BenchTest test{0, 0, depth, sequences, 1, batch_rows, micro_batch_rows, kv_type};
                        const auto add = [&](int prompt, int generation, int step_rows) {
                            test.prompt = prompt;
                            test.generation = generation;
                            test.step_rows = step_rows;
                            if (prompt > 0 || generation > 0) tests.push_back(test);
                        };
                        for (const int prompt : options.prompts) add(prompt, 0, 1);
                        for (const int step_rows : options.step_rows) {
                            for (const int generation : options.generations) add(0, generation, step_rows);
                            for (const auto& [prompt, generation] : options.prompt_then_generation)
                                add(prompt, generation, step_rows);
                        }
                    }
    return tests;
}

class Bench {
  public:
    explicit Bench(const BenchOptions& options)
        : options_(options), report_(options), tests_(make_tests(options)) {}

    Status run() {
        if (tests_.empty())
            return Error{ErrorCode::invalid_argument, "nothing to measure: all of -p and -n are 0"};
        for (const std::string& model : options_.models)  // before hours of measuring
            if (Status status = BenchSession::check(model, tests_); !status) return status;
        print(report_.begin());
        for (const std::string& model : options_.models)
            for (const int threads : options_.threads)
                if (Status status = run_model(model, threads); !status) return status;
        print(report_.end());
        return {};
    }

  private:
    Status run_model(const std::string& model, int threads) {
        auto session = BenchSession::load(model, threads, options_.compute);
        if (!session) return std::move(session).error();
        for (const BenchTest& test : tests_) {
            if (options_.delay_seconds > 0)
                std::this_thread::sleep_for(std::chrono::seconds(options_.delay_seconds));
            if (options_.progress)
                std::fprintf(stderr, "%s, %d threads: prompt %d, generation %d, depth %d, %d sequence(s)\n",
                             model.c_str(), threads, test.prompt, test.generation, test.depth,
                             test.sequences);
            const models::ModelInfo& info = session->model().model->info();
            BenchResult result;
            result.time = utc_now();
            auto samples = session->run(test, options_.repetitions, options_.warm_up, options_.bandwidth);
            if (!samples) return std::move(samples).error();
            result.test = test;
            result.samples = std::move(*samples);
            result.model_filename = model;
            result.model_type = session->model_type();
            result.model_size = session->model_bytes();
            result.model_n_params = info.parameters;
            result.weight_bytes = info.weight_bytes;
            result.threads = threads;
            result.isa = kernels::to_string(session->model().isa);
            result.compute = options_.compute;
            print(report_.row(result));
        }
        return {};
    }
    static void print(const std::string& text) {
        std::fputs(text.c_str(), stdout);
        std::fflush(stdout);
    }

    const BenchOptions& options_;
    BenchReport report_;
    std::vector<BenchTest> tests_;
};

int run(const std::vector<std::string>& arguments) {
    const auto options = parse_bench_options(arguments);
    if (!options) {
        std::fprintf(stderr, "deepinfer bench: %s\n", options.error().message.c_str());
        return 2;
    }
    if (options->help) {
        std::fputs(bench_help().c_str(), stdout);
        return 0;
    }
    if (Status status = Bench(*options).run(); !status) {
        std::fprintf(stderr, "deepinfer bench: %s\n", status.error().message.c_str());
        return 1;
    }
    return 0;
}

}  // namespace

void add_bench_command(CLI::App& app, ExitStatus& exit) {
    CLI::App* command = app.add_subcommand("bench", "Measure prefill and decode speed of models");
    // llama-bench's options (-pg, -ub) are none that CLI11 can read: everything is left to parse_bench_options().
    command->set_help_flag();
    command->prefix_command();
    command->callback([command, &exit] { exit.code = run(command->remaining()); });
}

}  // namespace deepinfer::cli
