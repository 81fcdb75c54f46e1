// Tiny random models with reference logits (tests/oracle): float32 compute must match them, serving must stay
// close, and both must give the same bits however a prompt is cut and whatever shares the batch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "base/json.h"
#include "models/model.h"

namespace deepinfer::models {
namespace {

std::string folder(const std::string& architecture) {
    return std::string(DEEPINFER_TEST_DATA) + "/oracle/" + architecture;
}

struct Prompt {
    std::vector<TokenId> ids, greedy;
    std::vector<float> last8, greedy_logits;
};
struct Oracle {
    std::unique_ptr<checkpoint::Checkpoint> weights;
    std::vector<Prompt> prompts;
};

std::vector<float> tensor(const checkpoint::Checkpoint& file, const std::string& name) {
    const auto* t = file.find(name);
    EXPECT_NE(t, nullptr) << name;
    std::vector<float> values(static_cast<size_t>(t->values()));
    std::memcpy(values.data(), t->data.data(), t->data.size());
    return values;
}

// Weights from the folder of the oracle, or from a GGUF file of the same model.
Oracle read_oracle(const std::string& architecture, const std::string& file = "") {
    Oracle oracle;
    const std::string path =
        file.empty() ? folder(architecture) : std::string(DEEPINFER_TEST_DATA) + "/oracle/gguf/" + file;
    auto weights = checkpoint::Checkpoint::open(path);
    EXPECT_TRUE(weights.ok()) << weights.error().message;
    oracle.weights = std::move(*weights);
    auto expected = checkpoint::Checkpoint::open(folder(architecture) + "/expected.safetensors");
    EXPECT_TRUE(expected.ok()) << expected.error().message;
    std::ifstream json_file(folder(architecture) + "/expected.json");
    const std::string text{std::istreambuf_iterator<char>(json_file), {}};
    const auto json = parse_json(text, "expected.json");
    EXPECT_TRUE(json.ok());
    int index = 0;
    for (const auto& p : json->at("prompts").as_array()) {
        Prompt prompt;
        for (const auto& id : p.at("ids").as_array())
            prompt.ids.push_back(static_cast<TokenId>(id.as_int64()));
        for (const auto& id : p.at("greedy").as_array())
            prompt.greedy.push_back(static_cast<TokenId>(id.as_int64()));
        prompt.last8 = tensor(**expected, "p" + std::to_string(index) + ".logits_last8");
        prompt.greedy_logits = tensor(**expected, "p" + std::to_string(index) + ".greedy_logits");
        oracle.prompts.push_back(std::move(prompt));
        ++index;
    }
    return oracle;
}

// A model with a pool of blocks, and sequences that grow in it.
class Runner {
  public:
    Runner(const checkpoint::Checkpoint& weights, kernels::Compute compute, kernels::Isa isa, int threads)
        : pool(threads), model(load(weights, compute, isa, pool)), blocks(make_blocks(*model, compute)) {}

    struct Sequence {
        std::vector<kv::BlockId> table;
        int32_t position = 0;
    };
    struct Piece {
        Sequence* sequence;
        std::vector<TokenId> tokens;
    };
    // Appends each piece to its sequence in one batch; logits of all rows of all pieces.
    std::vector<float> forward(const std::vector<Piece>& pieces) {
        Batch batch;
        for (const Piece& piece : pieces) {
            const auto first = static_cast<int32_t>(batch.tokens.size()),
                       rows = static_cast<int32_t>(piece.tokens.size());
            while (static_cast<int32_t>(piece.sequence->table.size()) * kv::block_tokens <
                   piece.sequence->position + rows)
                piece.sequence->table.push_back(blocks.allocate());
            batch.tokens.insert(batch.tokens.end(), piece.tokens.begin(), piece.tokens.end());
            batch.sequences.push_back({first, rows, piece.sequence->position, piece.sequence->table});
            for (int32_t i = 0; i < rows; ++i) batch.logit_rows.push_back(first + i);
        }
        std::vector<float> logits(batch.tokens.size() * static_cast<size_t>(model->info().vocabulary));
        model->forward(batch, blocks, logits.data());
        for (const Piece& piece : pieces)
            piece.sequence->position += static_cast<int32_t>(piece.tokens.size());
        return logits;
    }
    void release(Sequence& sequence) {
        for (kv::BlockId block : sequence.table) blocks.release(block);
        sequence = {};
    }

