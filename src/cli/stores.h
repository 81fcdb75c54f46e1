// The stores behind the prefix cache, as the command line names them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "base/result.h"
#include "engine/local_engine.h"
#include "store/block_store.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace deepinfer::cli {

struct StoreOptions {
    bool disk = false;
    std::filesystem::path folder;    // of the disk store; empty: the cache folder
    std::optional<double> disk_gib;  // its budget; absent: 16, or a quarter of what is free if that is less
    double tenant_gib = 0;           // of each API key in each folder; 0: no limit of its own
    std::filesystem::path shared_folder;  // on a file system that machines share; empty: none
    double shared_gib = 100;
    std::string redis_url;  // empty: none

    bool any() const { return disk || !shared_folder.empty() || !redis_url.empty(); }
};

CLI::Validator redis_url();  // of --cache-url
// Adds --cache-dir, --cache-size, ... to a command; the disk store is on unless --no-disk-cache.
void add_store_options(CLI::App& command, StoreOptions& options);
// The folder of the disk store; empty if it is to be in the cache folder and there is none.
std::filesystem::path disk_store_folder(const StoreOptions& options);
// Whether the options make sense together; makes the folders that were named. So that what cannot be is known before a model is
// loaded. Errors: io_error, invalid_argument.
Status check_stores(const StoreOptions& options);
// Nearest first. Errors: those of open_file_store(); what would be right is in the message. If the folder was not named and
// cannot be used, there is no disk store, and `notice` is told why.
Result<engine::Stores> open_stores(const StoreOptions& options, const store::BlockShape& shape,
                                   const std::function<void(const std::string&)>& notice);

}  // namespace deepinfer::cli
