// Attention over paged keys and values: one token at a depth, and chunks of a prompt.
#include <string>

#include "kernels/attention.h"
#include "machine.h"

namespace deepinfer::bench {

namespace {

constexpr size_t cache_in_memory = size_t{256} << 20;  // larger than the last-level cache

struct Heads {
    const char* model;
    int heads, kv_heads, head_dim;
};
constexpr Heads models[] = {
    {"SmolLM2-135M", 9, 3, 64}, {"Qwen2.5-0.5B", 14, 2, 64}, {"Qwen2.5-1.5B", 12, 2, 128}};

// Layers of one sequence, as many as fill the memory; an iteration is the attention of the next layer.
class Cache {
  public:
    static Result<Cache> make(const Heads& heads, KvType type, int tokens) {
        Cache cache;
        cache.blocks_ = (tokens + kv_block_tokens - 1) / kv_block_tokens;
        cache.type_ = type;
        cache.head_bytes_ = kv_head_bytes(type, heads.head_dim);
        cache.layer_bytes_ = 2 * cache.head_bytes_ * static_cast<size_t>(heads.kv_heads);
        cache.layers_ =
            static_cast<int>(cache_in_memory / (cache.layer_bytes_ * static_cast<size_t>(cache.blocks_))) + 1;
        auto memory = HugeBuffer::allocate(cache.block_bytes() * static_cast<size_t>(cache.blocks_));
        if (!memory) return std::move(memory).error();
        cache.memory_ = std::move(*memory);
        fill_harmless(cache.memory_.data(), cache.memory_.size());
        for (int b = 0; b < cache.blocks_; ++b)
            cache.table_.push_back(cache.memory_.data() + static_cast<size_t>(b) * cache.block_bytes());
        return cache;
    }
    kernels::KvLayerView layer(int index) const {
        const size_t at = static_cast<size_t>(index % layers_) * layer_bytes_;
        return {at, at + head_bytes_, 2 * head_bytes_, type_};
    }
    const uint8_t* const* table() const { return table_.data(); }

  private:
    size_t block_bytes() const { return layer_bytes_ * static_cast<size_t>(layers_); }
    KvType type_ = KvType::f16;
    int blocks_ = 0, layers_ = 0;
    size_t head_bytes_ = 0, layer_bytes_ = 0;
    HugeBuffer memory_;
    std::vector<const uint8_t*> table_;
};

void run(benchmark::State& state, Machine& machine, const Heads& heads, KvType type, int position, int rows,
         int threads) {
    Team& team = machine.team(threads);
    auto cache = Cache::make(heads, type, position + rows);
    if (!cache) return state.SkipWithError(cache.error().message.c_str());
    const size_t width = static_cast<size_t>(heads.heads * heads.head_dim);
    std::vector<float> q(static_cast<size_t>(rows) * width), out(q.size());
    for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 31) / 64;
    const kernels::AttentionSequence sequence{0, rows, position, cache->table()};
    const kernels::AttentionShape shape{heads.heads, heads.kv_heads, heads.head_dim, 0};
    team.limits(type == KvType::bf16 ? Arithmetic::bf16 : Arithmetic::f32);
    int layer = 0;
    for (auto _ : state)
        kernels::attention(team.context, shape, cache->layer(layer++), {&sequence, 1}, q.data(), out.data());
    benchmark::DoNotOptimize(out.data());
    // Each query multiplies with the keys before it and sums their values.
    const double keys = rows * static_cast<double>(position) + rows * (rows + 1.0) / 2;
    const double bytes = 2.0 * heads.kv_heads * static_cast<double>(kv_head_bytes(type, heads.head_dim)) *
                         (position + rows) / kv_block_tokens;
    team.report(state, 4 * keys * static_cast<double>(width), rows == 1 ? bytes : 0);
}

}  // namespace

void add_attention_benchmarks(Machine& machine) {
    const auto add = [&machine](const char* kind, const Heads& heads, KvType type, int position, int rows) {
        for (const int threads : machine.thread_counts()) {
            const std::string name = std::string("attention_") + kind + "/" + to_string(type) + "/" +
                                     heads.model + "/keys:" + std::to_string(position + rows) +
                                     "/threads:" + std::to_string(threads);
            benchmark::RegisterBenchmark(name.c_str(),
                                         [=, &machine](benchmark::State& state) {
                                             run(state, machine, heads, type, position, rows, threads);
                                         })
                ->UseRealTime()
                ->MinTime(0.2);
        }
    };
    for (const KvType type : all_kv_types)
        for (const Heads& heads : models) {
            for (const int depth : {512, 2048, 6144, 16384}) add("decode", heads, type, depth - 1, 1);
            for (const int end : {512, 4096, 16384}) add("prefill", heads, type, end - 512, 512);
        }
}

}  // namespace deepinfer::bench
