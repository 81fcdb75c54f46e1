// Least squares with coefficients that are not negative, for a handful of coefficients.
#pragma once

#include <array>

namespace deepinfer::engine {

// Minimises c' A c / 2 - b' c over c >= 0 for a symmetric positive definite A (the normal equations of a least-squares problem,
// with something added to the diagonal). Lawson and Hanson's active-set method: exact up to rounding, the same bits for the
// same input. N is small: every step solves a system of up to N equations.
template <int N>
std::array<double, N> nnls(const std::array<std::array<double, N>, N>& a, const std::array<double, N>& b);

extern template std::array<double, 8> nnls<8>(const std::array<std::array<double, 8>, 8>&,
                                              const std::array<double, 8>&);

}  // namespace deepinfer::engine
