#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "cli/commands.h"
#include "cli/cpu_info.h"

int main(int argc, char** argv) {
    CLI::App app("deepinfer: serve language models from CPUs", "deepinfer");
    app.set_version_flag("--version", DEEPINFER_VERSION);
    app.add_flag_callback(
        "--cpu-info",
        [] {
            const auto info = deepinfer::cli::cpu_info();
            if (!info) throw CLI::ValidationError(info.error().message);
            std::fputs(info->c_str(), stdout);
            throw CLI::Success();
        },
        "Print what the processor offers and which kernels are used, and exit");
    app.require_subcommand(1);
    deepinfer::cli::ExitStatus exit;
    deepinfer::cli::add_serve_command(app, exit);
    deepinfer::cli::add_chat_command(app, exit);
    deepinfer::cli::add_generate_command(app, exit);
    deepinfer::cli::add_bench_command(app, exit);
    deepinfer::cli::add_perplexity_command(app, exit);
    deepinfer::cli::add_logits_command(app, exit);
    deepinfer::cli::add_tokenize_command(app, exit);
    deepinfer::cli::add_inspect_command(app, exit);
    deepinfer::cli::add_recipe_command(app, exit);
    deepinfer::cli::add_cache_command(app, exit);
    deepinfer::cli::add_verify_command(app, exit);
    if (argc > 1 && argv[1][0] != '-') {
        std::string known;
        bool found = false;
        for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
            known += " " + command->get_name();
            found |= command->check_name(argv[1]);
        }
        if (!found) {
            std::fprintf(stderr, "deepinfer: there is no command '%s'; there are:%s\n", argv[1],
                         known.c_str());
            return 2;
        }
    }
    try {
        app.parse(deepinfer::cli::readable_arguments(argc, argv));
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    } catch (const std::exception& error) {  // out of memory, say
        std::fprintf(stderr, "deepinfer: %s\n", error.what());
        return 1;
    }
    // Lost output is a failure, whoever wrote it.
    if (exit.code == 0 && (std::fflush(stdout) != 0 || std::ferror(stdout))) {
        std::fputs("deepinfer: standard output cannot be written\n", stderr);
        return 1;
    }
    return exit.code;
}
