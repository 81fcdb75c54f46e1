// Where the program keeps what it can make again.
#pragma once

#include <filesystem>

namespace deepinfer::cli {

// A folder of it: DEEPINFER_CACHE, else $XDG_CACHE_HOME/deepinfer, else ~/.cache/deepinfer; the script that downloads models
// keeps its files there, too. Empty if there is no home.
std::filesystem::path cache_folder(const char* of_what);

}  // namespace deepinfer::cli
