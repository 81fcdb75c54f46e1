// The subcommands of `deepinfer`, one file each (<name>_command.cpp). Each adds itself to the parser; its
// callback returns through ExitStatus. Exit codes: 0 done; 1 the operation failed (message on stderr); 2
// wrong usage.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace deepinfer::cli {

struct ExitStatus {
    int code = 0;
};

// What main() got without the program's name, in the order in which CLI11 takes a vector, last first. llama.cpp's -ctk and
// -ctv, which CLI11 would read as three options, become --cache-type-k and -v; `bench` reads its own.
std::vector<std::string> readable_arguments(int count, const char* const* arguments);

void add_serve_command(CLI::App& app, ExitStatus& exit);
void add_chat_command(CLI::App& app, ExitStatus& exit);
void add_generate_command(CLI::App& app, ExitStatus& exit);
void add_bench_command(CLI::App& app, ExitStatus& exit);
void add_perplexity_command(CLI::App& app, ExitStatus& exit);
void add_logits_command(CLI::App& app, ExitStatus& exit);
void add_tokenize_command(CLI::App& app, ExitStatus& exit);  // and detokenize
void add_cache_command(CLI::App& app, ExitStatus& exit);
void add_verify_command(CLI::App& app, ExitStatus& exit);
void add_recipe_command(CLI::App& app, ExitStatus& exit);
void add_inspect_command(CLI::App& app, ExitStatus& exit);

}  // namespace deepinfer::cli
