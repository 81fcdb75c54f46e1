// deepinfer cache: what the disk store holds, whether it is intact, and getting rid of it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <map>

#include "base/memory_info.h"
#include "cli/commands.h"
#include "cli/load_model.h"
#include "cli/stores.h"
#include "store/folder_admin.h"

namespace deepinfer::cli {
namespace {

struct CacheOptions {
    StoreOptions stores;
    std::string model;  // the beginning of a fingerprint; empty: all
};

int fail(const Error& error) {
    std::fprintf(stderr, "deepinfer cache: %s\n", error.message.c_str());
    return 1;
}

Result<std::vector<store::SegmentInfo>> segments(const CacheOptions& options) {
    const std::filesystem::path folder = disk_store_folder(options.stores);
    if (folder.empty())
        return Error{ErrorCode::invalid_argument,
                     "there is no home folder: name the cache's with --cache-dir"};
    auto all = store::list_segments(folder);
    if (all)
        std::erase_if(*all,
                      [&](const auto& segment) { return !segment.fingerprint.starts_with(options.model); });
    return all;
}

std::string age(int64_t since) {
    const int64_t seconds = std::max<int64_t>(std::time(nullptr) - since, 0);
    if (seconds < 120) return std::to_string(seconds) + " s";
    if (seconds < 7200) return std::to_string(seconds / 60) + " min";
    if (seconds < 172'800) return std::to_string(seconds / 3600) + " h";
    return std::to_string(seconds / 86'400) + " d";
}

int list(const CacheOptions& options) {
    const auto all = segments(options);
    if (!all) return fail(all.error());
    std::printf("%-34s %-6s %8s %10s %10s %8s\n", "model", "class", "blocks", "bytes", "used ago", "state");
    for (const store::SegmentInfo& s : *all) {
        if (!s.problem.empty()) {
            std::printf("%s: %s\n", s.path.c_str(), s.problem.c_str());
            continue;
        }
        std::printf("%-34s %-6s %8llu %10s %10s %8s\n", s.fingerprint.c_str(),
                    std::string(kv::to_string(s.retention)).c_str(),
                    static_cast<unsigned long long>(s.blocks), format_bytes(s.bytes).c_str(),
                    age(s.last_used).c_str(),
                    s.sealed   ? "sealed"
                    : s.in_use ? "open"
                               : "left");
    }
    return 0;
}

int stat(const CacheOptions& options) {
    const auto all = segments(options);
    if (!all) return fail(all.error());
    struct Sum {
        uint64_t segments = 0, blocks = 0, bytes = 0;
        double seconds = 0;
    };
    std::map<std::pair<std::string, std::string>, Sum> sums;
    for (const store::SegmentInfo& s : *all) {
        Sum& sum = sums[{s.problem.empty() ? s.fingerprint : "(unreadable)",
                         std::string(kv::to_string(s.retention))}];
        ++sum.segments;
        sum.blocks += s.blocks;
        sum.bytes += s.bytes;
        sum.seconds += s.seconds;
    }
    std::printf("%s\n", disk_store_folder(options.stores).c_str());
    std::printf("%-34s %-6s %9s %9s %11s %11s %16s\n", "model", "class", "segments", "blocks", "tokens",
                "bytes", "seconds to redo");
    for (const auto& [name, sum] : sums)
        std::printf("%-34s %-6s %9llu %9llu %11llu %11s %16.0f\n", name.first.c_str(), name.second.c_str(),
                    static_cast<unsigned long long>(sum.segments),
                    static_cast<unsigned long long>(sum.blocks),
                    static_cast<unsigned long long>(sum.blocks * kv::block_tokens),
                    format_bytes(sum.bytes).c_str(), sum.seconds);
    return 0;
}

int verify(const CacheOptions& options) {
    const auto all = segments(options);
    if (!all) return fail(all.error());
    uint64_t intact = 0, damaged = 0, unreadable = 0;
    for (const store::SegmentInfo& s : *all) {
        const auto check = store::check_segment(s);
        if (!check) {
            std::printf("%s: %s\n", s.path.c_str(), check.error().message.c_str());
            ++unreadable;
            continue;
        }
        if (check->damaged > 0)
            std::printf("%s: %llu damaged blocks\n", s.path.c_str(),
                        static_cast<unsigned long long>(check->damaged));
        intact += check->intact;
        damaged += check->damaged;
    }
    std::printf("%llu blocks intact, %llu damaged (they are never used), %llu segments unreadable\n",
                static_cast<unsigned long long>(intact), static_cast<unsigned long long>(damaged),
                static_cast<unsigned long long>(unreadable));
    return damaged + unreadable > 0 ? 1 : 0;
}

// Everything, or what has expired.
int remove(const CacheOptions& options, bool everything) {
    const auto all = segments(options);
    if (!all) return fail(all.error());
    const int64_t now = std::time(nullptr);
    const store::Deleted deleted = store::delete_segments(*all, [&](const store::SegmentInfo& s) {
        return everything || s.last_used + kv::lifetime(s.retention).count() < now;
    });
    std::printf("%s deleted\n", format_bytes(deleted.bytes).c_str());
    if (deleted.in_use_bytes > 0)
        std::printf("%s left: a process is writing them\n", format_bytes(deleted.in_use_bytes).c_str());
    return deleted.failure.message.empty() ? 0 : fail(deleted.failure);
}

}  // namespace

void add_cache_command(CLI::App& app, ExitStatus& exit) {
    CLI::App* command =
        app.add_subcommand("cache", "Look at, check and empty the cache of computed prefixes on disk");
    command->require_subcommand(1);
    auto options = std::make_shared<CacheOptions>();
    const auto add = [&](const char* name, const char* help, auto run) {
        CLI::App* sub = command->add_subcommand(name, help);
        sub->add_option("--cache-dir", options->stores.folder,
                        "the folder (~/.cache/deepinfer/kv, or kv in DEEPINFER_CACHE)");
        sub->add_option("--model", options->model,
                        "only this model: the beginning of its name in `cache ls`");
        sub->callback([options, &exit, run] { exit.code = run(*options); });
    };
    add("ls",
        "List the segments: sealed, open (being written) or left (by a process that died; read all the same)",
        list);
    add("stat", "Sum up by model and class", stat);
    add("verify", "Read everything and compare all checksums; exit code 1 if anything is damaged", verify);
    add("gc", "Delete what has expired", [](const CacheOptions& o) { return remove(o, false); });
    add("clear", "Delete everything that no process is writing",
        [](const CacheOptions& o) { return remove(o, true); });
}

}  // namespace deepinfer::cli
