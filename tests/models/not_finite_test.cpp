// A weight that is no number: the sequences that meet it are named, the others do not notice.
#include <gtest/gtest.h>

#include <fstream>

#include "models/model.h"
#include "support/folder.h"

namespace deepinfer::models {
namespace {

namespace fs = std::filesystem;

constexpr TokenId bad_token = 7;

// The oracle's llama, but the embedding of one token is infinite.
void spoil(const fs::path& folder) {
    for (const char* file : {"config.json", "model.safetensors"})
        fs::copy_file(std::string(DEEPINFER_TEST_DATA) + "/oracle/llama/" + file, folder / file);
    const fs::path path = folder / "model.safetensors";
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    uint64_t header = 0;
    file.read(reinterpret_cast<char*>(&header), sizeof header);
    constexpr int64_t embeddings = 65'536, width = 64;  // as the header says: BF16 [512][64]
    file.seekp(static_cast<std::streamoff>(8 + header) + embeddings + bad_token * width * 2);
    for (int64_t i = 0; i < width; ++i) file.write("\x80\x7f", 2);
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
    spoil(folder.path);
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

}  // namespace
}  // namespace deepinfer::models
