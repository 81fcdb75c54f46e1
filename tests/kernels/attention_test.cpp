// Attention over paged blocks: against a plain double computation, and against itself for any split into
// chunks, tiles, partials, threads and instruction sets.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/half.h"

namespace deepinfer::kernels {
namespace {

struct Random {
    uint64_t state = 0x9E3779B97F4A7C15ull;
    float next() {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return static_cast<float>((state >> 20) % 65536) / 32768.0f - 1.0f;
    }
};

// One sequence with `tokens` keys and values in shuffled blocks.
class Fixture {
  public:
    Fixture(AttentionShape attention_shape, int token_count, bool half)
        : shape(attention_shape), tokens(token_count) {
        layer.f16 = half;
        layer.head_bytes = static_cast<size_t>(64 * shape.head_dim) * (half ? 2 : 4);
        layer.v_offset = layer.head_bytes * static_cast<size_t>(shape.kv_heads);
        block_bytes = 2 * layer.v_offset;
        const int count = (tokens + 63) / 64;
        memory.resize(block_bytes * static_cast<size_t>(count) / 4 + 16);
        for (int b = 0; b < count; ++b)
            blocks.push_back(data() + block_bytes * static_cast<size_t>(count - 1 - b));
        Random random;
        const size_t width = static_cast<size_t>(shape.kv_heads * shape.head_dim);
        k.resize(static_cast<size_t>(tokens) * width), v.resize(k.size());
        for (float& x : k) x = random.next();
        for (float& x : v) x = random.next();
        q.resize(static_cast<size_t>(tokens * shape.heads * shape.head_dim));
        for (float& x : q) x = random.next();
        const KernelTable& table = kernel_table(Isa::portable);
        for (int t = 0; t < tokens; ++t)
            for (int h = 0; h < shape.kv_heads; ++h) {
                const size_t at = static_cast<size_t>((t * shape.kv_heads + h) * shape.head_dim);
                uint8_t* block = const_cast<uint8_t*>(blocks[static_cast<size_t>(t / 64)]);
                table.store_kv(&k[at], &v[at], 0, shape.head_dim, t % 64, 1, half,
                               block + layer.k_offset + static_cast<size_t>(h) * layer.head_bytes,
                               block + layer.v_offset + static_cast<size_t>(h) * layer.head_bytes);
            }
    }
    // Rows [first, last) computed in chunks of `chunk`, each call with one sequence.
    std::vector<float> run(Isa isa, int threads, int first, int last, int chunk) const {
        ThreadPool pool(threads);
        Context context(pool, isa);
        const size_t width = static_cast<size_t>(shape.heads * shape.head_dim);
        std::vector<float> out(static_cast<size_t>(last - first) * width);
        for (int at = first; at < last; at += chunk) {
            const AttentionSequence sequence{0, std::min(chunk, last - at), at, blocks.data()};
            attention(context, shape, layer, std::span(&sequence, 1),
                      q.data() + static_cast<size_t>(at) * width,
                      out.data() + static_cast<size_t>(at - first) * width);
        }
        return out;
    }
    double expected(int row, int head, int d) const {
        const int dim = shape.head_dim, kv = head / (shape.heads / shape.kv_heads),
                  from = shape.window ? std::max(0, row + 1 - shape.window) : 0;
        const auto stored = [&](float x) {
            return static_cast<double>(layer.f16 ? f16_to_f32(f32_to_f16(x)) : x);
        };
        std::vector<double> s;
        double top = -1e300, total = 0, value = 0;
        for (int t = from; t <= row; ++t) {
            double dot = 0;
            for (int i = 0; i < dim; ++i)
                dot += static_cast<double>(q[static_cast<size_t>((row * shape.heads + head) * dim + i)]) *
                       stored(k[static_cast<size_t>((t * shape.kv_heads + kv) * dim + i)]);
            s.push_back(dot), top = std::max(top, dot);
        }
        for (int t = from; t <= row; ++t) {
            const double p = std::exp(s[static_cast<size_t>(t - from)] - top);
            total += p, value += p * stored(v[static_cast<size_t>((t * shape.kv_heads + kv) * dim + d)]);
        }
        return value / total;
    }

    AttentionShape shape;
    KvLayerView layer;
    int tokens;
    size_t block_bytes = 0;
    std::vector<float> memory, k, v, q;
    std::vector<const uint8_t*> blocks;

  private:
    uint8_t* data() {
        return reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t{63});
    }
};

using Parameters = std::tuple<AttentionShape, bool>;
class Attention : public testing::TestWithParam<Parameters> {};

TEST_P(Attention, MatchesDouble) {
    const auto [shape, half] = GetParam();
    const Fixture f(shape, 650, half);
    const std::vector<float> out = f.run(Isa::portable, 1, 600, 650, 50);
    // Float32 scores of magnitude ~10 err by about 1e-6 absolute, which is the relative error of a weight;
    // values are below 1.
    const double tolerance = 1e-5;
    for (int row : {600, 637, 649})
        for (int head : {0, shape.heads - 1})
            for (int d = 0; d < shape.head_dim; d += 5)
                ASSERT_NEAR(out[static_cast<size_t>(((row - 600) * shape.heads + head) * shape.head_dim + d)],
                            f.expected(row, head, d), tolerance)
                    << row << " " << head << " " << d;
}

TEST_P(Attention, SameBitsForAnySplit) {
    const auto [shape, half] = GetParam();
    const Fixture f(shape, 1060, half);
    const std::vector<float> whole = f.run(Isa::portable, 1, 1000, 1060, 60);
    const auto same = [&](const std::vector<float>& other) {
        return std::memcmp(whole.data(), other.data(), whole.size() * 4) == 0;
    };
    for (Isa isa : supported_isas()) {
        if (isa == Isa::portable) continue;  // the yardstick above; too slow for more
        for (int threads : {1, 3})
            for (int chunk : {1, 7, 60})
                ASSERT_TRUE(same(f.run(isa, threads, 1000, 1060, chunk)))
                    << to_string(isa) << " threads " << threads << " chunk " << chunk;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Attention,
    testing::Combine(testing::Values(AttentionShape{9, 3, 64, 0}, AttentionShape{4, 1, 256, 512},
                                     AttentionShape{14, 2, 64, 0}, AttentionShape{4, 2, 16, 16},
                                     AttentionShape{12, 2, 128, 0}, AttentionShape{16, 1, 80, 100}),
                     testing::Bool()));

}  // namespace
}  // namespace deepinfer::kernels
