#include "cli/cache_folder.h"

#include <cstdlib>

namespace deepinfer::cli {

std::filesystem::path cache_folder(const char* of_what) {
    const auto variable = [](const char* name) {
        const char* value = std::getenv(name);
        return std::filesystem::path(value ? value : "");
    };
    if (const auto folder = variable("DEEPINFER_CACHE"); !folder.empty()) return folder / of_what;
    if (const auto folder = variable("XDG_CACHE_HOME"); folder.is_absolute())
        return folder / "deepinfer" / of_what;
    if (const auto home = variable("HOME"); home.is_absolute())
        return home / ".cache" / "deepinfer" / of_what;
    return {};
}

}  // namespace deepinfer::cli
