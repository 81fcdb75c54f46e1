// A folder for one test, which goes with it.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace deepinfer::testing {

struct Folder {
    Folder() {
        char name[] = "/tmp/deepinfer_test_XXXXXX";
        path = ::mkdtemp(name);
    }
    ~Folder() { std::filesystem::remove_all(path); }
    Folder(const Folder&) = delete;
    std::vector<std::filesystem::path> files() const {
        std::vector<std::filesystem::path> result;
        for (const auto& file : std::filesystem::recursive_directory_iterator(path))
            if (file.is_regular_file()) result.push_back(file.path());
        std::ranges::sort(result);
        return result;
    }
    std::filesystem::path path;
};

}  // namespace deepinfer::testing
