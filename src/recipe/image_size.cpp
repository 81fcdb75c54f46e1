#include "recipe/image_size.h"

#include <algorithm>
#include <cmath>

namespace deepinfer::recipe {
namespace {

constexpr int64_t low_detail_side = 512;
constexpr int64_t webp_side = 16'380;  // the largest multiple of the patch that WebP holds
constexpr int most_passes = 64;        // to settle; strips of one pixel take 8

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t count_tokens(ImageSize canvas, const ImageLimits& limits) {
    const int64_t rows = divide_up(canvas.height / limits.patch, limits.ratio);
    const int64_t columns = divide_up(canvas.width / limits.patch, limits.ratio);
    return rows * (columns + 1) + 2;
}

}  // namespace

ImageGrid fit_image(ImageSize picture, const ImageLimits& limits) {
    const int64_t patch = limits.patch, cell = patch * limits.ratio;
    auto w = static_cast<double>(picture.width), h = static_cast<double>(picture.height);
    if (w * h < static_cast<double>(limits.least_pixels)) {
        const double r = std::sqrt(static_cast<double>(limits.least_pixels) / (w * h));
        w = std::trunc(w * r);
        h = std::trunc(h * r);
    }
    const auto up = [&](double side) {
        return patch * static_cast<int64_t>(std::ceil(side / static_cast<double>(patch)));
    };
    const auto down = [&](double side) {
        return patch * static_cast<int64_t>(std::floor(side / static_cast<double>(patch)));
    };
    ImageSize canvas{up(w), up(h)};
    if (count_tokens(canvas, limits) > limits.tokens) {
        const double q = h / w;
        const double columns = std::sqrt(static_cast<double>(limits.tokens - 2) / q + 0.25) - 0.5,
                     rows = columns * q;
        if (columns < 1) {
            canvas = {cell, cell * ((limits.tokens - 2) / 2)};
        } else if (rows < 1) {
            canvas = {cell * (limits.tokens - 3), cell};
        } else {
            const double b = std::min(std::floor(columns) * static_cast<double>(cell) / w,
                                      std::floor(rows) * static_cast<double>(cell) / h);
            canvas = {down(w * b), down(h * b)};
        }
    }
    return {canvas, count_tokens(canvas, limits)};
}

ImageGrid settle_image(ImageSize picture, const ImageLimits& limits) {
    ImageGrid grid = fit_image(picture, limits);
    for (int pass = 0; pass < most_passes; ++pass) {
        const ImageGrid next = fit_image(grid.canvas, limits);
        if (next.canvas == grid.canvas) break;
        grid = next;
    }
    return grid;
}

ImageGrid service_image(ImageSize picture, bool low_detail, const ImageLimits& limits) {
    const int64_t longest = std::max(picture.width, picture.height);
    if (low_detail && longest > low_detail_side) {
        const auto shrunk = [&](int64_t side) {
            const double exact = static_cast<double>(side) * low_detail_side / static_cast<double>(longest);
            return std::max<int64_t>(1, std::llround(exact));
        };
        picture = {shrunk(picture.width), shrunk(picture.height)};
    }
    ImageGrid grid = settle_image(picture, limits);
    for (int pass = 0; pass < most_passes; ++pass) {
        const int64_t side = std::max(grid.canvas.width, grid.canvas.height);
        if (side <= webp_side) break;
        const auto bounded = [&](int64_t s) {
            return s == side ? webp_side : limits.patch * divide_up(s * webp_side, side * limits.patch);
        };
        grid = settle_image({bounded(grid.canvas.width), bounded(grid.canvas.height)}, limits);
    }
    return grid;
}

}  // namespace deepinfer::recipe
