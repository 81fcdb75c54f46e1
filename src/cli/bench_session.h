// What `deepinfer bench` measures: a model in memory with sequences whose forward passes are timed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/read_bandwidth.h"
#include "base/result.h"
#include "cli/load_model.h"

namespace deepinfer::cli {

// One row of the result. Times are of all sequences together.
struct BenchTest {
    int prompt = 0, generation = 0, depth = 0, sequences = 1;
    int step_rows = 1;                              // rows of each sequence in a step of generation
    int batch_rows = 2048, micro_batch_rows = 512;  // a prompt is computed min() rows at a time
    KvType kv_type = KvType::f16;

    int longest() const { return depth + prompt + generation + step_rows - 1; }  // tokens of a sequence
    int64_t tokens() const {  // what a sample's time is divided by
        return static_cast<int64_t>(sequences) * (prompt + static_cast<int64_t>(generation) * step_rows);
    }
};

struct BenchSamples {
    std::vector<int64_t> nanoseconds;
    std::vector<double> read_gb_per_second;  // of memory, after each sample; empty unless asked for
    double bytes_per_step =
        0;  // of generation, read: Model::cost() of its steps, weights and keys and values; mean
};

class BenchSession {
  public:
    // Reads the header only: an error if the model is not supported or a test does not fit into its context.
    static Status check(const std::string& model, std::span<const BenchTest> tests);
    static Result<BenchSession> load(const std::string& model, int threads, kernels::Compute compute);

    // The test must have passed check(). An error if it does not fit into the memory.
    Result<BenchSamples> run(const BenchTest& test, int repetitions, bool warm_up, bool bandwidth);

    const ModelInMemory& model() const { return model_; }
    uint64_t model_bytes() const;    // of all tensors, as stored
    std::string model_type() const;  // "llama 135M Q4_1"

  private:
    struct Cache {  // of one KV type and size
        kv::BlockPool blocks;
        std::vector<std::vector<kv::BlockId>> tables;  // of each sequence
        int filled = 0;                                // positions that hold keys and values in all sequences
    };
    explicit BenchSession(ModelInMemory model) : model_(std::move(model)) {}
    Status make_cache(const BenchTest& test);
    // `tokens` for each sequence from `position` on, `rows` rows at a time.
    void prefill(int sequences, int position, int tokens, int rows);
    // One step: `rows` tokens for each sequence from `position` on, all their logits.
    void step(int sequences, int position, int rows);
    void forward(models::Batch& batch);
    int64_t sample(const BenchTest& test);
    double bytes_per_step(const BenchTest& test) const;
    TokenId next_token();

    ModelInMemory model_;
    std::optional<Cache> cache_;
    std::optional<ReadBandwidth> bandwidth_;
    std::vector<float> logits_;
    uint32_t random_ = 1;
};

}  // namespace deepinfer::cli
