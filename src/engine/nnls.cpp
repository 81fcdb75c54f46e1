#include "engine/nnls.h"

#include <algorithm>
#include <cmath>

namespace deepinfer::engine {

namespace {

// Solves A z = b over the rows and columns that are `in`, by Cholesky's method; z = 0 elsewhere.
template <int N>
std::array<double, N> solve(const std::array<std::array<double, N>, N>& a, const std::array<double, N>& b,
                            const std::array<bool, N>& in) {
    std::array<std::array<double, N>, N> l{};
    std::array<double, N> z{};
    for (size_t i = 0; i < N; ++i) {
        if (!in[i]) continue;
        double rest = b[i];
        for (size_t j = 0; j <= i; ++j) {
            if (!in[j]) continue;
            double sum = a[i][j];
            for (size_t k = 0; k < j; ++k) sum -= l[i][k] * l[j][k];
            // Rounding can take the last bit of what makes A definite.
            l[i][j] = i == j ? std::sqrt(std::max(sum, 1e-14 * a[i][i])) : sum / l[j][j];
            if (j < i) rest -= l[i][j] * z[j];
        }
        z[i] = rest / l[i][i];
    }
    for (size_t i = N; i-- > 0;) {
        if (!in[i]) continue;
        for (size_t k = i + 1; k < N; ++k) z[i] -= l[k][i] * z[k];
        z[i] /= l[i][i];
    }
    return z;
}

}  // namespace

template <int N>
std::array<double, N> nnls(const std::array<std::array<double, N>, N>& a, const std::array<double, N>& b) {
    std::array<double, N> c{};
    std::array<bool, N> in{};
    constexpr int most_rounds = 4 * N;  // it ends by itself; rounding must not make it go round in circles
    for (int round = 0; round < most_rounds; ++round) {
        // The coefficient that gains most from becoming positive.
        int enter = -1;
        double most = 0;
        for (size_t i = 0; i < N; ++i) {
            if (in[i] || a[i][i] <= 0) continue;
            double gain = b[i];
            for (size_t j = 0; j < N; ++j) gain -= a[i][j] * c[j];
            gain /= std::sqrt(a[i][i]);
            if (gain > most && gain > 1e-12 * std::abs(b[i]) / std::sqrt(a[i][i]))
                most = gain, enter = static_cast<int>(i);
        }
        if (enter < 0) break;
        in[static_cast<size_t>(enter)] = true;
        for (;;) {
            const std::array<double, N> z = solve<N>(a, b, in);
            double step = 1;  // towards z, as far as nothing becomes negative
            size_t blocking = N;
            for (size_t i = 0; i < N; ++i)
                if (in[i] && z[i] <= 0 && c[i] / (c[i] - z[i]) < step)
                    step = c[i] / (c[i] - z[i]), blocking = i;
            for (size_t i = 0; i < N; ++i)
                if (in[i]) c[i] += step * (z[i] - c[i]);
            if (blocking == N) break;
            for (size_t i = 0; i < N; ++i)
                if (in[i] && (i == blocking || c[i] <= 0)) in[i] = false, c[i] = 0;
        }
    }
    return c;
}

template std::array<double, 8> nnls<8>(const std::array<std::array<double, 8>, 8>&,
                                       const std::array<double, 8>&);

}  // namespace deepinfer::engine
