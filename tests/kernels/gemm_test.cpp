// Matrix products: every format on every instruction set against a plain double product, and against itself
// for any number of rows and threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/half.h"
#include "kernels/dequantize.h"
#include "kernels/linear.h"

namespace deepinfer::kernels {
namespace {

uint64_t state = 88172645463325252ull;
uint32_t random_bits() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<uint32_t>(state >> 16);
}
float random_float() { return static_cast<float>(random_bits() % 65536) / 32768.0f - 1.0f; }

constexpr TensorType all_types[] = {TensorType::f32,  TensorType::f16,    TensorType::bf16, TensorType::q4_0,
                                    TensorType::q4_1, TensorType::q5_0,   TensorType::q5_1, TensorType::q8_0,
                                    TensorType::q2_k, TensorType::q3_k,   TensorType::q4_k, TensorType::q5_k,
                                    TensorType::q6_k, TensorType::iq4_nl, TensorType::mxfp4};

// Gives the scales of random blocks, or the values of float types, a sensible size: small fractions, or 1 (floats:
// integers), so that products with integers are exact.
void set_scales(TensorType type, std::vector<std::byte>& bytes, bool integers) {
    const auto put = [&](size_t at, uint16_t bits) { std::memcpy(&bytes[at], &bits, 2); };
    const auto value = [&] {
        return integers ? static_cast<float>(static_cast<int>(random_bits() % 33) - 16) : random_float();
    };
    const auto scale = [&] { return f32_to_f16(integers ? 1.0f : 0.01f + 0.005f * random_float()); };
    const size_t block = traits(type).block_bytes;
    for (size_t at = 0; at < bytes.size(); at += block) switch (type) {
            case TensorType::f32: {
                const float f = value();
                std::memcpy(&bytes[at], &f, 4);
                break;
            }
            case TensorType::f16:
                put(at, f32_to_f16(value()));
                break;
            case TensorType::bf16:
                put(at, f32_to_bf16(value()));
                break;
            case TensorType::q4_1:
            case TensorType::q5_1:
            case TensorType::q4_k:
            case TensorType::q5_k:
                put(at, scale()), put(at + 2, scale());
                break;
            case TensorType::q2_k:
                put(at + 80, scale()), put(at + 82, scale());
                break;
            case TensorType::q3_k:
                put(at + 108, scale());
                break;
            case TensorType::q6_k:
                put(at + 208, scale());
                break;
            case TensorType::mxfp4:  // its table holds twice the values, so 128 is the exponent of 1
                bytes[at] = static_cast<std::byte>(integers ? 128 : 120 + random_bits() % 8);
                break;
            default:
                put(at, scale());
                break;
        }
}

struct Case {
    TensorType type;
    int outputs, columns;
    std::vector<std::byte> bytes;
    MatrixView view() const { return {type, outputs, columns, bytes}; }
    size_t row() const { return row_bytes(type, static_cast<size_t>(columns)); }
    std::vector<float> weights(int output) const {
        std::vector<float> w(static_cast<size_t>(columns));
        dequantize_row(type, bytes.data() + static_cast<size_t>(output) * row(), w.data(), w.size());
        return w;
    }
};
// An incomplete last panel; odd numbers of blocks of 32, of groups of two and of super-blocks.
Case make_case(TensorType type, bool integers = false) {
    const int outputs = 53, columns = traits(type).block_values == 256 ? 768 : 288;
    Case c{type, outputs, columns, {}};
    c.bytes.resize(static_cast<size_t>(outputs) * c.row());
    for (auto& b : c.bytes) b = static_cast<std::byte>(random_bits());
    set_scales(type, c.bytes, integers);
    return c;
}

std::vector<float> product(Isa isa, int threads, Compute compute, const Case& c, const std::vector<float>& x,
                           int rows) {
    ThreadPool pool(threads);
    Context context(pool, isa);
    auto memory = HugeBuffer::allocate(Linear::packed_bytes(c.view(), compute));
    EXPECT_TRUE(memory.ok());
    const Linear linear(context, c.view(), compute, memory->data());
    Activations activations;
    activations.reset(x.data(), rows, c.columns);
    std::vector<float> y(static_cast<size_t>(rows * c.outputs));
    const Product whole{&linear, y.data(), static_cast<size_t>(c.outputs)};
    multiply(context, activations, {&whole, 1});
    return y;
}

// The activations as the kernel sees them: int8 with one scale per 32 or 256 values, BF16, or as they are.
std::vector<double> seen_by_kernel(const std::vector<float>& x, int block) {
    std::vector<double> seen(x.begin(), x.end());
    if (block == 0) return seen;
    if (block == 1) {
        for (double& v : seen) v = static_cast<double>(bf16_to_f32(f32_to_bf16(static_cast<float>(v))));
        return seen;
    }
    for (size_t at = 0; at < x.size(); at += static_cast<size_t>(block)) {
        float top = 0;
        for (int i = 0; i < block; ++i) top = std::max(top, std::fabs(x[at + static_cast<size_t>(i)]));
        for (size_t i = at; i < at + static_cast<size_t>(block); ++i)
            seen[i] = top > 0 ? static_cast<double>(top / 127.f) * std::nearbyint(x[i] * (127.f / top)) : 0.0;
    }
    return seen;
}
int activation_block(TensorType type, Compute compute) {
    const auto layout = packed_layout(type, compute);
    if (!layout) return 0;
    switch (activation_layout_for(*layout)) {
        case ActivationLayout::f32:
            return 0;
        case ActivationLayout::bf16:
            return 1;
        case ActivationLayout::int8_256:
            return 256;
        default:
            return 32;
    }
}

class Gemm : public testing::TestWithParam<TensorType> {};

TEST_P(Gemm, MatchesDoubleOnEveryInstructionSet) {
    const Case c = make_case(GetParam());
    const int rows = 29;
    std::vector<float> x(static_cast<size_t>(rows * c.columns));
    for (float& v : x) v = random_float();
    for (Compute compute : {Compute::serve, Compute::f32}) {
        const std::vector<double> seen = seen_by_kernel(x, activation_block(c.type, compute));
        const std::vector<float> first = product(Isa::portable, 1, compute, c, x, rows);
        // Float accumulation over k terms errs by at most k * 2^-24 of the sum of magnitudes.
        for (int o = 0; o < c.outputs; ++o) {
            const std::vector<float> w = c.weights(o);
            for (int r = 0; r < rows; ++r) {
                double expected = 0, magnitude = 0;
                for (int k = 0; k < c.columns; ++k) {
                    const double term = static_cast<double>(w[static_cast<size_t>(k)]) *
                                        seen[static_cast<size_t>(r * c.columns + k)];
                    expected += term, magnitude += std::fabs(term);
                }
                ASSERT_NEAR(first[static_cast<size_t>(r * c.outputs + o)], expected,
                            magnitude * c.columns * 0x1p-24)
                    << to_string(c.type) << " row " << r << " output " << o;
            }
        }
        for (Isa isa : supported_isas())
            ASSERT_EQ(
                0, std::memcmp(first.data(), product(isa, 1, compute, c, x, rows).data(), first.size() * 4))
                << to_string(c.type) << " on " << to_string(isa);
    }
}

// With scales of 1 and integers as activations nothing is rounded, so every bit of the codes, the scales and the
// mins counts: few rows and many (the two paths of Q2_K and Q3_K) on every instruction set.
TEST_P(Gemm, IntegersAreExact) {
    const Case c = make_case(GetParam(), true);
    const int rows = 34;
    std::vector<float> x(static_cast<size_t>(rows * c.columns));
    for (size_t i = 0; i < x.size(); ++i)  // a block's largest is 127, so its scale is 1
        x[i] = i % 32 == 7 ? 127.0f : static_cast<float>(static_cast<int>(random_bits() % 255) - 127);
    std::vector<float> expected(static_cast<size_t>(rows * c.outputs));
    for (int o = 0; o < c.outputs; ++o) {
        const std::vector<float> w = c.weights(o);
        for (int r = 0; r < rows; ++r) {
            double sum = 0;
            for (int k = 0; k < c.columns; ++k)
                sum += static_cast<double>(w[static_cast<size_t>(k)]) *
                       static_cast<double>(x[static_cast<size_t>(r * c.columns + k)]);
            ASSERT_LT(std::fabs(sum), 0x1p24);
            expected[static_cast<size_t>(r * c.outputs + o)] = static_cast<float>(sum);
        }
    }
    for (Isa isa : supported_isas())
        for (int n : {1, 5, rows}) {
            const std::vector<float> y = product(isa, 1, Compute::serve, c, x, n);
            for (size_t i = 0; i < y.size(); ++i)
                ASSERT_EQ(y[i], expected[i])
                    << to_string(c.type) << " on " << to_string(isa) << ", " << n << " rows, " << i;
        }
}

TEST_P(Gemm, SameBitsForAnyNumberOfRowsAndThreads) {
    const Case c = make_case(GetParam());
    const int most = 64;
    std::vector<float> x(static_cast<size_t>(most * c.columns));
    for (float& v : x) v = random_float();
    const Isa isa = supported_isas().back();
    const std::vector<float> whole = product(isa, 3, Compute::serve, c, x, most);
    for (int rows = 1; rows <= most; ++rows) {
        const std::vector<float> part = product(isa, 1, Compute::serve, c, x, rows);
        ASSERT_EQ(0, std::memcmp(whole.data(), part.data(), part.size() * 4))
            << to_string(c.type) << " with " << rows << " rows";
    }
}

// The order of BF16 products, and what becomes of subnormal numbers, is that of VDPBF16PS on every instruction set:
// fma of the odd neighbour first; subnormal inputs and results are zero, decided after rounding to 24 bits.
TEST(GemmBf16, SubnormalsAndOrderOnEveryInstructionSet) {
    constexpr int columns = 32;
    const auto multiply = [](Isa isa, const std::vector<float>& w, const std::vector<float>& x) {
        Case c{TensorType::bf16, 16, columns, std::vector<std::byte>(16 * columns * 2)};
        for (size_t k = 0; k < columns; ++k) {
            const uint16_t bits = f32_to_bf16(k < w.size() ? w[k] : 0.0f);
            std::memcpy(&c.bytes[2 * k], &bits, 2);
        }
        std::vector<float> row(columns);
        std::copy(x.begin(), x.end(), row.begin());
        return product(isa, 1, Compute::serve, c, row, 1)[0];
    };
    for (Isa isa : supported_isas()) {
        SCOPED_TRACE(to_string(isa));
        // 2^30 + 1 is 2^30: the 1 survives only where 2^30 is gone or not there yet.
        EXPECT_EQ(1.0f, multiply(isa, {0, 0x1p30f, 1, -0x1p30f}, {0, 1, 1, 1}));
        EXPECT_EQ(0.0f, multiply(isa, {0x1p30f, 0, -0x1p30f, 1}, {1, 0, 1, 1}));
        EXPECT_EQ(0.0f, multiply(isa, {0x1p-130f}, {0x1p20f}));       // subnormal weight
        EXPECT_EQ(0.0f, multiply(isa, {0x1p20f}, {0x1p-130f}));       // subnormal activation
        EXPECT_EQ(0.0f, multiply(isa, {0x1p-70f}, {0x1p-70f}));       // subnormal product
        EXPECT_EQ(0x1p-126f, multiply(isa, {0x1p-63f}, {0x1p-63f}));  // the smallest normal one
        // 2^-126 - 2^-150 has 24 bits and is subnormal; rounded to a subnormal's precision it would be 2^-126.
        EXPECT_EQ(0.0f, multiply(isa, {-0x1p-75f, 0x1p-63f}, {0x1p-75f, 0x1p-63f}));
        EXPECT_EQ(0x1p-126f, multiply(isa, {-0x1p-76f, 0x1p-63f}, {0x1p-75f, 0x1p-63f}));
        // The mode of the processor is as before: a subnormal product of its own is still one.
        volatile float small = 0x1p-70f;
        EXPECT_EQ(0x1p-140f, small * small);
    }
}

TEST_P(Gemm, NonFiniteActivationsAreVisible) {
    const Case c = make_case(GetParam());
    for (float bad : {INFINITY, -INFINITY, NAN}) {
        std::vector<float> x(static_cast<size_t>(2 * c.columns), 0.25f);
        x[5] = bad;
        for (Isa isa : supported_isas()) {
            const std::vector<float> y = product(isa, 1, Compute::serve, c, x, 2);
            for (int o = 0; o < c.outputs; ++o) {
                ASSERT_FALSE(std::isfinite(y[static_cast<size_t>(o)]))
                    << to_string(c.type) << " on " << to_string(isa);
                ASSERT_TRUE(std::isfinite(y[static_cast<size_t>(c.outputs + o)]))
                    << "the other row is not affected";
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, Gemm, testing::ValuesIn(all_types),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace deepinfer::kernels
