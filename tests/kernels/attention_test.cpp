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
    Fixture(AttentionShape attention_shape, int token_count, KvType type)
        : shape(attention_shape), tokens(token_count) {
        layer.type = type;
        layer.v_offset = kv_head_bytes(type, shape.head_dim);
        layer.head_stride = 2 * layer.v_offset;
        block_bytes = layer.head_stride * static_cast<size_t>(shape.kv_heads);
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
                table.store_kv(&k[at], &v[at], 0, shape.head_dim, t % 64, 1, type,
                               block + layer.k_offset + static_cast<size_t>(h) * layer.head_stride,
                               block + layer.v_offset + static_cast<size_t>(h) * layer.head_stride);
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
            return static_cast<double>(layer.type == KvType::f16    ? f16_to_f32(f32_to_f16(x))
                                       : layer.type == KvType::bf16 ? bf16_to_f32(f32_to_bf16(x))
                                                                    : x);
        };
        const auto query = [&](float x) {
            return static_cast<double>(layer.type == KvType::bf16 ? bf16_to_f32(f32_to_bf16(x)) : x);
        };
        std::vector<double> s;
        double top = -1e300, total = 0, value = 0;
        for (int t = from; t <= row; ++t) {
            double dot = 0;
            for (int i = 0; i < dim; ++i)
                dot += query(q[static_cast<size_t>((row * shape.heads + head) * dim + i)]) *
                       stored(k[static_cast<size_t>((t * shape.kv_heads + kv) * dim + i)]);
            s.push_back(dot), top = std::max(top, dot);
        }
        for (int t = from; t <= row; ++t) {
            const double p = std::exp2(s[static_cast<size_t>(t - from)] - top);
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

using Parameters = std::tuple<AttentionShape, KvType>;
class Attention : public testing::TestWithParam<Parameters> {};

TEST_P(Attention, MatchesDouble) {
    const auto [shape, type] = GetParam();
    if (!kv_type_fits(type, shape.head_dim)) GTEST_SKIP() << "not a whole number of scales";
    const Fixture f(shape, 650, type);
    const std::vector<float> out = f.run(Isa::portable, 1, 600, 650, 50);
    // Values are below 1 and weights sum to 1, so the error is that of a weight. f16, f32: scores of magnitude ~10
    // in float32 err by 1e-6 absolute, which is a weight's relative error. bf16: weights are rounded to 8 bits. q8:
    // elements below 1 err by up to 1/254, a score by sqrt(D / 3) / 254 at most in the mean square, values by 1/254.
    const double tolerance = type == KvType::bf16 ? 0x1p-8
                             : type == KvType::q8 ? (std::sqrt(shape.head_dim / 3.0) + 1) / 254
                                                  : 1e-5;
    for (int row : {600, 637, 649})
        for (int head : {0, shape.heads - 1})
            for (int d = 0; d < shape.head_dim; d += 5)
                ASSERT_NEAR(out[static_cast<size_t>(((row - 600) * shape.heads + head) * shape.head_dim + d)],
                            f.expected(row, head, d), tolerance)
                    << row << " " << head << " " << d;
}

TEST_P(Attention, SameBitsForAnySplit) {
    const auto [shape, type] = GetParam();
    if (!kv_type_fits(type, shape.head_dim)) GTEST_SKIP() << "not a whole number of scales";
    const Fixture f(shape, 1060, type);
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
                     testing::ValuesIn(all_kv_types)));

}  // namespace
}  // namespace deepinfer::kernels
