// A weight that is no number: the sequences that meet it are named, the others do not notice.
#include <gtest/gtest.h>

#include <fstream>

#include "models/model.h"
#include "support/folder.h"

namespace deepinfer::models {
namespace {

namespace fs = std::filesystem;

constexpr TokenId bad_token = 7;

constexpr int64_t width = 64;

// One of the oracle's models in a folder, with `count` BF16 values of a tensor, from value `first` on, replaced by one.
void spoil(const fs::path& folder, const std::string& model, const std::string& tensor, int64_t first,
           int64_t count, uint16_t value) {
    for (const char* file : {"config.json", "model.safetensors"})
        fs::copy_file(std::string(DEEPINFER_TEST_DATA) + "/oracle/" + model + "/" + file, folder / file,
                      fs::copy_options::overwrite_existing);
    std::fstream file(folder / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    uint64_t bytes = 0;
    file.read(reinterpret_cast<char*>(&bytes), sizeof bytes);
    std::string header(bytes, ' ');
    file.read(header.data(), static_cast<std::streamsize>(bytes));
    const std::string before = "\"data_offsets\":[";
    const size_t at = header.find(before, header.find('"' + tensor + '"'));
    ASSERT_NE(at, std::string::npos);
    file.seekp(static_cast<std::streamoff>(8 + bytes) + std::stoll(header.substr(at + before.size())) +
               first * 2);
    for (int64_t i = 0; i < count; ++i) file.write(reinterpret_cast<const char*>(&value), sizeof value);
}

std::vector<float> last_logits(Model& model, kv::BlockPool& pool,
                               const std::vector<std::vector<TokenId>>& prompts) {
    Batch batch;
    std::vector<std::vector<kv::BlockId>> tables;
    for (size_t i = 0; i < prompts.size(); ++i) tables.push_back({pool.allocate()});
    for (size_t i = 0; i < prompts.size(); ++i) {
        batch.sequences.push_back({static_cast<int32_t>(batch.tokens.size()),
                                   static_cast<int32_t>(prompts[i].size()), 0, tables[i]});
        batch.tokens.insert(batch.tokens.end(), prompts[i].begin(), prompts[i].end());
        batch.logit_rows.push_back(static_cast<int32_t>(batch.tokens.size()) - 1);
    }
    std::vector<float> logits(prompts.size() * static_cast<size_t>(model.info().vocabulary));
    model.forward(batch, pool, logits.data());
    for (const auto& table : tables) pool.release(table[0]);
    return logits;
}

TEST(NotFinite, OnlyTheSequencesThatMeetItAreNamed) {
    const deepinfer::testing::Folder folder;
    spoil(folder.path, "llama", "model.embed_tokens.weight", bad_token * width, width, 0x7F80);  // infinity
    ThreadPool threads(2);
    const auto checkpoint = checkpoint::Checkpoint::open(folder.path);
    ASSERT_TRUE(checkpoint.ok());
    for (const kernels::Compute compute : {kernels::Compute::serve, kernels::Compute::f32}) {
        LoadOptions options;
        options.compute = compute;
        options.isa = kernels::supported_isas().back();
        auto model = Model::load(**checkpoint, threads, options);
        ASSERT_TRUE(model.ok()) << model.error().message;
        for (const KvType type : {KvType::f16, KvType::f32}) {
            auto pool = kv::BlockPool::create(*(*model)->kv_layout(type), 8);
            ASSERT_TRUE(pool.ok());
            const std::vector<TokenId> good{1, 2, 3, 4, 5}, other{9, 8};
            const std::vector<TokenId> bad{1, 2, bad_token, 3};
            const auto alone = last_logits(**model, *pool, {good});
            EXPECT_TRUE((*model)->not_finite().empty());
            const auto among = last_logits(**model, *pool, {bad, good, other, bad});
            const auto named = (*model)->not_finite();
            EXPECT_EQ(std::vector<int32_t>(named.begin(), named.end()), (std::vector<int32_t>{0, 3}));
            EXPECT_TRUE(std::equal(alone.begin(), alone.end(), among.begin() + (*model)->info().vocabulary));
            last_logits(**model, *pool, {good});
            EXPECT_TRUE((*model)->not_finite().empty());
        }
    }
}

// Finite, but too large for the type that it is stored in; in q8 for the type of its block's scale.
TEST(NotFinite, SoIsWhatCannotBeStored) {
    const deepinfer::testing::Folder folder;
    ThreadPool threads(2);
    // The weights of the first value are 2^n, so that it is near that. Heads of 32, which Q8 needs.
    const auto named = [&](int n, KvType type) {
        const auto power = static_cast<uint16_t>((n + 127) << 7);
        spoil(folder.path, "qwen3", "model.layers.1.self_attn.v_proj.weight", 0, width, power);
        const auto checkpoint = checkpoint::Checkpoint::open(folder.path);
        EXPECT_TRUE(checkpoint.ok());
        LoadOptions options;
        options.compute = kernels::Compute::f32;
        options.isa = kernels::supported_isas().back();
        auto model = Model::load(**checkpoint, threads, options);
        EXPECT_TRUE(model.ok());
        auto pool = kv::BlockPool::create(*(*model)->kv_layout(type), 2);
        last_logits(**model, *pool, {{1, 2, 3, 4, 5}});
        return !(*model)->not_finite().empty();
    };
    for (const KvType type : all_kv_types) EXPECT_FALSE(named(4, type)) << to_string(type);
    EXPECT_TRUE(named(18, KvType::f16));
    EXPECT_FALSE(named(18, KvType::q8));
    EXPECT_TRUE(named(26, KvType::q8));
    EXPECT_FALSE(named(26, KvType::bf16));
    EXPECT_FALSE(named(26, KvType::f32));
}

}  // namespace
}  // namespace deepinfer::models
