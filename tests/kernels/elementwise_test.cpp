// Norms, activations, reductions: against double, and the same bits on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "kernels/isa.h"
#include "kernels/kernel_table.h"

namespace deepinfer::kernels {
namespace {

std::vector<float> ramp(int n, float from, float to) {
    std::vector<float> x(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i)
        x[static_cast<size_t>(i)] =
            from + (to - from) * static_cast<float>((i * 7919) % n) / static_cast<float>(n);
    return x;
}

// Runs f on every instruction set, checks that all give the bits of the first, and returns them.
template <class F>
std::vector<float> same_everywhere(F&& f) {
    const std::vector<float> first = f(kernel_table(Isa::portable));
    for (Isa isa : supported_isas()) {
        const std::vector<float> other = f(kernel_table(isa));
        EXPECT_EQ(0, std::memcmp(first.data(), other.data(), first.size() * 4)) << to_string(isa);
    }
    return first;
}

TEST(Elementwise, RmsNorm) {
    const auto x = ramp(576, -3, 5), w = ramp(576, 0.5f, 2);
    const auto y = same_everywhere([&](const KernelTable& t) {
        std::vector<float> out(x.size());
        t.rms_norm(x.data(), w.data(), 1e-5f, 576, out.data());
        return out;
    });
    double square = 0;
    for (float v : x) square += static_cast<double>(v) * static_cast<double>(v);
    const double factor = 1 / std::sqrt(square / 576 + 1e-5);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], x[i] * factor * w[i], 2e-6);
}

TEST(Elementwise, GatedActivations) {
    const auto g = ramp(1024, -90, 90), u = ramp(1024, -2, 2);
    const auto silu = same_everywhere([&](const KernelTable& t) {
        std::vector<float> out(g.size());
        t.silu_mul(g.data(), u.data(), 1024, out.data());
        return out;
    });
    const auto gelu = same_everywhere([&](const KernelTable& t) {
        std::vector<float> out(g.size());
        t.gelu_mul(g.data(), u.data(), 1024, out.data());
        return out;
    });
    for (size_t i = 0; i < g.size(); ++i) {
        const double x = g[i], up = u[i];
        EXPECT_NEAR(silu[i], x / (1 + std::exp(-x)) * up, 1e-6 * std::fabs(x * up) + 1e-9);
        EXPECT_NEAR(gelu[i], 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) * up,
                    1e-6 * std::fabs(x * up) + 1e-9);
    }
}

TEST(Elementwise, RopeBothPairings) {
    std::vector<float> cos_sin(64);
    for (int i = 0; i < 32; ++i)
        cos_sin[static_cast<size_t>(i)] = std::cos(0.1f * static_cast<float>(i)),
        cos_sin[static_cast<size_t>(32 + i)] = std::sin(0.1f * static_cast<float>(i));
    for (bool interleaved : {false, true}) {
        const auto x = ramp(80, -1, 1);
        const auto y = same_everywhere([&](const KernelTable& t) {
            auto out = x;
            t.rope(out.data(), cos_sin.data(), 64, interleaved);
            return out;
        });
        for (int i = 0; i < 32; ++i) {
            const size_t a = static_cast<size_t>(interleaved ? 2 * i : i),
                         b = static_cast<size_t>(interleaved ? 2 * i + 1 : i + 32);
            const double c = cos_sin[static_cast<size_t>(i)], s = cos_sin[static_cast<size_t>(32 + i)];
            EXPECT_NEAR(y[a], x[a] * c - x[b] * s, 1e-6);
            EXPECT_NEAR(y[b], x[a] * s + x[b] * c, 1e-6);
        }
        for (size_t i = 64; i < 80; ++i) EXPECT_EQ(y[i], x[i]);
    }
}

// What is no number stays none: it must not look like a small one.
TEST(Elementwise, NotANumber) {
    for (const Isa isa : supported_isas()) {
        const KernelTable& t = kernel_table(isa);
        for (const int n : {16, 31, 64}) {
            auto x = ramp(n, -4, 4);
            EXPECT_TRUE(t.all_within(x.data(), n / 16 * 16, 4.0f));
            EXPECT_FALSE(t.all_within(x.data(), n / 16 * 16, 1.0f));
            for (const int at : {0, 9, 15, n - 1}) {
                const float kept =
                    std::exchange(x[static_cast<size_t>(at)], std::numeric_limits<float>::quiet_NaN());
                EXPECT_EQ(t.argmax(x.data(), n), at);
                std::vector<float> e(x.size());
                t.exp_scaled(x.data(), n, 4.0f, 1.0f, e.data());
                for (int i = 0; i < n; ++i) EXPECT_EQ(std::isnan(e[static_cast<size_t>(i)]), i == at) << i;
                EXPECT_TRUE(std::isnan(t.log_sum_exp(x.data(), n, 4.0f)));
                if (at < n / 16 * 16) {
                    EXPECT_FALSE(t.all_within(x.data(), n / 16 * 16, 100.0f));
                }
                x[static_cast<size_t>(at)] = kept;
            }
            x[3] = -std::numeric_limits<float>::infinity();
            EXPECT_FALSE(t.all_within(x.data(), 16, std::numeric_limits<float>::max()));
        }
    }
}

