#include "store/file_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <ctime>
#include <fstream>

#include "faulty_io.h"
#include "file_stores.h"
#include "store/segment.h"

namespace deepinfer::store {
namespace {

namespace fs = std::filesystem;

class FileStoreFixture {
  public:
    FileStoreFixture() {
        options_ = options_for(folder_);
        options_.now = [this] { return std::time(nullptr) + moved_; };
        store_ = open(options_);
    }
    BlockStore& store() { return *store_; }
    std::unique_ptr<BlockStore> another() { return open(options_); }
    void reopen() {
        store_.reset();
        store_ = open(options_);
    }
    bool move_clock(std::chrono::seconds by) {
        moved_ += by.count();
        return true;
    }

  private:
    Folder folder_;
    FileStoreOptions options_;
    int64_t moved_ = 0;
    std::unique_ptr<BlockStore> store_;
};
// Files of the folder may have so many bytes together.
class FullDisk final : public FileIo {
  public:
    FullDisk(const Folder& folder, uint64_t bytes) : folder_(folder), bytes_(bytes) {}
    void fill() { bytes_ = 0; }
    ssize_t pwritev(int descriptor, const iovec* parts, int count, int64_t offset) override {
        uint64_t there = 0;
        for (const fs::path& file : folder_.files()) there += fs::file_size(file);
        for (int i = 0; i < count; ++i) there += parts[i].iov_len;
        if (there <= bytes_) return FileIo::pwritev(descriptor, parts, count, offset);
        errno = ENOSPC;
        return -1;
    }