    ThreadPool pool;
    std::unique_ptr<Model> model;
    kv::BlockPool blocks;

  private:
    static std::unique_ptr<Model> load(const checkpoint::Checkpoint& weights, kernels::Compute compute,
                                       kernels::Isa isa, ThreadPool& pool) {
        LoadOptions options;
        options.compute = compute;
        options.isa = isa;
        auto model = Model::load(weights, pool, options);
        EXPECT_TRUE(model.ok()) << model.error().message;
        return std::move(*model);
    }
    static kv::BlockPool make_blocks(const Model& model, kernels::Compute compute) {
        auto blocks = kv::BlockPool::create(
            *model.kv_layout(compute == kernels::Compute::f32 ? KvType::f32 : KvType::f16), 64);
        EXPECT_TRUE(blocks.ok());
        return std::move(*blocks);
    }
};

// NaN would hide in a maximum of differences.
void expect_finite(const std::vector<float>& values) {
    for (float v : values) ASSERT_TRUE(std::isfinite(v));
}

size_t argmax(const float* x, size_t n) { return static_cast<size_t>(std::max_element(x, x + n) - x); }

class OracleTest : public testing::TestWithParam<const char*> {};

void expect_reference(const Oracle& oracle, const std::string& name) {
    Runner runner(*oracle.weights, kernels::Compute::f32, kernels::supported_isas().back(), 2);
    const size_t vocabulary = static_cast<size_t>(runner.model->info().vocabulary);
    double worst = 0;
    for (const Prompt& prompt : oracle.prompts) {
        Runner::Sequence sequence;
        std::vector<float> logits = runner.forward({{&sequence, prompt.ids}});
        expect_finite(logits);
        const size_t last = std::min<size_t>(8, prompt.ids.size());
        for (size_t i = 0; i < last * vocabulary; ++i)
            worst =
                std::max(worst, std::fabs(static_cast<double>(logits[logits.size() - last * vocabulary + i]) -
                                          static_cast<double>(prompt.last8[i])));
        std::vector<float> row(logits.end() - static_cast<std::ptrdiff_t>(vocabulary), logits.end());
        for (size_t k = 0; k < prompt.greedy.size(); ++k) {
            for (size_t i = 0; i < vocabulary; ++i)
                worst =
                    std::max(worst, std::fabs(static_cast<double>(row[i]) -
                                              static_cast<double>(prompt.greedy_logits[k * vocabulary + i])));
            expect_finite(row);
            ASSERT_EQ(static_cast<TokenId>(argmax(row.data(), vocabulary)), prompt.greedy[k])
                << "token " << k;
            row = runner.forward({{&sequence, {prompt.greedy[k]}}});
        }
        runner.release(sequence);
    }
    EXPECT_LT(worst, 1e-3);
    std::printf("  %s: max abs error %.2e against the reference\n", name.c_str(), worst);
}

TEST_P(OracleTest, Float32MatchesTheReference) { expect_reference(read_oracle(GetParam()), GetParam()); }

// The same models as GGUF: other names, permuted query and key rows (llama), norm weights with the one added
// (gemma3).
TEST(GgufOracle, Float32MatchesTheReference) {
    expect_reference(read_oracle("llama", "llama-bf16.gguf"), "llama GGUF");
    expect_reference(read_oracle("gemma3", "gemma3-bf16.gguf"), "gemma3 GGUF");
}

// One model with weights of every tensor type, as GGUF and as F16 safetensors of the very same values: in
// float32 compute both are the same numbers in the same order. (At position 0, where the pairing of the
// rotary embedding does not matter: the two files hold the rows in one order, the formats mean different
// ones.)
TEST(GgufOracle, EveryTensorTypeComputesAsItsValues) {
    const std::string base = std::string(DEEPINFER_TEST_DATA) + "/oracle/gguf/all_types";
    std::vector<float> first;
    for (const std::string& path : {base + "/all_types.gguf", base}) {
        auto weights = checkpoint::Checkpoint::open(path);
        ASSERT_TRUE(weights.ok()) << weights.error().message;
        for (kernels::Isa isa : kernels::supported_isas()) {
            Runner runner(**weights, kernels::Compute::f32, isa, 2);
            std::vector<float> all;
            for (TokenId token = 0; token < 64; token += 7) {
                Runner::Sequence sequence;
                const std::vector<float> logits = runner.forward({{&sequence, {token}}});
                all.insert(all.end(), logits.begin(), logits.end());
                runner.release(sequence);
            }
            if (first.empty()) first = all;
            ASSERT_EQ(first.size(), all.size());
            ASSERT_EQ(0, std::memcmp(first.data(), all.data(), all.size() * sizeof(float)))
                << path << " on " << kernels::to_string(isa);
        }
    }
}

// F16 keys and values, and BF16 weights times activations rounded to BF16 (8 bits, relative error 2^-9 each): an
// error, but a small one. Logits have a standard deviation of about 3; a tenth of that is the bound.
TEST_P(OracleTest, ServingStaysClose) {
    const Oracle oracle = read_oracle(GetParam());
    Runner runner(*oracle.weights, kernels::Compute::serve, kernels::supported_isas().back(), 2);
    const size_t vocabulary = static_cast<size_t>(runner.model->info().vocabulary);
    double worst = 0;
    for (const Prompt& prompt : oracle.prompts) {
        Runner::Sequence sequence;
        const std::vector<float> logits = runner.forward({{&sequence, prompt.ids}});
        expect_finite(logits);
        const size_t last = std::min<size_t>(8, prompt.ids.size());
        for (size_t i = 0; i < last * vocabulary; ++i)
            worst =
                std::max(worst, std::fabs(static_cast<double>(logits[logits.size() - last * vocabulary + i]) -
                                          static_cast<double>(prompt.last8[i])));
        runner.release(sequence);
    }
    EXPECT_LT(worst, 0.3);
    std::printf("  %s: max abs error %.2e when serving\n", GetParam(), worst);
}

TEST_P(OracleTest, SameBitsInAnyBatchAndChunking) {
    const Oracle oracle = read_oracle(GetParam());
    for (kernels::Compute compute : {kernels::Compute::serve, kernels::Compute::f32}) {
        std::vector<std::vector<float>> alone;
        Runner reference(*oracle.weights, compute, kernels::supported_isas().back(), 1);
        for (const Prompt& prompt : oracle.prompts) {
            Runner::Sequence sequence;
            alone.push_back(reference.forward({{&sequence, prompt.ids}}));
            reference.release(sequence);
        }
        for (kernels::Isa isa : kernels::supported_isas()) {
            Runner runner(*oracle.weights, compute, isa, 3);
            const size_t vocabulary = static_cast<size_t>(runner.model->info().vocabulary);
            uint32_t random = 7;
            // All prompts together, each in its own random chunks.
            std::vector<Runner::Sequence> sequences(oracle.prompts.size());
            for (bool more = true; more;) {
                std::vector<Runner::Piece> pieces;
                std::vector<size_t> which;
                for (size_t s = 0; s < sequences.size(); ++s) {
                    random = random * 1664525u + 1013904223u;
                    const auto& ids = oracle.prompts[s].ids;
                    const size_t from = static_cast<size_t>(sequences[s].position),
                                 to = std::min(ids.size(), from + (random >> 16) % 80);
                    if (from == to) continue;
                    pieces.push_back({&sequences[s],
                                      {ids.begin() + static_cast<std::ptrdiff_t>(from),
                                       ids.begin() + static_cast<std::ptrdiff_t>(to)}});
                    which.push_back(s);
                }
                more = !pieces.empty() || std::any_of(sequences.begin(), sequences.end(), [&](const auto& q) {
                    return static_cast<size_t>(q.position) <
                           oracle.prompts[static_cast<size_t>(&q - sequences.data())].ids.size();
                });
                if (pieces.empty()) continue;
                const std::vector<float> logits = runner.forward(pieces);
                size_t row = 0;
                for (size_t i = 0; i < pieces.size(); ++i) {
                    const size_t n = pieces[i].tokens.size(),
                                 first = static_cast<size_t>(sequences[which[i]].position) - n;
                    ASSERT_EQ(0, std::memcmp(logits.data() + row * vocabulary,
                                             alone[which[i]].data() + first * vocabulary,
                                             n * vocabulary * sizeof(float)))
                        << kernels::to_string(isa) << " prompt " << which[i] << " from " << first;
                    row += n;
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Architectures, OracleTest, testing::Values("llama", "qwen2", "qwen3", "gemma3"),
                         [](const auto& test) { return std::string(test.param); });

TEST(LoadModel, UnknownArchitectureIsRefusedByName) {
    const Oracle oracle = read_oracle("llama");
    std::string config = oracle.weights->config_json();
    config.replace(config.find("\"llama\""), 7, "\"mamba\"");
    struct Renamed final : checkpoint::Checkpoint {
        Renamed(const checkpoint::Checkpoint& original, std::string text)
            : base(original), json(std::move(text)) {}
        checkpoint::FileFormat format() const override { return base.format(); }
        const std::filesystem::path& path() const override { return base.path(); }
        const checkpoint::Metadata& metadata() const override { return base.metadata(); }
        const std::string& config_json() const override { return json; }
        const std::vector<checkpoint::Tensor>& tensors() const override { return base.tensors(); }
        const checkpoint::Tensor* find(std::string_view name) const override { return base.find(name); }
        uint64_t file_bytes() const override { return base.file_bytes(); }
        void release_pages(std::span<const std::byte>) const override {}
        const checkpoint::Checkpoint& base;
        std::string json;
    };
    ThreadPool pool(1);
    const auto refused = [&](const std::string& text, ErrorCode code, const std::string& word) {
        const Renamed changed(*oracle.weights, text);
        const auto model = Model::load(changed, pool, {});
        ASSERT_FALSE(model.ok());
        EXPECT_EQ(model.error().code, code) << model.error().message;
        EXPECT_NE(model.error().message.find(word), std::string::npos) << model.error().message;
    };
    refused(config, ErrorCode::unsupported, "mamba");
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string text = oracle.weights->config_json();
        const size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        return text.replace(at, from.size(), to);
    };
    refused(with("\"hidden_size\": 64", "\"hidden_size\": 128"), ErrorCode::corrupt_data, "shape");
    refused(with("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2"), ErrorCode::unsupported,
            "model.layers.2");
    refused(with("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4"), ErrorCode::corrupt_data, "missing");
    refused(with("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 3000000"), ErrorCode::corrupt_data,
            "num_hidden_layers");
    refused(with("\"rope_type\": \"llama3\"", "\"rope_type\": \"su\""), ErrorCode::unsupported, "\"su\"");
    refused(with("\"mlp_bias\": false", "\"mlp_bias\": true"), ErrorCode::unsupported, "mlp_bias");
    refused(with("\"hidden_act\": \"silu\"", "\"hidden_act\": \"relu\""), ErrorCode::unsupported, "relu");
    refused(with("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"), ErrorCode::corrupt_data,
            "KV heads");
    refused(with("\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e60"), ErrorCode::corrupt_data, "epsilon");
    refused(with("\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": -1"), ErrorCode::corrupt_data, "epsilon");
    refused(with("\"rope_theta\": 500000.0", "\"rope_theta\": 1"), ErrorCode::corrupt_data, "rotary base");
    refused("", ErrorCode::not_found, "config.json");
}

}  // namespace
}  // namespace deepinfer::models
