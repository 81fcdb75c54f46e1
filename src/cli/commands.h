// The subcommands of `deepinfer`, one file each (<name>_command.cpp). Each adds itself to the parser; its
// callback returns through ExitStatus. Exit codes: 0 done; 1 the operation failed (message on stderr); 2
// wrong usage.
#pragma once

namespace CLI {
class App;
}

namespace deepinfer::cli {

struct ExitStatus {
    int code = 0;
};

void add_serve_command(CLI::App& app, ExitStatus& exit);
void add_chat_command(CLI::App& app, ExitStatus& exit);
void add_generate_command(CLI::App& app, ExitStatus& exit);
void add_bench_command(CLI::App& app, ExitStatus& exit);
void add_perplexity_command(CLI::App& app, ExitStatus& exit);
void add_logits_command(CLI::App& app, ExitStatus& exit);
void add_tokenize_command(CLI::App& app, ExitStatus& exit);  // and detokenize
void add_inspect_command(CLI::App& app, ExitStatus& exit);

}  // namespace deepinfer::cli