TEST(Elementwise, ReductionsOverAnyLength) {
    for (int n : {1, 15, 16, 17, 1000, 49152}) {
        auto x = ramp(n, -40, 12);
        x[static_cast<size_t>(n / 2)] = 12.5f;
        const int top = n / 2;
        if (n > 20) x[static_cast<size_t>(n - 1)] = 12.5f;  // a tie: the lower index wins
        double sum = 0;
        for (float v : x) sum += std::exp(static_cast<double>(v) - 12.5);
        for (Isa isa : supported_isas()) {
            EXPECT_EQ(kernel_table(isa).argmax(x.data(), n), top);
            EXPECT_NEAR(kernel_table(isa).log_sum_exp(x.data(), n, 12.5f), 12.5 + std::log(sum), 1e-5);
        }
        const auto e = same_everywhere([&](const KernelTable& t) {
            std::vector<float> out(x.size() + 1, 7.0f);
            t.exp_scaled(x.data(), n, 12.5f, 2.0f, out.data());
            out.push_back(t.log_sum_exp(x.data(), n, 12.5f));
            return out;
        });
        for (int i = 0; i < n; ++i)
            EXPECT_NEAR(e[static_cast<size_t>(i)],
                        std::exp((static_cast<double>(x[static_cast<size_t>(i)]) - 12.5) * 2), 1e-6);
        EXPECT_EQ(e[static_cast<size_t>(n)], 7.0f) << "wrote behind the end";
    }
}

TEST(Elementwise, StoreKvRoundsAsTheReference) {
    const auto k = ramp(64, -70000, 70000), v = ramp(64, -1e-6f, 1e-6f);  // overflow and subnormals included
    for (Isa isa : supported_isas()) {
        std::vector<uint16_t> kb(64 * 64), vb(64 * 64);
        kernel_table(isa).store_kv(k.data(), v.data(), 0, 64, 13, 1, KvType::f16,
                                   reinterpret_cast<uint8_t*>(kb.data()),
                                   reinterpret_cast<uint8_t*>(vb.data()));
        for (size_t d = 0; d < 64; ++d) {
            EXPECT_EQ(kb[d * 64 + 13], f32_to_f16(k[d])) << to_string(isa);
            EXPECT_EQ(vb[13 * 64 + d], f32_to_f16(v[d])) << to_string(isa);
        }
    }
}

TEST(Elementwise, StoreKvOfManyTokensIsThatOfEachEverywhere) {
    constexpr int dim = 96, stride = 200;
    auto k = ramp(stride * 64, -9, 9), v = ramp(stride * 64, 3, -3);
    k[5] = 1e-7f, k[6] = -1e6f, v[stride + 3] = 3e-41f;
    for (KvType type : all_kv_types)
        for (const auto& [slot, tokens] : {std::pair{0, 64}, {3, 16}, {5, 40}, {60, 4}, {16, 33}}) {
            const auto stored = [&](Isa isa, int step) {
                std::vector<uint8_t> block(2 * kv_head_bytes(type, dim), 0xee);
                for (int t = 0; t < tokens; t += step)
                    kernel_table(isa).store_kv(&k[static_cast<size_t>(t * stride)],
                                               &v[static_cast<size_t>(t * stride)], stride, dim, slot + t,
                                               std::min(step, tokens - t), type, block.data(),
                                               block.data() + kv_head_bytes(type, dim));
                return block;
            };
            const auto expected = stored(Isa::portable, 1);
            for (Isa isa : supported_isas())
                for (int step : {1, 7, 64})
                    ASSERT_EQ(stored(isa, step), expected)
                        << to_string(isa) << " " << to_string(type) << " from " << slot << ", " << tokens;
        }
}

TEST(IsaChoice, NamesAreCheckedByName) {
    EXPECT_TRUE(choose_isa("").ok());
    EXPECT_EQ(*choose_isa("portable"), Isa::portable);
    EXPECT_EQ(choose_isa("sse9").error().code, ErrorCode::invalid_argument);
    for (Isa isa : all_isas) {
        const char* name = to_string(isa);
        EXPECT_NE(choose_isa("sse9").error().message.find(name), std::string::npos);
        const auto chosen = choose_isa(name);
        if (!chosen) {
            EXPECT_NE(chosen.error().message.find("it has portable"), std::string::npos)
                << chosen.error().message;
        }
    }
}

}  // namespace
}  // namespace deepinfer::kernels
