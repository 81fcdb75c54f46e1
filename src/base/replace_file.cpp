#include "base/replace_file.h"

#include <unistd.h>

#include <fstream>
#include <string>

namespace deepinfer {

bool replace_file(const std::filesystem::path& path, std::string_view text) {
    std::error_code error, ignored;
    std::filesystem::create_directories(path.parent_path(), error);  // if that failed, writing says so
    const std::filesystem::path unfinished = path.string() + "." + std::to_string(::getpid());
    std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (file) std::filesystem::rename(unfinished, path, error);
    if (file && !error) return true;
    std::filesystem::remove(unfinished, ignored);
    return false;
}

}  // namespace deepinfer
