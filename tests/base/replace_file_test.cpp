// A file is replaced as a whole, however many do it at once.
#include "base/replace_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "support/folder.h"

namespace deepinfer {
namespace {

std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ReplaceFile, WritesReplacesAndLeavesNothingBeside) {
    const testing::Folder folder;
    const auto path = folder.path / "a" / "b.json";
    EXPECT_TRUE(replace_file(path, "old"));
    EXPECT_EQ(text_of(path), "old");
    EXPECT_TRUE(replace_file(path, ""));
    EXPECT_EQ(text_of(path), "");
    EXPECT_EQ(folder.files().size(), 1u);
}

TEST(ReplaceFile, AsReadableAsOtherNewFiles) {
    const testing::Folder folder;
    std::ofstream(folder.path / "other") << "x";
    ASSERT_TRUE(replace_file(folder.path / "file", "x"));
    struct stat file{}, other{};
    ASSERT_EQ(::stat((folder.path / "file").c_str(), &file), 0);
    ASSERT_EQ(::stat((folder.path / "other").c_str(), &other), 0);
    EXPECT_EQ(file.st_mode, other.st_mode);
}

TEST(ReplaceFile, FailsWhereItCannotWrite) {
    const testing::Folder folder;
    std::ofstream(folder.path / "file") << "x";
    EXPECT_FALSE(replace_file(folder.path / "file" / "below", "y"));
    std::filesystem::create_directories(folder.path / "folder" / "full");
    EXPECT_FALSE(replace_file(folder.path / "folder", "y")) << "a folder is there";
    EXPECT_EQ(folder.files().size(), 1u) << "nothing unfinished is left";
}

TEST(ReplaceFile, ThreadsDoNotDisturbOneAnother) {
    const testing::Folder folder;
    const auto path = folder.path / "file";
    std::atomic<int> failures = 0;
    std::vector<std::jthread> threads;
    for (char c = 'a'; c < 'e'; ++c)
        threads.emplace_back([&, text = std::string(100'000, c)] {
            for (int i = 0; i < 100; ++i) failures += !replace_file(path, text);
        });
    threads.clear();
    EXPECT_EQ(failures, 0);
    const std::string text = text_of(path);
    EXPECT_EQ(text, std::string(100'000, text.empty() ? '?' : text[0]));
    EXPECT_EQ(folder.files().size(), 1u);
}

}  // namespace
}  // namespace deepinfer
