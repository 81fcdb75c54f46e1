// deepinfer verify: random conversations, answered without any cache and then with every kind that there is. All answers must be
// the same to the last bit of every log-probability.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "cli/commands.h"
#include "cli/conversations.h"
#include "cli/load_model.h"

extern char** environ;

namespace deepinfer::cli {
namespace {

namespace fs = std::filesystem;

struct VerifyOptions {
    LoadOptions load;
    ConversationOptions conversations;
    size_t count = 10;
    bool child = false;  // answers once with the given folder, and prints the answers for the parent
    std::string folder;
};

struct Arm {
    std::string name;
    bool stored = false;  // some of its blocks must come from a store
    std::vector<Conversation> conversations;
    double seconds = 0;
    std::string failure = {};  // it could not be run
};

int fail(const Error& error) {
    std::fprintf(stderr, "deepinfer verify: %s\n", error.message.c_str());
    return 1;
}

Arm run(const std::string& name, engine::Engine& engine, const VerifyOptions& options) {
    const auto begin = std::chrono::steady_clock::now();
    Arm arm{name, false, converse_all(engine, options.conversations, options.count)};
    arm.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return arm;
}

// ---- from process to process: a line for each turn, the log-probabilities as bits

void print_for_parent(const Arm& arm) {
    std::printf("seconds %.6f\n", arm.seconds);
    for (size_t c = 0; c < arm.conversations.size(); ++c)
        for (const TurnResult& turn : arm.conversations[c]) {
            std::printf("turn %zu %d %d", c, turn.prompt_tokens, turn.cached_tokens);
            for (const int32_t tokens : turn.loaded_tokens) std::printf(" %d", tokens);
            std::printf(" %zu", turn.tokens.size());
            for (size_t i = 0; i < turn.tokens.size(); ++i) {
                uint32_t bits;
                std::memcpy(&bits, &turn.logprobs[i], sizeof bits);
                std::printf(" %d %" PRIu32, turn.tokens[i], bits);
            }
            std::printf("\n");
        }
}

Arm read_from_child(const std::string& name, const std::string& text, size_t count) {
    Arm arm{name, false, std::vector<Conversation>(count)};
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream fields(line);
        std::string word;
        fields >> word;
        if (word == "seconds") fields >> arm.seconds;
        if (word != "turn") continue;
        size_t conversation = 0, tokens = 0;
        TurnResult turn;
        fields >> conversation >> turn.prompt_tokens >> turn.cached_tokens;
        for (int32_t& loaded : turn.loaded_tokens) fields >> loaded;
        fields >> tokens;
        for (size_t i = 0; i < tokens && fields; ++i) {
            TokenId token = 0;
            uint32_t bits = 0;
            fields >> token >> bits;
            turn.tokens.push_back(token);
            turn.logprobs.emplace_back();
            std::memcpy(&turn.logprobs.back(), &bits, sizeof bits);
        }
        if (!fields || conversation >= count) {
            arm.failure = "its output cannot be read";
            return arm;
        }
        arm.conversations[conversation].push_back(std::move(turn));
    }
    return arm;
}

// This program again, on the same folder.
Arm run_child(const std::string& name, const std::vector<std::string>& arguments,
              const VerifyOptions& options) {
    Arm failed{name, false, {}};
    failed.failure = "the process could not be started";
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    int ends[2];
    if (::pipe(ends) != 0) return failed;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    pid_t child = 0;
    const int started = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t n; started == 0 && (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<size_t>(n));
    ::close(ends[0]);
    int status = 0;
    if (started != 0) return failed;
    ::waitpid(child, &status, 0);
    failed.failure = "the process failed";
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? read_from_child(name, text, options.count)
                                                         : failed;
}

// ---- the table

struct Totals {
    size_t turns = 0, different = 0;
    int64_t prompt = 0, cached = 0, loaded = 0;
};

// Says where an arm differs from the first.
Totals compare(const Arm& arm, const Arm& first) {
    Totals totals;
    for (size_t c = 0; c < first.conversations.size(); ++c) {
        const Conversation &mine = arm.conversations[c], &wanted = first.conversations[c];
        for (size_t t = 0; t < std::max(mine.size(), wanted.size()); ++t) {
            ++totals.turns;
            const bool same = t < mine.size() && t < wanted.size() && mine[t].same(wanted[t]);
            if (t < mine.size()) {
                totals.prompt += mine[t].prompt_tokens;
                totals.cached += mine[t].cached_tokens;
                for (const int32_t tokens : mine[t].loaded_tokens) totals.loaded += tokens;
            }
            if (same) continue;
            if (++totals.different <= 3)
                std::printf("  %s: conversation %zu, turn %zu differs (%d of %d prompt tokens were cached)\n",
                            arm.name.c_str(), c, t, t < mine.size() ? mine[t].cached_tokens : 0,
                            t < mine.size() ? mine[t].prompt_tokens : 0);
        }
    }
    return totals;
}

// What can be said of all arms together.
struct Outcome {
    size_t turns = 0;
    int64_t cached = 0;
    bool different = false;
    bool failed = false;     // an arm, or a turn
    bool unchecked = false;  // something found nothing, so that the comparison says nothing of it
};

const char* verdict(const Outcome& o) {
    if (o.different) return "THE ANSWERS DIFFER.";
    if (o.failed) return "Not all could be run: what was compared is the same.";
    if (o.turns == 0) return "Nothing was compared: the context is too short for a turn.";
    if (o.unchecked) return "What was compared is the same, but not all was compared.";
    return "All answers are the same, to the bit.";
}

void report_arm(const Arm& arm, const Arm& first, Outcome& o) {
    if (!arm.failure.empty()) {
        std::printf("%-16s %s\n", arm.name.c_str(), arm.failure.c_str());
        o.failed = true;
        return;
    }
    const Totals t = compare(arm, first);
    const double all = static_cast<double>(std::max<int64_t>(t.prompt, 1));
    std::printf("%-16s %6zu %10lld %7.1f%% %7.1f%% %9.1f %10zu\n", arm.name.c_str(), t.turns,
                static_cast<long long>(t.prompt), 100 * static_cast<double>(t.cached) / all,
                100 * static_cast<double>(t.loaded) / all, arm.seconds, t.different);
    o.different = o.different || t.different > 0;
    o.turns += t.turns;
    o.cached += t.cached;
    if (!arm.stored || t.loaded > 0) return;
    std::printf("  %s: nothing came from the store, so it was not checked: is it there, and has it room?\n",
                arm.name.c_str());
    o.unchecked = true;
}

int report(const std::vector<Arm>& arms) {
    Outcome o;
    std::printf("%-16s %6s %10s %8s %8s %9s %10s\n", "arm", "turns", "prompt", "cached", "stored", "seconds",
                "different");
    for (const Arm& arm : arms) report_arm(arm, arms.front(), o);
    for (const Conversation& conversation : arms.front().conversations)
        for (const TurnResult& turn : conversation)
            if (!turn.error.message.empty()) {
                std::printf("a turn failed: %s\n", turn.error.message.c_str());
                o.failed = true;
            }
    if (o.cached == 0 && o.turns > 0) {
        std::printf("  no arm found anything again: conversations shorter than a block of %d tokens?\n",
                    kv::block_tokens);
        o.unchecked = true;
    }
    std::printf("%s\n", verdict(o));
    return o.different || o.failed || o.unchecked || o.turns == 0 ? 1 : 0;
}

// A folder of our own, deleted at the end.
struct TemporaryFolder {
    fs::path path;
    ~TemporaryFolder() {
        std::error_code ignored;
        if (!path.empty()) fs::remove_all(path, ignored);
    }
};

std::vector<std::string> child_arguments(const VerifyOptions& options, const fs::path& folder) {
    std::vector<std::string> arguments{"deepinfer",
                                       "verify",
                                       "--model",
                                       options.load.model.string(),
                                       "--child",
                                       "--folder",
                                       folder.string(),
                                       "--conversations",
                                       std::to_string(options.count),
                                       "--seed",
                                       std::to_string(options.conversations.seed),
                                       "--turns",
                                       std::to_string(options.conversations.turns)};
    const auto add = [&](const char* name, const std::string& value) {
        arguments.emplace_back(name);
        arguments.push_back(value);
    };
    if (options.load.threads > 0) add("--threads", std::to_string(options.load.threads));
    if (options.load.context > 0) add("--context", std::to_string(options.load.context));
    if (options.load.kv_memory_mib > 0) add("--kv-memory", std::to_string(options.load.kv_memory_mib));
    if (options.load.kv_type) add("--kv-type", to_string(*options.load.kv_type));
    if (!options.load.weight_file.empty()) add("--weight-file", options.load.weight_file.string());
    return arguments;
}

int verify(VerifyOptions options) {
    options.load.quiet = true;
    options.load.need_tokenizer = false;
    options.load.no_prefix_cache = true;
    auto loaded = load_model(options.load);
    if (!loaded) return fail(loaded.error());
    const auto restart = [&](bool cache, const fs::path& folder) {
        options.load.no_prefix_cache = !cache;
        options.load.stores.disk = !folder.empty();
        options.load.stores.folder = folder;
        return start_engine(*loaded, options.load);
    };
    if (options.child) {
        if (Status status = restart(true, options.folder); !status) return fail(status.error());
        print_for_parent(run("", *loaded->engine, options));
        return 0;
    }
    const fs::path parent = options.folder.empty() ? fs::temp_directory_path() : fs::path(options.folder);
    std::string pattern = (parent / "deepinfer-verify-XXXXXX").string();
    const char* made = ::mkdtemp(pattern.data());
    if (!made) return fail({ErrorCode::io_error, "cannot make a folder in " + parent.string()});
    const TemporaryFolder temporary{made};
    const fs::path &folder = temporary.path, shared = options.load.stores.shared_folder;
    const std::string redis = std::exchange(options.load.stores.redis_url, {});
    options.load.stores.shared_folder.clear();

    std::vector<Arm> arms;
    std::printf("%zu conversations with %s\n", options.count, loaded->name().c_str());
    const auto add = [&](const std::string& name, bool stored = false) {
        arms.push_back(run(name, *loaded->engine, options));
        arms.back().stored = stored;
        std::fprintf(stderr, "  %s: %.1f s\n", name.c_str(), arms.back().seconds);
    };
    add("no cache");
    if (Status status = restart(true, folder / "disk"); !status) return fail(status.error());
    add("cold");
    add("warm");
    if (Status status = restart(true, folder / "disk"); !status) return fail(status.error());
    add("restarted", true);
    loaded->engine.reset();
    loaded->blocks.reset();
    arms.push_back(run_child("second process", child_arguments(options, folder / "disk"), options));
    arms.back().stored = true;
    if (!shared.empty()) {
        options.load.stores.shared_folder = shared;
        if (Status status = restart(true, {}); !status) return fail(status.error());
        add("to shared");
        if (Status status = restart(true, {}); !status) return fail(status.error());
        add("from shared", true);
        options.load.stores.shared_folder.clear();
    }
    if (!redis.empty()) {
        options.load.stores.redis_url = redis;
        if (Status status = restart(true, {}); !status) return fail(status.error());
        add("to redis");
        if (Status status = restart(true, {}); !status) return fail(status.error());
        add("from redis", true);
    }
    return report(arms);
}

}  // namespace

void add_verify_command(CLI::App& app, ExitStatus& exit) {
    CLI::App* command = app.add_subcommand(
        "verify", "Check that answers are the same with and without every cache, on this machine and model");
    auto options = std::make_shared<VerifyOptions>();
    add_engine_options(*command, options->load);
    command->add_option("--conversations", options->count, "how many random conversations")
        ->capture_default_str()
        ->check(CLI::Range(1, 100'000));
    command->add_option("--turns", options->conversations.turns, "turns of each, at most")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    command->add_option("--seed", options->conversations.seed, "other conversations for each")
        ->check(unsigned_number());
    command->add_option("--folder", options->folder,
                        "where the disk store is made, and deleted again (the folder for temporary files)");
    command->add_option("--shared-cache-dir", options->load.stores.shared_folder,
                        "check this shared store, too; what is stored there stays");
    command
        ->add_option("--cache-url", options->load.stores.redis_url,
                     "and this Redis or Valkey server or cluster")
        ->check(redis_url());
    command->add_flag("--child", options->child)->group("");
    command->callback([options, &exit] { exit.code = verify(*options); });
}

}  // namespace deepinfer::cli
