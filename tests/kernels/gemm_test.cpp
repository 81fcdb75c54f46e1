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

// Rows of random blocks whose scales are finite and small.
std::vector<std::byte> random_rows(TensorType type, int rows, int columns) {
    std::vector<std::byte> bytes(static_cast<size_t>(rows) * row_bytes(type, static_cast<size_t>(columns)));
    for (auto& b : bytes) b = static_cast<std::byte>(random_bits());
    const auto put_half = [&](size_t at) {
        const uint16_t h = f32_to_f16(0.01f + 0.005f * random_float());
        std::memcpy(&bytes[at], &h, 2);
    };
    const size_t block = traits(type).block_bytes;
    for (size_t at = 0; at < bytes.size(); at += block) switch (type) {
            case TensorType::f32: {
                const float f = random_float();
                std::memcpy(&bytes[at], &f, 4);
                break;
            }
            case TensorType::f16:
                put_half(at);
                break;
            case TensorType::bf16: {
                const uint16_t h = f32_to_bf16(random_float());
                std::memcpy(&bytes[at], &h, 2);
                break;
            }
            case TensorType::q4_1:
            case TensorType::q5_1:
            case TensorType::q4_k:
            case TensorType::q5_k:
                put_half(at), put_half(at + 2);
                break;
            case TensorType::q2_k:
                put_half(at + 80), put_half(at + 82);
                break;
            case TensorType::q3_k:
                put_half(at + 108);
                break;
            case TensorType::q6_k:
                put_half(at + 208);
                break;
            case TensorType::mxfp4:
                bytes[at] = static_cast<std::byte>(120 + random_bits() % 8);
                break;
            default:
                put_half(at);
                break;
        }
    return bytes;
}

struct Case {
    TensorType type;
    int outputs, columns;
    std::vector<std::byte> bytes;
    MatrixView view() const { return {type, outputs, columns, bytes}; }
};
Case make_case(TensorType type) {
    const bool super_block = traits(type).block_values == 256;
    const int outputs = 53,
              columns = super_block ? 768 : 352;  // an incomplete last panel; an odd number of blocks of 32
    return {type, outputs, columns, random_rows(type, outputs, columns)};
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

// The activations as the kernel sees them: int8 with one scale per 32 or 256 values, or as they are.
std::vector<double> seen_by_kernel(const std::vector<float>& x, int block) {
    std::vector<double> seen(x.begin(), x.end());
    if (block == 0) return seen;
    for (size_t at = 0; at < x.size(); at += static_cast<size_t>(block)) {
        float top = 0;
        for (int i = 0; i < block; ++i) top = std::max(top, std::fabs(x[at + static_cast<size_t>(i)]));
        for (size_t i = at; i < at + static_cast<size_t>(block); ++i)
            seen[i] = top > 0 ? static_cast<double>(top / 127.f) * std::nearbyint(x[i] * (127.f / top)) : 0.0;
    }
    return seen;
}
int activation_block(TensorType type, Compute compute) {
    if (compute == Compute::f32 || !packed_layout(type)) return 0;
    switch (activation_layout_for(*packed_layout(type))) {
        case ActivationLayout::f32:
            return 0;
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
    std::vector<float> w(static_cast<size_t>(c.columns));
    for (Compute compute : {Compute::serve, Compute::f32}) {
        const std::vector<double> seen = seen_by_kernel(x, activation_block(c.type, compute));
        const std::vector<float> first = product(Isa::portable, 1, compute, c, x, rows);
        // Float accumulation over k terms errs by at most k * 2^-24 of the sum of magnitudes.
        for (int o = 0; o < c.outputs; ++o) {
            dequantize_row(
                c.type,
                c.bytes.data() + static_cast<size_t>(o) * row_bytes(c.type, static_cast<size_t>(c.columns)),
                w.data(), w.size());
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