  private:
    const Folder& folder_;
    uint64_t bytes_;
};
INSTANTIATE_TYPED_TEST_SUITE_P(File, BlockStoreConformance, FileStoreFixture);

TEST(FileStore, AnotherModelFindsNothing) {
    const Folder folder;
    FileStoreOptions options = options_for(folder);
    const TestBlocks blocks(options.shape, 1, 5);
    stored(*open(options), blocks.puts(0, 5));
    options.shape = test_shape(2);
    EXPECT_EQ(open(options)->find(blocks.keys, soon()), 0u);
    // Even if its file is put into the other's folder.
    const fs::path file = folder.files().at(0);
    fs::copy(file, folder.path / options.shape.fingerprint.hex() / file.filename());
    EXPECT_EQ(open(options)->find(blocks.keys, soon()), 0u);
}

TEST(FileStore, EvictsTheLeastWorthAndNeverMoreThanTheBudget) {
    const Folder folder;
    FileStoreOptions options = options_for(folder);
    options.budget_bytes = 1'000'000;
    int64_t now = std::time(nullptr);
    options.now = [&now] { return now; };
    const auto store = open(options);
    std::vector<TestBlocks> sequences;
    for (uint32_t s = 0; s < 20; ++s) {
        now += 60;
        sequences.emplace_back(options.shape, s, 4);
        // The third is dear to compute, and used; all others are cheap.
        EXPECT_EQ(stored(*store, sequences.back().puts(0, 4, kv::Retention::chat, 0, s == 2 ? 100 : 1)), 4u);
        uint64_t there = 0;
        for (const fs::path& file : folder.files()) there += fs::file_size(file);
        EXPECT_LE(there, options.budget_bytes);
    }
    EXPECT_GT(store->stats().evicted_total, 20u);
    EXPECT_LE(store->stats().bytes, options.budget_bytes);
    EXPECT_EQ(store->find(sequences[2].keys, soon()), 4u);
    EXPECT_EQ(store->find(sequences[0].keys, soon()), 0u);
    EXPECT_EQ(store->find(sequences[4].keys, soon()), 0u);
    EXPECT_EQ(store->find(sequences[19].keys, soon()), 4u);
    for (const TestBlocks& blocks : sequences) {  // what it says is there, is
        const size_t found = store->find(blocks.keys, soon());
        EXPECT_EQ(readable(*store, blocks, 0, 4), found);
    }
}

// The best of a segment that has to go is kept also where nothing of its class has been written since the start.
TEST(FileStore, TheBestOfAnEvictedSegmentIsKept) {
    const Folder folder;
    FileStoreOptions options = options_for(folder);
    const TestBlocks cheap(options.shape, 1, 8), dear(options.shape, 2, 1), more(options.shape, 3, 60);
    auto store = open(options);
    stored(*store, cheap.puts(0, 8, kv::Retention::chat, 0, 1e-3f));
    stored(*store, dear.puts(0, 1, kv::Retention::chat, 0, 500));
    store.reset();
    options.budget_bytes = 1'000'000;
    store = open(options);
    stored(*store, more.puts(0, 60, kv::Retention::agent, 0, 100));
    EXPECT_EQ(store->find(dear.keys, soon()), 1u);
    EXPECT_EQ(store->find(cheap.keys, soon()), 0u);
    EXPECT_EQ(store->stats().blocks.value() + store->stats().evicted_total, 69u);
}

// A file of a version that this one cannot read: it counts, goes before what can be read does, and with its time.
TEST(FileStore, UnreadableFilesCount) {
    const Folder folder;
    FileStoreOptions options = options_for(folder);
    options.budget_bytes = 1'000'000;
    int64_t moved = 0;
    options.now = [&moved] { return std::time(nullptr) + moved; };
    const TestBlocks blocks(options.shape, 1, 9);
    stored(*open(options), blocks.puts(0, 9));
    const fs::path unreadable = folder.files().at(0).parent_path() / "chat-of_another_version-0.segment";
    const auto leave = [&] { std::ofstream(unreadable) << std::string(700'000, 'x'); };
    leave();
    {
        const auto store = open(options);
        EXPECT_GT(store->stats().bytes, 850'000u);
        const TestBlocks more(options.shape, 2, 9);
        moved = 120;
        store->touch(blocks.keys, soon());
        EXPECT_EQ(stored(*store, more.puts(0, 9)), 9u);
        EXPECT_FALSE(fs::exists(unreadable));
        EXPECT_EQ(store->find(blocks.keys, soon()), 9u);
    }
    leave();
    moved = 8 * 86'400;
    open(options);
    EXPECT_FALSE(fs::exists(unreadable));
}

// What others fill the disk with is not ours to delete: the newest blocks are kept for the oldest.
TEST(FileStore, OnAFullDiskTheOldestGo) {
    const Folder folder;
    FileStoreOptions options = options_for(folder);
    const auto disk = std::make_shared<FullDisk>(folder, 500'000);
    options.io = disk;
    int64_t moved = 0;
    options.now = [&moved] { return std::time(nullptr) + moved; };
    const auto store = open(options);
    const TestBlocks old(options.shape, 1, 18), recent(options.shape, 2, 9);
    EXPECT_EQ(stored(*store, old.puts(0, 18)), 18u);
    moved = 3600;
    EXPECT_EQ(stored(*store, recent.puts(0, 9)), 9u);
    EXPECT_EQ(store->find(recent.keys, soon()), 9u);
    EXPECT_EQ(readable(*store, recent, 0, 9), 9u);
    // Nothing helps: a minute passes before more of our files are given up for it.
    disk->fill();
    const TestBlocks more(options.shape, 3, 9);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(stored(*store, more.puts(0, 9)), 0u);
    EXPECT_GE(store->stats().evicted_total, 9u);
    EXPECT_LE(store->stats().evicted_total, 18u);
    EXPECT_EQ(store->stats().problem, "No space left on device");
}

TEST(FileStore, ATenantHasItsShareOnly) {
    const Folder folder;
    FileStoreOptions options = options_for(folder);
    options.tenant_bytes = 5 * static_cast<uint64_t>(record_stride(options.shape));
    const auto store = open(options);
    const TestBlocks mine(options.shape, 1, 10), theirs(options.shape, 2, 4);
    EXPECT_EQ(stored(*store, theirs.puts(0, 4, kv::Retention::chat, 7)), 4u);
    EXPECT_EQ(stored(*store, mine.puts(0, 10, kv::Retention::chat, 8)), 10u);
    EXPECT_EQ(store->find(theirs.keys, soon()), 4u);
    EXPECT_EQ(store->find(mine.keys, soon()), 0u);  // the oldest went, which is its beginning
    EXPECT_EQ(store->find(std::span(mine.keys).subspan(5), soon()), 5u);
    const auto again = open(options);
    EXPECT_EQ(again->stats().blocks, 9u) << "the share is kept after a restart, too";
    EXPECT_EQ(again->find(std::span(mine.keys).subspan(5), soon()), 5u);
}

TEST(FileStore, FoldersThatCannotBeUsedAreErrors) {
    const Folder folder;
    FileStoreOptions options = options_for(folder);
    options.folder = folder.path / "file" / "below";
    std::ofstream(folder.path / "file") << "x";
    const auto store = open_file_store(options);
    ASSERT_FALSE(store.ok());
    EXPECT_EQ(store.error().code, ErrorCode::io_error);
    EXPECT_NE(store.error().message.find("below"), std::string::npos) << store.error().message;
}

// A file of no bytes, cut-off files, files of something else: misses, and what is whole is found.
TEST(FileStore, FilesThatAreNotWhole) {
    const TestBlocks blocks(test_shape(), 1, 9);
    const int64_t whole = record_offset(test_shape(), 9);
    for (const int64_t bytes : {int64_t{0}, int64_t{100}, page_bytes, record_offset(test_shape(), 1) - 1,
                                record_offset(test_shape(), 5) + 10, whole - 1, whole, whole + 5}) {
        const Folder folder;
        const FileStoreOptions options = options_for(folder);
        stored(*open(options), blocks.puts(0, 9));
        const fs::path file = folder.files().at(0);
        fs::resize_file(file, static_cast<uintmax_t>(bytes));
        const auto store = open(options);
        const auto expected = static_cast<size_t>(
            std::clamp<int64_t>((bytes - page_bytes) / record_stride(test_shape()), 0, 9));
        EXPECT_EQ(store->find(blocks.keys, soon()), expected) << bytes;
        EXPECT_EQ(readable(*store, blocks, 0, 9), expected) << bytes;
        EXPECT_EQ(stored(*store, blocks.puts(0, 9)), 9 - expected) << bytes;
        EXPECT_EQ(readable(*store, blocks, 0, 9), 9u) << bytes;
        EXPECT_EQ(fs::exists(file), expected > 0) << bytes;  // nothing is leaked
    }
}

// One bit, anywhere that is not padding.
TEST(FileStore, AFlippedBitIsAMiss) {
    const Folder folder;
    const FileStoreOptions options = options_for(folder);
    const TestBlocks blocks(test_shape(), 1, 4);
    stored(*open(options), blocks.puts(0, 4));
    const fs::path file = folder.files().at(0);
    std::ifstream in(file, std::ios::binary);
    const std::string good((std::istreambuf_iterator<char>(in)), {});
    std::vector<size_t> places;
    for (size_t i = 0; i < 48; i += 3) places.push_back(i);  // the segment's header
    for (size_t i = 0; i < record_header_bytes(test_shape()); i += 2)
        places.push_back(page_bytes + i);  // a record's
    for (size_t i = 0; i < test_shape().block_bytes; i += 997)
        places.push_back(2 * page_bytes + i);  // its bytes
    const auto index = static_cast<size_t>(record_offset(test_shape(), 4));
    for (size_t i = 0; i < 4 * 56; i += 3) places.push_back(index + i / 56 * 64 + i % 56);
    for (size_t i = 0; i < 40; ++i) places.push_back(good.size() - page_bytes + i);
    std::mt19937 random(5);
    for (const size_t at : places) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
        std::ofstream(file, std::ios::binary | std::ios::trunc) << bad;
        const auto store = open(options);
        const auto outcomes = get(*store, blocks, 0, 4);  // checks the bytes of those that are ok
        const bool record =
            at >= page_bytes && at < page_bytes + static_cast<size_t>(record_stride(test_shape()));
        if (record) {
            EXPECT_EQ(outcomes[0], Get::Outcome::damaged) << at;
            EXPECT_EQ(store->find(blocks.keys, soon()), 0u) << at;
        }
        // Damage to the index or its trailer costs nothing: the records are walked.
        if (at >= index) {
            EXPECT_EQ(std::ranges::count(outcomes, Get::Outcome::ok), 4) << at;
        }
    }
}

// Every call fails once, in every way. What put() called stored is readable now and later; nothing else is wrong.
// K09: what could not be written is never found.
TEST(FileStore, AnyCallMayFail) {
    const TestBlocks blocks(test_shape(), 1, 24);
    for (const bool cached : {true, false})
        for (const Fault fault : all_errors) {
            int triggered = 0;
            for (int at = 0;; ++at) {
                const Folder folder;
                FileStoreOptions options = options_for(folder);
                options.sync = true;
                options.budget_bytes = 600'000;
                const auto io = std::make_shared<FaultyIo>();
                options.io = io;
                io->set_cached(cached);
                io->arm(fault, at);
                auto opened = open_file_store(options);
                ASSERT_TRUE(opened.ok());
                std::vector<size_t> there;
                for (size_t i = 0; i < 24; i += 3) {
                    const auto outcomes = put(**opened, blocks.puts(i, 3));
                    for (size_t k = 0; k < 3; ++k) {
                        if (outcomes[k] == Put::Outcome::stored) {
                            there.push_back(i + k);
                        } else {
                            EXPECT_EQ((*opened)->find({&blocks.keys[i + k], 1}, soon()), 0u);
                        }
                    }
                    get(**opened, blocks, i, 3);  // right or not at all
                }
                const bool reached = io->calls() > at, evicted = (*opened)->stats().evicted_total > 0;
                opened->reset();
                const bool at_end = !reached && io->calls() <= at;
                options.io = nullptr;
                const auto again = open(options);
                size_t readable_again = 0;
                for (const size_t i : there) readable_again += readable(*again, blocks, i, 1);
                // One block may be lost to a fault in reading, or to a bit flipped on the way to the disk; a segment, here of
                // three, to a fault at its end.
                if (!evicted && fault != Fault::flipped_bit) {
                    EXPECT_GE(readable_again + 3, there.size()) << at;
                }
                if (at_end) break;
                ++triggered;
                ASSERT_LT(at, 1000);
            }
            EXPECT_GT(triggered, 12);
        }
}

// Blocks that lie as the disk wants them, into memory that does, with and without what the page cache has; every call fails once.
TEST(FileStore, ReadsStraightFromTheDisk) {
    const Folder folder;
    FileStoreOptions options = options_for(folder);
    options.shape = test_shape(1, 3, 8192);
    options.segment_bytes = 1'000'000;
    const size_t size = options.shape.block_bytes;
    const TestBlocks blocks(options.shape, 1, 6);
    EXPECT_EQ(stored(*open(options), blocks.puts(0, 6)), 6u);
    const auto io = std::make_shared<FaultyIo>();
    options.io = io;
    const auto store = open(options);
    const std::unique_ptr<uint8_t, decltype(&std::free)> memory(
        static_cast<uint8_t*>(std::aligned_alloc(4096, 6 * size)), &std::free);
    const auto read = [&] {
        std::vector<Get> items;
        for (size_t i = 0; i < 6; ++i)
            items.push_back({blocks.keys[i], blocks.tokens_of(i), {memory.get() + i * size, size}});
        store->get(items, soon());
        size_t good = 0;
        while (good < 6 && items[good].outcome == Get::Outcome::ok) {
            EXPECT_TRUE(std::ranges::equal(items[good].bytes, blocks.bytes[good]));
            ++good;
        }
        return good;
    };
    EXPECT_EQ(read(), 6u);
    EXPECT_EQ(io->direct_reads(), 0);  // all is in memory
    io->set_cached(false);
    EXPECT_EQ(read(), 6u);
    EXPECT_EQ(io->direct_reads(), 1);
    // Calls: open, in_memory, then preadv; or set_direct and preadv.
    for (const bool cached : {true, false})
        for (const Fault fault : {Fault::error, Fault::invalid, Fault::half})
            for (int at = 0; at < 4; ++at) {
                io->set_cached(cached);
                io->arm(fault, at);
                const bool opens = at > 0 || fault == Fault::half;
                const bool reads = at != (cached ? 2 : 3) || fault == Fault::half ||
                                   (!cached && fault == Fault::invalid);  // then without O_DIRECT
                EXPECT_EQ(read(), opens && reads ? 6u : 0u)
                    << cached << ' ' << static_cast<int>(fault) << ' ' << at;
            }
}

// Segments that fill, and are made durable, within one call: what could not be is not said to be stored.
TEST(FileStore, WhatIsSaidToBeStoredIsThereThoughACallFailedMidway) {
    const TestBlocks blocks(test_shape(), 1, 24);
    int failed = 0;
    for (int at = 0; at < 60; ++at) {
        const Folder folder;
        FileStoreOptions options = options_for(folder);
        options.sync = true;
        const auto io = std::make_shared<FaultyIo>();
        options.io = io;
        auto store = open(options);
        io->arm(Fault::error, at);
        const auto outcomes = put(*store, blocks.puts(0, 24));
        store.reset();
        options.io = nullptr;
        const auto again = open(options);
        for (size_t i = 0; i < 24; ++i) {
            failed += outcomes[i] == Put::Outcome::failed;
            if (outcomes[i] == Put::Outcome::stored) {
                EXPECT_EQ(readable(*again, blocks, i, 1), 1u) << "call " << at << ", block " << i;
            }
        }
    }
    EXPECT_GT(failed, 24);
}

// A process dies at a point of its work, again and again in the same folder. Afterwards every block that is found is right,
// all that it had been told is stored is found, and at most one segment is left behind that nobody can find.
TEST(FileStore, KilledAtAnyPoint) {
    const int rounds = std::getenv("DEEPINFER_FULL_TESTS") ? 5000 : 200;
    std::mt19937 random(1);
    int died = 0, repaired = 0;
    for (int round = 0; round < rounds; ++round) {
        const Folder folder;
        FileStoreOptions options = options_for(folder);
        options.sync = random() % 2;
        options.segment_bytes = 60'000 + static_cast<int64_t>(random() % 400'000);
        options.budget_bytes = random() % 3 ? 100'000'000 : 700'000;
        const auto sequences = static_cast<uint32_t>(1 + random() % 4);
        const Fault fault = all_deaths[random() % all_deaths.size()];
        const auto at = static_cast<int>(random() % 60);
        const auto step = static_cast<size_t>(1 + random() % 5);
        int told[2];  // what the child was told is stored
        ASSERT_EQ(::pipe(told), 0);
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            const auto io = std::make_shared<FaultyIo>();
            options.io = io;
            io->arm(fault, at);
            auto store = open_file_store(options);
            if (!store) ::_exit(1);
            for (uint32_t s = 0; s < sequences; ++s) {
                const TestBlocks blocks(options.shape, s, 12);
                for (size_t i = 0; i < 12; i += step) {
                    auto puts = blocks.puts(i, std::min(step, 12 - i),
                                            s % 2 ? kv::Retention::agent : kv::Retention::chat);
                    (*store)->put(puts, soon());
                    for (size_t k = 0; k < puts.size(); ++k) {
                        const uint32_t message[2] = {s, static_cast<uint32_t>(i + k)};
                        if (puts[k].outcome == Put::Outcome::stored &&
                            ::write(told[1], message, sizeof message) < 0)
                            ::_exit(2);
                    }
                }
            }
            store->reset();
            ::_exit(0);
        }
        ::close(told[1]);
        int status = 0;
        ::waitpid(child, &status, 0);
        ASSERT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9)) << status;
        died += WEXITSTATUS(status) == 9;
        const auto store = open(options);
        uint32_t message[2];
        size_t stored_blocks = 0;
        std::vector<TestBlocks> made;
        for (uint32_t s = 0; s < sequences; ++s) made.emplace_back(options.shape, s, 12);
        while (::read(told[0], message, sizeof message) == sizeof message) {
            ++stored_blocks;
            if (options.budget_bytes > 1'000'000) {
                EXPECT_EQ(readable(*store, made[message[0]], message[1], 1), 1u) << "round " << round;
            }
        }
        ::close(told[0]);
        for (const TestBlocks& blocks : made)
            for (size_t i = 0; i < 12; ++i) {
                const size_t found = store->find({&blocks.keys[i], 1}, soon());
                EXPECT_EQ(readable(*store, blocks, i, 1), found) << "round " << round;
            }
        repaired += stored_blocks > 0 && WEXITSTATUS(status) == 9;
        // Everything in the folder is known, so that it can be evicted.
        uint64_t bytes = 0;
        for (const fs::path& file : folder.files()) bytes += fs::file_size(file);
        EXPECT_EQ(store->stats().bytes, bytes) << "round " << round;
        // And it goes on working.
        const TestBlocks more(options.shape, 99, 3);
        EXPECT_EQ(stored(*store, more.puts(0, 3)), 3u);
        EXPECT_EQ(readable(*store, more, 0, 3), 3u);
    }
    std::printf("%d rounds: %d processes died, %d of them with blocks stored\n", rounds, died, repaired);
    EXPECT_GT(died, rounds / 3);
}

// Files, or the folder with them, go while a process writes: it begins new ones, and what it says is there is there.
TEST(FileStore, TheFolderMayBeDeletedAtAnyTime) {
    for (const bool whole : {true, false}) {
        const Folder folder;
        const FileStoreOptions options = options_for(folder);
        const auto store = open(options);
        const TestBlocks before(options.shape, 1, 5), after(options.shape, 2, 20);
        EXPECT_EQ(stored(*store, before.puts(0, 5)), 5u);
        EXPECT_EQ(fs::status(folder.files().at(0)).permissions(), fs::perms(0600));
        if (whole)
            fs::remove_all(folder.path);
        else
            fs::remove(folder.files().at(0));
        EXPECT_EQ(readable(*store, before, 0, 5), 0u);
        EXPECT_EQ(stored(*store, after.puts(0, 20)), 20u);
        EXPECT_EQ(readable(*store, after, 0, 20), 20u);
        EXPECT_EQ(readable(*open(options), after, 0, 20), 20u);
        EXPECT_EQ(stored(*store, before.puts(0, 5)), 5u);
        EXPECT_EQ(readable(*store, before, 0, 5), 5u);
    }
}

}  // namespace
}  // namespace deepinfer::store
