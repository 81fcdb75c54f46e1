#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public testing::Test {
  protected:
    MappedFileTest()
        : folder_(fs::path(testing::TempDir()) / ("mapped_file_test." + std::to_string(::getpid()))) {
        fs::create_directories(folder_);
    }
    ~MappedFileTest() override { fs::remove_all(folder_); }

    fs::path write(const std::string& name, const std::string& text) {
        std::ofstream(folder_ / name, std::ios::binary) << text;
        return folder_ / name;
    }
    static std::string text(const MappedFile& file) {
        return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
    }

    fs::path folder_;
};

TEST_F(MappedFileTest, ShowsTheBytesAndSurvivesMoving) {
    Result<MappedFile> opened = MappedFile::open(write("a", "hello"));
    ASSERT_TRUE(opened) << opened.error().message;
    MappedFile moved = std::move(*opened);
    EXPECT_EQ(text(moved), "hello");
    MappedFile assigned;
    assigned = std::move(moved);
    EXPECT_EQ(text(assigned), "hello");
    EXPECT_TRUE(moved.bytes().empty());  // NOLINT(bugprone-use-after-move): moved-from is empty
}

TEST_F(MappedFileTest, EmptyFileIsEmpty) {
    const Result<MappedFile> opened = MappedFile::open(write("empty", ""));
    ASSERT_TRUE(opened);
    EXPECT_TRUE(opened->bytes().empty());
}

TEST_F(MappedFileTest, ErrorsSayWhatIsWrong) {
    const Result<MappedFile> absent = MappedFile::open(folder_ / "absent");
    ASSERT_FALSE(absent);
    EXPECT_EQ(absent.error().code, ErrorCode::not_found);
    EXPECT_EQ(absent.error().message,
              "cannot open " + (folder_ / "absent").string() + ": No such file or directory");

    const Result<MappedFile> folder = MappedFile::open(folder_);
    ASSERT_FALSE(folder);
    EXPECT_EQ(folder.error().code, ErrorCode::invalid_argument);

    ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    const Result<MappedFile> pipe = MappedFile::open(folder_ / "pipe");
    ASSERT_FALSE(pipe);
    EXPECT_EQ(pipe.error().code, ErrorCode::invalid_argument);
}

// Resident bytes of the mapping that starts at `address`, from the system's own account.
long resident_bytes(const void* address) {
    std::ifstream smaps("/proc/self/smaps");
    char start[32];
    std::snprintf(start, sizeof start, "%lx-", reinterpret_cast<unsigned long>(address));
    bool inside = false;
    for (std::string line; std::getline(smaps, line);) {
        if (line.starts_with(start)) inside = true;
        if (inside && line.starts_with("Rss:")) return std::stol(line.substr(4)) * 1024;
    }
    return -1;
}

TEST_F(MappedFileTest, ReleasedPagesLeaveTheProcess) {
    const Result<MappedFile> opened = MappedFile::open(write("large", std::string(1 << 20, 'x')));
    ASSERT_TRUE(opened);
    const auto all = opened->bytes();
    EXPECT_EQ(text(*opened), std::string(1 << 20, 'x'));  // touches every page
    EXPECT_EQ(resident_bytes(all.data()), 1 << 20);
    opened->release_pages(all.subspan(100, 512 * 1024));  // 127 whole pages of 4 KiB
    EXPECT_NEAR(static_cast<double>(resident_bytes(all.data())), 512 * 1024, 64 * 1024);
    opened->release_pages(all);
    EXPECT_EQ(resident_bytes(all.data()), 0);
}

TEST_F(MappedFileTest, ReleasedPagesReadTheSame) {
    std::string content;
    for (int i = 0; i < 50000; ++i) content += std::to_string(i);
    const Result<MappedFile> opened = MappedFile::open(write("large", content));
    ASSERT_TRUE(opened);
    const auto all = opened->bytes();
    EXPECT_EQ(text(*opened), content);
    opened->release_pages(all);
    opened->release_pages(all.subspan(5000, 9000));
    opened->release_pages(all.subspan(3, 4));
    opened->release_pages({});
    const std::string elsewhere = "not part of the file";
    opened->release_pages(std::as_bytes(std::span(elsewhere)));
    EXPECT_EQ(text(*opened), content);
    EXPECT_EQ(elsewhere, "not part of the file");
}

}  // namespace
}  // namespace deepinfer
