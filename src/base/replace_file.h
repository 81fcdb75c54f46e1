// Small files that are rewritten as a whole: whoever reads sees the old text or the new one, never a part.
#pragma once

#include <filesystem>
#include <string_view>

namespace deepinfer {

// Makes the folder if it has to. False if it could not be written; then the old file is still there. Any thread, any process.
bool replace_file(const std::filesystem::path& path, std::string_view text);

}  // namespace deepinfer
