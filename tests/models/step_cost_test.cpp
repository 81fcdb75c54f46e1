// What a step is said to cost, against counting: the stored matrices of the tiny models, every visible key of every row.
#include "models/step_cost.h"

#include <gtest/gtest.h>

#include <random>

#include "models/latent_cost.h"
#include "models/model.h"
#include "models/pairs.h"

namespace deepinfer::models {
namespace {

TEST(Pairs, KnownAnswers) {
    EXPECT_EQ(all_pairs(10, 2), 25);
    EXPECT_EQ(capped_pairs(10, 2, 3), 21);
    EXPECT_EQ(pairs_of(900, 1000, 1, 128), 12800);
    const int64_t n = int64_t{1} << 31;
    EXPECT_EQ(all_pairs(n, 1), n * (n + 1) / 2);
}

TEST(Pairs, EqualTheSumsTheyStandFor) {
    for (int64_t ratio : {1, 2, 3, 7, 64})
        for (int64_t cap : {0, 1, 3, 20, 128}) {
            int64_t sum = 0;
            for (int64_t t = 0; t <= 300; ++t) {
                if (t > 0) sum += cap ? std::min(t / ratio, cap) : t / ratio;
                ASSERT_EQ(capped_pairs(t, ratio, cap), sum) << t << " / " << ratio << ", at most " << cap;
            }
        }
    for (int64_t m : {1, 3, 24})
        for (int64_t a : {0, 1, 7, 24, 50})
            for (int64_t b : {0, 5, 23, 100}) {
                int64_t sum = 0;
                for (int64_t n = 0; n < 40; ++n) {
                    ASSERT_EQ(floor_sum(n, m, a, b), sum);
                    sum += (a * n + b) / m;
                }
            }
}

struct Tiny {
    std::unique_ptr<checkpoint::Checkpoint> checkpoint;
    std::unique_ptr<ThreadPool> pool;
    std::unique_ptr<Model> model;
};

Tiny load(const std::string& name, kernels::Compute compute) {
    Tiny tiny;
    auto file = checkpoint::Checkpoint::open(std::string(DEEPINFER_TEST_DATA) + "/oracle/" + name);
    EXPECT_TRUE(file.ok()) << file.error().message;
    tiny.checkpoint = std::move(*file);
    tiny.pool = std::make_unique<ThreadPool>(2);
    LoadOptions options;
    options.compute = compute;
    auto model = Model::load(*tiny.checkpoint, *tiny.pool, options);
    EXPECT_TRUE(model.ok()) << model.error().message;
    tiny.model = std::move(*model);
    return tiny;
}

// Of the stored matrices, without the configuration: which are multiplied with every row, and which is the head.
struct Stored {
    int64_t layer_values = 0, head_values = 0, layer_bytes = 0, head_bytes = 0;
};

Stored stored(const checkpoint::Checkpoint& file, kernels::Compute compute) {
    Stored sum;
    const bool tied = !file.find("lm_head.weight");
    for (const checkpoint::Tensor& t : file.tensors()) {
        if (t.shape.size() != 2) continue;
        const kernels::MatrixView view{t.type, t.shape[0], t.shape[1], t.data};
        const auto packed = static_cast<int64_t>(kernels::Linear::packed_bytes(view, compute)),
                   bytes = packed ? packed : static_cast<int64_t>(t.data.size());
        const bool embedding = t.name.find("embed_tokens") != std::string::npos;
        if (t.name == "lm_head.weight" || (embedding && tied))
            sum.head_values += t.values(), sum.head_bytes += bytes;
        else if (!embedding)
            sum.layer_values += t.values(), sum.layer_bytes += bytes;
    }
    return sum;
}

// Of config.json, as its architecture's paper reads it: a window for each layer, 0 for none.
struct Description {
    const char* name;
    int64_t heads, kv_heads, head_dim;
    std::vector<int64_t> windows;
};

class StepCostOf : public testing::TestWithParam<Description> {};

// Query vectors of one KV head are computed in tiles of 24; a tile reads the keys that any of its vectors sees.
int64_t keys_read(const ChunkShape& chunk, int64_t group, int64_t window) {
    int64_t keys = 0;
    for (int64_t first = 0; first < chunk.rows * group; first += 24) {
        const int64_t last = std::min(chunk.rows * group, first + 24) - 1,
                      begin = window ? std::max<int64_t>(0, chunk.position + first / group + 1 - window) : 0;
        keys += chunk.position + last / group + 1 - begin;
    }
    return keys;
}

TEST_P(StepCostOf, EqualsWhatIsCounted) {
    const auto& [name, heads, kv_heads, head_dim, windows] = GetParam();
    for (kernels::Compute compute : {kernels::Compute::serve, kernels::Compute::f32}) {
        const Tiny tiny = load(name, compute);
        const Stored matrices = stored(*tiny.checkpoint, compute);
        ASSERT_GT(matrices.layer_values, 0);
        std::mt19937 random(5);
        for (int round = 0; round < 20; ++round) {
            std::vector<ChunkShape> step(1 + random() % 5);
            int64_t rows = 0, logit_rows = 0, pairs = 0, keys = 0;
            for (ChunkShape& c : step) {
                c.rows = 1 + static_cast<int32_t>(random() % 60);
                c.position = static_cast<int32_t>(random() % 100);
                c.logit_rows = static_cast<int32_t>(random() % 3) % (c.rows + 1);
                rows += c.rows, logit_rows += c.logit_rows;
                for (int64_t window : windows) {
                    for (int64_t query = c.position; query < c.position + c.rows; ++query)
                        for (int64_t key = 0; key <= query; ++key)
                            pairs += heads * (window == 0 || key > query - window);
                    keys += kv_heads * keys_read(c, heads / kv_heads, window);
                }
            }
            const StepCost cost = tiny.model->cost(step, KvType::f16);
            EXPECT_EQ(cost.rows, rows);
            EXPECT_EQ(cost.logit_rows, logit_rows);
            EXPECT_EQ(cost.sequences, static_cast<int64_t>(step.size()));
            EXPECT_EQ(cost.product_ops, rows * matrices.layer_values + logit_rows * matrices.head_values);
            EXPECT_EQ(cost.pairs, pairs);
            EXPECT_EQ(cost.attention_ops, pairs * 2 * head_dim);
            EXPECT_EQ(cost.kv_bytes, keys * 2 * head_dim * int64_t{sizeof(uint16_t)});
            for (size_t i = 0; i < beyond_rows.size(); ++i) {
                const int64_t more = std::max<int64_t>(0, rows - beyond_rows[i]),
                              more_logits = std::max<int64_t>(0, logit_rows - beyond_rows[i]);
                EXPECT_EQ(cost.product_ops_beyond[i],
                          more * matrices.layer_values + more_logits * matrices.head_values);
            }
            EXPECT_EQ(cost.weight_bytes, matrices.layer_bytes + (logit_rows > 0 ? matrices.head_bytes : 0));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, StepCostOf,
                         testing::Values(Description{"llama", 4, 2, 16, {0, 0, 0}},
                                         Description{"qwen2", 4, 2, 16, {0, 0}},
                                         Description{"qwen3", 4, 2, 32, {0, 0, 0}},
                                         Description{"gemma3", 4, 2, 32, {16, 16, 0, 16}}),
                         [](const auto& model) { return std::string(model.param.name); });

TEST(StepCost, NothingCostsNothing) {
    const Tiny tiny = load("llama", kernels::Compute::serve);
    EXPECT_EQ(tiny.model->cost({}, KvType::f16), StepCost());
    const ChunkShape empty{0, 17, 0};
    EXPECT_EQ(tiny.model->cost({&empty, 1}, KvType::f16), StepCost());
}

// Groups of query heads that do not divide the tiles of attention, at every border of a window.
TEST(StepCost, TilesThatCutThroughATokensHeads) {
    DenseShape shape;
    shape.heads = 14, shape.kv_heads = 2, shape.head_dim = 32, shape.global_layers = 3,
    shape.local_layers = 2, shape.window = 20;
    for (int32_t position : {0, 1, 7, 18, 19, 20, 21, 63, 200})
        for (int32_t rows : {1, 2, 3, 4, 5, 8, 9, 16, 40, 77}) {
            const ChunkShape chunk{rows, position, 0};
            const StepCost cost = dense_cost(shape, {&chunk, 1}, KvType::f16);
            int64_t pairs = 0;
            for (int32_t t = position + 1; t <= position + rows; ++t) pairs += 3 * t + 2 * std::min(t, 20);
            ASSERT_EQ(cost.pairs, pairs * 14);
            ASSERT_EQ(cost.kv_bytes,
                      (3 * keys_read(chunk, 7, 0) + 2 * keys_read(chunk, 7, 20)) * 2 * 2 * 2 * 32)
                << rows << " rows at " << position;
        }
}

// Everything a layer can have: a window, compressed entries, an index of its own.
LatentLayer latent_layer() {
    LatentLayer l;
    l.hidden = 64, l.heads = 4, l.latent = 16, l.q_rank = 24, l.output_groups = 2, l.output_rank = 12;
    l.window = 8, l.ratio = 2, l.most_chosen = 5, l.makes_entries = true;
    l.index_heads = 3, l.index_dim = 8, l.makes_index_keys = true;
    l.candidate_block = 4, l.candidates = 3;
    return l;
}

TEST(LatentCost, RowsEqualTheShapesOfTheirMatrices) {
    LatentLayer l = latent_layer();
    int64_t expected = unit_fp8 * (64 * 24 + 64 * 16 + 24 * (4 * 16) + 24 * (3 * 8) + (2 * 12) * 64);
    for (int group = 0; group < 2; ++group) expected += unit_fp8 * (2 * 16) * 12;  // two heads each
    expected += unit_bf16 * 64 * 3 + unit_bf16 * 64 * (16 + 16);
    EXPECT_EQ(projection_ops(l), expected);
    l.ratio = 1;
    EXPECT_EQ(projection_ops(l), expected - unit_bf16 * 64 * 16);
    l.makes_entries = false;
    EXPECT_EQ(projection_ops(l), expected - unit_bf16 * 64 * (16 + 16));
    l.window = 0;
    EXPECT_EQ(projection_ops(l), expected - unit_bf16 * 64 * (16 + 16) - unit_fp8 * 64 * 16);

    EXPECT_EQ(expert_ops({64, 32, 16, 3, 1, unit_fp4}), 3 * 64 * 32 * 4 + unit_bf16 * 64 * 16);
    const int64_t mix = 8 * 4 * 64;
    EXPECT_EQ(stream_layer_ops(64, 4), 2 * (mix * 24 + mix + mix * 5));
    EXPECT_EQ(stream_head_ops(64, 4, false), mix + mix * 4);
    EXPECT_EQ(stream_head_ops(64, 4, true), 0);
    EXPECT_EQ(ngram_ops(64, 4, 48, unit_fp8), unit_fp8 * 48 * (5 * 64) + mix);
    EXPECT_EQ(logit_ops(64, 1000), 4 * 64 * 1000);
}

TEST(LatentCost, PairsEqualWhatEachQuerySees) {
    LatentLayer l = latent_layer();
    for (int64_t candidate_block : {0, 4})
        for (int64_t begin : {0, 1, 7, 8, 9, 40, 63})
            for (int64_t rows : {0, 1, 2, 3, 16, 33})
                for (int64_t first_kept : {0, 5, 50}) {
                    l.candidate_block = candidate_block;
                    const QueryRange range{begin, begin + rows};
                    int64_t attended = 0, scored = 0, completed = 0;
                    for (int64_t t = begin + 1; t <= range.end; ++t) {  // the t-th token
                        for (int64_t key = first_kept; key < t; ++key) attended += key >= t - 8;
                        const int64_t entries = t / 2;
                        attended += std::min<int64_t>(5, entries);
                        if (candidate_block == 0)
                            scored += entries;
                        else
                            scored += 4 * std::min<int64_t>(3, (entries + 3) / 4);
                        completed += t % 2 == 0;
                    }
                    EXPECT_EQ(attention_ops(l, range, first_kept), unit_bf16 * 4 * 2 * 16 * attended);
                    EXPECT_EQ(index_ops(l, range), unit_fp4 * 3 * 8 * scored) << begin << " + " << rows;
                    const int64_t key = unit_bf16 * 16 * 8;
                    EXPECT_EQ(index_key_ops(l, range, true), key * rows);
                    EXPECT_EQ(index_key_ops(l, range, false),
                              rows ? key * std::max<int64_t>(1, completed) : 0);
                }
    l.ratio = 0, l.index_heads = 0, l.makes_index_keys = false;
    EXPECT_EQ(attention_ops(l, {900, 1000}), unit_bf16 * 4 * 2 * 16 * 100 * 8);
    EXPECT_EQ(index_ops(l, {900, 1000}), 0);
}

}  // namespace
}  // namespace deepinfer::models
