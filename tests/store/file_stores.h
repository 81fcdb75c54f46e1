// Folders with small segments, for tests of the store that keeps blocks in files.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "conformance.h"
#include "store/file_store.h"
#include "support/folder.h"

namespace deepinfer::store {

namespace fs = std::filesystem;
using deepinfer::testing::Folder;

inline FileStoreOptions options_for(const Folder& folder) {
    FileStoreOptions options;
    options.folder = folder.path;
    options.shape = test_shape();
    options.segment_bytes = 200'000;  // nine records
    options.sync = false;
    return options;
}
inline std::unique_ptr<BlockStore> open(const FileStoreOptions& options) {
    auto store = open_file_store(options);
    EXPECT_TRUE(store.ok());
    return store ? std::move(*store) : nullptr;
}

}  // namespace deepinfer::store
