// Several processes, or stores that stand for them, in one folder.
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <chrono>
#include <ctime>
#include <thread>

#include "base/file_descriptor.h"
#include "file_stores.h"

namespace deepinfer::store {
namespace {

// Another process on the same folder, at the same time.
TEST(FileStore, WhatAnotherProcessWritesIsReadWhileItWrites) {
    const Folder folder;
    const FileStoreOptions options = options_for(folder);
    const TestBlocks blocks(options.shape, 1, 100);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        auto store = open_file_store(options);
        if (!store) ::_exit(1);
        for (size_t i = 0; i < 100; i += 4) {
            auto puts = blocks.puts(i, 4);
            (*store)->put(puts, soon());
            std::this_thread::sleep_for(std::chrono::milliseconds(60));
        }
        store->reset();
        ::_exit(0);
    }
    const auto store = open(options);
    size_t found = 0, growths = 0;
    for (int tries = 0; found < 100 && tries < 300; ++tries) {
        const size_t now = store->find(blocks.keys, soon());
        EXPECT_GE(now, found);
        growths += now > found;
        found = now;
        EXPECT_EQ(readable(*store, blocks, 0, found), found);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    EXPECT_EQ(found, 100u);
    EXPECT_GT(growths, 1u);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

TEST(FileStore, BlocksOfALivingWriterAreNotTakenOver) {
    const Folder folder;
    const FileStoreOptions options = options_for(folder);
    const TestBlocks blocks(options.shape, 1, 6);
    const auto writer = open(options);
    stored(*writer, blocks.puts(0, 3));
    const auto reader = open(options);
    EXPECT_EQ(readable(*reader, blocks, 0, 3), 3u);
    EXPECT_EQ(stored(*writer, blocks.puts(3, 3)), 3u);
    EXPECT_EQ(folder.files().size(), 1u);  // the same one still
    EXPECT_EQ(readable(*writer, blocks, 0, 6), 6u);
}

// What another process still writes does not expire, and what is used there lives on.
TEST(FileStore, ASegmentInUseDoesNotExpire) {
    const Folder folder;
    FileStoreOptions options = options_for(folder);
    int64_t moved = 0;
    options.now = [&moved] { return std::time(nullptr) + moved; };
    const TestBlocks blocks(options.shape, 1, 5);
    auto writer = open(options);
    stored(*writer, blocks.puts(0, 5));
    moved = 8 * 86'400;
    EXPECT_EQ(open(options)->find(blocks.keys, soon()), 5u);
    EXPECT_EQ(folder.files().size(), 1u);
    writer->touch(blocks.keys, soon());
    writer.reset();
    moved = 12 * 86'400;
    EXPECT_EQ(open(options)->find(blocks.keys, soon()), 5u);
    moved = 20 * 86'400;
    EXPECT_EQ(open(options)->find(blocks.keys, soon()), 0u);
    EXPECT_TRUE(folder.files().empty());
}

// Somebody looks at a new file before its writer has locked it.
TEST(FileStore, ANewFileThatIsTakenOverIsGivenUp) {
    class Thief final : public FileIo {
      public:
        explicit Thief(bool deletes) : deletes_(deletes) {}
        int open(const char* path, int flags, mode_t mode) override {
            const int descriptor = FileIo::open(path, flags, mode);
            if ((flags & O_CREAT) == 0 || left_-- <= 0) return descriptor;
            if (deletes_) {
                ::unlink(path);
            } else {
                thief_ = FileDescriptor(::open(path, O_RDWR | O_CLOEXEC));
                ::flock(thief_.get(), LOCK_EX);
            }
            return descriptor;
        }

      private:
        const bool deletes_;
        int left_ = 2;
        FileDescriptor thief_{-1};
    };
    for (const bool deletes : {true, false}) {
        const Folder folder;
        FileStoreOptions options = options_for(folder);
        options.io = std::make_shared<Thief>(deletes);
        const TestBlocks blocks(options.shape, 1, 5);
        auto store = open(options);
        EXPECT_EQ(stored(*store, blocks.puts(0, 5)), 5u);
        EXPECT_EQ(folder.files().size(), 1u);
        options.io = nullptr;
        EXPECT_EQ(readable(*open(options), blocks, 0, 5), 5u);
        store.reset();
        EXPECT_EQ(readable(*open(options), blocks, 0, 5), 5u);
    }
}

// Files that may be read and not written to are read, also while they are written.
TEST(FileStore, FilesOfAnotherUserAreRead) {
    class Stranger final : public FileIo {
        int open(const char* path, int flags, mode_t mode) override {
            if ((flags & O_ACCMODE) == O_RDONLY || (flags & O_CREAT)) return FileIo::open(path, flags, mode);
            errno = EACCES;
            return -1;
        }
    };
    const Folder folder;
    FileStoreOptions options = options_for(folder);
    const TestBlocks blocks(options.shape, 1, 5);
    auto writer = open(options);
    stored(*writer, blocks.puts(0, 3));
    options.io = std::make_shared<Stranger>();
    const auto reader = open(options);
    EXPECT_EQ(readable(*reader, blocks, 0, 3), 3u);
    stored(*writer, blocks.puts(3, 2));
    writer.reset();
    EXPECT_EQ(readable(*open(options), blocks, 0, 5), 5u);
}

// A folder with many segments on a slow file system: a look-up takes what time it has, and the next one goes on.
TEST(FileStore, LookingAtTheFolderEndsInTime) {
    const Folder folder;
    FileStoreOptions options = options_for(folder);
    const auto reader = open(options);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // the folder is looked at once a second
    const TestBlocks blocks(options.shape, 1, 90);
    EXPECT_EQ(stored(*open(options), blocks.puts(0, 90)), 90u);
    EXPECT_EQ(folder.files().size(), 10u);
    size_t found = 0, calls = 0;
    while (found < 90 && calls < 20) {
        const size_t now = reader->find(blocks.keys, Clock::now());
        EXPECT_LE(now, found + 9);
        found = now, ++calls;
    }
    EXPECT_EQ(found, 90u);
    EXPECT_GE(calls, 10u);
}

TEST(FileStore, ASegmentDeletedByAnotherIsAMiss) {
    const Folder folder;
    const FileStoreOptions options = options_for(folder);
    const TestBlocks blocks(options.shape, 1, 6);
    stored(*open(options), blocks.puts(0, 6));
    const auto store = open(options);
    EXPECT_EQ(readable(*store, blocks, 0, 2), 2u);
    fs::remove(folder.files().at(0));
    const auto outcomes = get(*store, blocks, 0, 6);
    EXPECT_EQ(outcomes[0], Get::Outcome::missing);
    EXPECT_EQ(store->find(blocks.keys, soon()), 0u);
    EXPECT_EQ(stored(*store, blocks.puts(0, 6)), 6u);
}

}  // namespace
}  // namespace deepinfer::store
