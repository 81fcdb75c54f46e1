#include "cli/stores.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <system_error>

#include "cli/cache_folder.h"
#include "cli/load_model.h"
#include "store/file_store.h"
#include "store/redis_store.h"

namespace deepinfer::cli {

namespace {

constexpr double gib = 1024.0 * 1024 * 1024;
constexpr double usual_disk_gib = 16;
constexpr double most_gib = 1 << 20;

uint64_t bytes(double of_gib) { return static_cast<uint64_t>(std::llround(of_gib * gib)); }

// Of a folder that may not be there yet.
double free_gib(std::filesystem::path folder) {
    std::error_code error;
    while (!std::filesystem::exists(folder, error) && folder.has_relative_path())
        folder = folder.parent_path();
    const auto space = std::filesystem::space(folder, error);
    return error ? usual_disk_gib : static_cast<double>(space.available) / gib;
}

}  // namespace

CLI::Validator redis_url() {
    return CLI::Validator(
        [](const std::string& text) {
            const auto address = store::parse_redis_url(text);
            return address ? std::string() : address.error().message;
        },
        "URL");
}

void add_store_options(CLI::App& command, StoreOptions& options) {
    options.disk = true;
    CLI::Option* no_disk = command.add_flag_callback(
        "--no-disk-cache", [&options] { options.disk = false; },
        "Keep computed prefixes in memory only: a restart forgets them");
    command
        .add_option("--cache-dir", options.folder,
                    "Folder for computed prefixes (~/.cache/deepinfer/kv, or kv in DEEPINFER_CACHE)")
        ->excludes(no_disk);
    command
        .add_option(
            "--cache-size", options.disk_gib,
            "GiB that it may have, all models together (16, or a quarter of the free space if that is less)")
        ->check(real_number(0.001, most_gib))
        ->excludes(no_disk);
    command
        .add_option("--cache-size-per-key", options.tenant_gib,
                    "GiB of each API key in each folder; its oldest blocks go first. 0: no limit")
        ->check(real_number(0, most_gib));
    command
        .add_option("--cache-url", options.redis_url,
                    "A Redis or Valkey server or cluster behind the folders, "
                    "redis://[[user]:password@]host[:port][,host[:port]]...[/database] or "
                    "unix:///path; blocks live as long as their class")
        ->check(redis_url());
    CLI::Option* shared =
        command.add_option("--shared-cache-dir", options.shared_folder,
                           "A folder on a file system that several machines use, behind the local one");
    command
        .add_option("--shared-cache-size", options.shared_gib, "GiB that it may have, all machines together")
        ->capture_default_str()
        ->check(real_number(0.001, most_gib))
        ->needs(shared);
}

Status check_stores(const StoreOptions& options) {
    if (options.tenant_gib > 0 && !options.disk && options.shared_folder.empty())
        return Error{
            ErrorCode::invalid_argument,
            "--cache-size-per-key limits what keys have in folders, and there is none: it goes with a "
            "disk cache or --shared-cache-dir"};
    const auto check = [](const char* option, const std::filesystem::path& folder) -> Status {
        if (folder.empty()) return {};
        std::error_code error;
        std::filesystem::create_directories(folder, error);
        if (!error && ::access(folder.c_str(), R_OK | W_OK | X_OK) != 0)
            error = {errno, std::generic_category()};
        if (!error) return {};
        return Error{ErrorCode::io_error, std::string(option) + ": " + folder.string() +
                                              " cannot be made or written to: " + error.message()};
    };
    if (Status status = check("--cache-dir", options.disk ? options.folder : ""); !status) return status;
    return check("--shared-cache-dir", options.shared_folder);
}

std::filesystem::path disk_store_folder(const StoreOptions& options) {
    return options.folder.empty() ? cache_folder("kv") : options.folder;
}

Result<engine::Stores> open_stores(const StoreOptions& options, const store::BlockShape& shape,
                                   const std::function<void(const std::string&)>& notice) {
    engine::Stores stores;
    store::FileStoreOptions file;
    file.shape = shape;
    file.tenant_bytes = bytes(options.tenant_gib);
    if (options.disk) {
        file.folder = disk_store_folder(options);
        file.budget_bytes =
            bytes(options.disk_gib.value_or(std::min(usual_disk_gib, free_gib(file.folder) / 4)));
        auto store = file.folder.empty()
                         ? Result<std::unique_ptr<store::BlockStore>>(Error{
                               ErrorCode::not_found, "there is no home folder to keep computed prefixes in"})
                         : store::open_file_store(file);
        if (store)
            stores.push_back(std::move(*store));
        else if (!options.folder.empty())
            return std::move(store).error();
        else
            notice(store.error().message +
                   ": they are kept in memory only (--cache-dir names another folder, --no-disk-cache is "
                   "quiet)");
    }
    if (!options.shared_folder.empty()) {
        file.folder = options.shared_folder;
        file.name = "shared";
        file.others_read = true;
        file.budget_bytes = bytes(options.shared_gib);
        auto store = store::open_file_store(file);
        if (!store) return std::move(store).error();
        stores.push_back(std::move(*store));
    }
    if (!options.redis_url.empty()) {
        auto address = store::parse_redis_url(options.redis_url);
        if (!address) return Error{address.error().code, "--cache-url: " + address.error().message};
        store::RedisStoreOptions redis;
        redis.address = std::move(*address);
        redis.shape = shape;
        auto store = store::open_redis_store(redis);
        if (!store) return std::move(store).error();
        stores.push_back(std::move(*store));
    }
    return stores;
}

}  // namespace deepinfer::cli
