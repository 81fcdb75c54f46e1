#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace deepinfer::models {

namespace {

void scale_llama3(const RopeScaling& s, std::vector<double>& frequencies) {
    const double longest = s.original_context / s.low_freq_factor,
                 shortest = s.original_context / s.high_freq_factor;
    for (double& f : frequencies) {
        const double wavelength = 2 * std::numbers::pi / f;
        if (wavelength < shortest) continue;
        if (wavelength > longest) {
            f /= s.factor;
            continue;
        }
        const double smooth =
            (s.original_context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
        f = (1 - smooth) * f / s.factor + smooth * f;
    }
}

void scale_yarn(const RopeScaling& s, double theta, int dim, std::vector<double>& frequencies) {
    // Dimension whose wavelength fits `rotations` times into the trained context.
    const auto dimension = [&](double rotations) {
        return dim * std::log(s.original_context / (rotations * 2 * std::numbers::pi)) /
               (2 * std::log(theta));
    };
    const double low = std::max(std::floor(dimension(s.beta_fast)), 0.0);
    const double high = std::min(std::ceil(dimension(s.beta_slow)), dim - 1.0);
    for (size_t i = 0; i < frequencies.size(); ++i) {
        const double ramp =
            std::clamp((static_cast<double>(i) - low) / std::max(high - low, 0.001), 0.0, 1.0);
        frequencies[i] = frequencies[i] / s.factor * ramp + frequencies[i] * (1 - ramp);
    }
}

}  // namespace

std::vector<double> rope_frequencies(const RopeConfig& config) {
    std::vector<double> frequencies(static_cast<size_t>(config.dim / 2));
    for (size_t i = 0; i < frequencies.size(); ++i)
        frequencies[i] = std::pow(config.theta, -2.0 * static_cast<double>(i) / config.dim);
    switch (config.scaling.kind) {
        case RopeScaling::Kind::none:
            break;
        case RopeScaling::Kind::linear:
            for (double& f : frequencies) f /= config.scaling.factor;
            break;
        case RopeScaling::Kind::llama3:
            scale_llama3(config.scaling, frequencies);
            break;
        case RopeScaling::Kind::yarn:
            scale_yarn(config.scaling, config.theta, config.dim, frequencies);
            break;
    }
    for (size_t i = 0; i < std::min(frequencies.size(), config.freq_factors.size()); ++i)
        frequencies[i] /= config.freq_factors[i];
    return frequencies;
}

RopeTable::RopeTable(const RopeConfig& config) : dim_(config.dim), frequencies_(rope_frequencies(config)) {
    if (config.scaling.kind == RopeScaling::Kind::yarn)
        magnitude_ = config.scaling.attention_factor > 0
                         ? config.scaling.attention_factor
                         : 0.1 * std::log(std::max(config.scaling.factor, 1.0)) + 1.0;
}

void RopeTable::ensure(int positions) {
    const size_t half = frequencies_.size(), dim = static_cast<size_t>(dim_);
    while (slabs_.size() * slab_positions < static_cast<size_t>(positions)) {
        const size_t first = slabs_.size() * slab_positions;
        auto slab = std::make_unique_for_overwrite<float[]>(slab_positions * dim);
        float* row = slab.get();
        for (size_t p = first; p < first + slab_positions; ++p, row += dim)
            for (size_t i = 0; i < half; ++i) {
                const double angle = static_cast<double>(p) * frequencies_[i];
                row[i] = static_cast<float>(std::cos(angle) * magnitude_);
                row[half + i] = static_cast<float>(std::sin(angle) * magnitude_);
            }
        slabs_.push_back(std::move(slab));
    }
}

}  // namespace deepinfer::models
