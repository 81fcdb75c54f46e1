// The engine with its blocks in a folder: what other engines lost, mixed up or garbled on the way to a disk and back. The model's
// answers follow from the bytes of its blocks, so a wrong block is a wrong answer.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "store/file_store.h"
#include "support/engine_bench.h"
#include "support/folder.h"

namespace deepinfer::engine {
namespace {

namespace fs = std::filesystem;
using testing::EngineBench;
using testing::Record;
using testing::Times;

constexpr int32_t block = kv::block_tokens;

using testing::Folder;

// An engine as another process would have it: with a pool of its own, on the same folder.
std::unique_ptr<EngineBench> engine_on(const Folder& folder, int32_t blocks = 200,
                                       std::chrono::microseconds per_step = {}) {
    store::FileStoreOptions file;
    file.folder = folder.path;
    file.shape = store::block_shape(*testing::HashModel(64, 4096, {}).kv_layout(KvType::f16), {});
    file.segment_bytes = int64_t{1} << 20;
    file.sync = false;
    Stores stores;
    stores.push_back(store::open_file_store(file).value());
    return std::make_unique<EngineBench>(blocks, EngineOptions{}, per_step,
                                         std::make_unique<Times>(0.0, 0.001), nullptr, std::move(stores));
}

std::vector<TokenId> text(int32_t tokens, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<TokenId> result;
    for (int32_t i = 0; i < tokens; ++i) result.push_back(static_cast<TokenId>(random() % 64));
    return result;
}

// Runs it, compares the answer with what it must be, and returns how it ended.
Finish run(EngineBench& bench, const std::vector<TokenId>& prompt) {
    Request request;
    request.prompt = prompt;
    request.sampling.max_tokens = 4;
    request.sampling.ignore_eos = true;
    Record record(1);
    EXPECT_TRUE(bench.engine->submit(request, record.listener()).ok());
    EXPECT_TRUE(record.wait());
    const auto want = bench.model.answer(request, 0, {}, bench.engine->context_length());
    EXPECT_EQ(record.tokens[0].size(), want.tokens.size());
    for (size_t i = 0; i < std::min(record.tokens[0].size(), want.tokens.size()); ++i)
        EXPECT_EQ(record.tokens[0][i].token, want.tokens[i].token) << i;
    EXPECT_TRUE(bench.quiet());
    return *record.ends[0];
}

// K07: eight sessions by turns, through a pool that holds one of them: nobody gets another's blocks.
TEST(StoredFiles, SessionsThatGoThroughTheDiskStayApart) {
    const Folder folder;
    const auto bench = engine_on(folder, 20);
    std::vector<std::vector<TokenId>> sessions;
    for (unsigned s = 0; s < 8; ++s) {
        sessions.push_back(text(3 * block, 1));  // all begin alike
        const auto own = text(9 * block, 100 + s);
        sessions.back().insert(sessions.back().end(), own.begin(), own.end());
    }
    std::mt19937 random(3);
    int64_t loaded = 0;
    for (int probe = 0; probe < 38; ++probe) {
        std::vector<TokenId>& session = sessions[probe < 8 ? static_cast<size_t>(probe) : random() % 8];
        loaded += run(*bench, session).loaded_tokens[0];
        const auto more = text(20, 1000 + static_cast<unsigned>(probe));
        session.insert(session.end(), more.begin(), more.end());
    }
    EXPECT_GT(loaded, 20 * 6 * block);
}

// K08, K13: the same 64 prompts cold, warm, and by two later processes, which find nearly all of their blocks.
TEST(StoredFiles, LaterProcessesFindWhatAnEarlierOneComputed) {
    const Folder folder;
    std::vector<std::vector<TokenId>> prompts;
    for (unsigned i = 0; i < 64; ++i) prompts.push_back(text(static_cast<int32_t>(100 + 37 * i % 900), i));
    for (int process = 0; process < 3; ++process) {
        const auto bench = engine_on(folder, 700);
        for (int round = 0; round < 2; ++round) {
            int64_t cached = 0, full = 0;
            for (const auto& prompt : prompts) {
                full += (static_cast<int64_t>(prompt.size()) - 1) / block * block;
                cached += run(*bench, prompt).cached_tokens;
            }
            EXPECT_EQ(cached, process + round == 0 ? 0 : full) << process << ' ' << round;
        }
    }
}

// K14: prompts that no pool holds together, each seen once: what leaves the pool has been written before, and comes back whole.
TEST(StoredFiles, WhatLeavesThePoolComesBackWhole) {
    const Folder folder;
    const auto bench =
        engine_on(folder, 40, std::chrono::milliseconds(20));  // so that writing is not slower than computing
    for (int round = 0; round < 2; ++round)
        for (unsigned i = 0; i < 5; ++i)
            EXPECT_EQ(run(*bench, text(30 * block + 1, i)).cached_tokens, round * 30 * block) << i;
}

// K05, K06, K10: files that are empty, cut short, gone, without an index, or have a wrong bit anywhere: fewer blocks are found, and
// the answers stay right, those of prompts that have nothing to do with them, too.
TEST(StoredFiles, DamagedFilesAreMissesAndNothingElse) {
    enum class Damage { emptied, cut, removed, index_cut_off, bit };
    std::mt19937 random(5);
    for (int round = 0; round < 60; ++round) {
        const auto damage = static_cast<Damage>(round < 10 ? round % 5 : 4);
        const Folder folder;
        std::vector<std::vector<TokenId>> prompts;
        for (unsigned i = 0; i < 4; ++i) prompts.push_back(text(7 * block + 1, i));
        {
            const auto bench = engine_on(folder);
            for (const auto& prompt : prompts) run(*bench, prompt);
        }
        for (const fs::path& path : folder.files()) {
            const auto size = fs::file_size(path);
            if (damage == Damage::removed) fs::remove(path);
            if (damage == Damage::emptied) fs::resize_file(path, 0);
            if (damage == Damage::cut) fs::resize_file(path, size / 2 + 1);
            if (damage == Damage::index_cut_off) fs::resize_file(path, size - 8192);
            if (damage != Damage::bit) continue;
            std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
            const auto at = static_cast<std::streamoff>(random() % size);
            file.seekg(at);
            const char byte = static_cast<char>(file.get() ^ (1 << random() % 8));
            file.seekp(at);
            file.put(byte);
        }
        const auto bench = engine_on(folder);
        int32_t cached = 0;
        for (const auto& prompt : prompts) cached += run(*bench, prompt).cached_tokens;
        for (unsigned i = 0; i < 20; ++i) run(*bench, text(3 * block, 50 + i));
        const int32_t all = 4 * 7 * block;
        switch (damage) {
            case Damage::emptied:
            case Damage::removed:
                EXPECT_EQ(cached, 0);
                break;
            case Damage::cut:
                EXPECT_TRUE(cached > 0 && cached < all) << cached;
                break;
            case Damage::index_cut_off:
                EXPECT_EQ(cached, all);
                break;
            case Damage::bit:
                EXPECT_LE(cached, all);
        }
    }
}

}  // namespace
}  // namespace deepinfer::engine
