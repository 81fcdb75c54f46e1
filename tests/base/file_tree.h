// A made-up file tree, for what reads /proc and /sys.
#pragma once

#include <fstream>
#include <string>

#include "support/folder.h"

namespace deepinfer::testing {

struct FileTree : Folder {
    void write(const std::string& file, const std::string& text) const {
        std::filesystem::create_directories((path / file).parent_path());
        std::ofstream(path / file) << text;
    }
};

}  // namespace deepinfer::testing
