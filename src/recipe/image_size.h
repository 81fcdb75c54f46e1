// How large a picture becomes for DeepSeek V4.1, and how many tokens it takes.
#pragma once

#include <cstdint>

namespace deepinfer::recipe {

struct ImageSize {
    int64_t width = 0, height = 0;
    bool operator==(const ImageSize&) const = default;
};

struct ImageLimits {
    int64_t patch = 14;     // pixels a side
    int64_t ratio = 3;      // patches a side that become one token
    int64_t tokens = 1024;  // of one picture
    int64_t least_pixels = 544 * 544;
};

struct ImageGrid {
    ImageSize canvas;  // multiples of the patch
    int64_t tokens =
        0;  // rows * (columns + 1) + 2: each row ends with one, and the picture has two around it
};

// One application of the model's size rule. Sides must be positive.
ImageGrid fit_image(ImageSize picture, const ImageLimits& limits = {});

// The rule applied to its own result until that stays: what the model makes of a picture that was resized for it before.
ImageGrid settle_image(ImageSize picture, const ImageLimits& limits = {});

// The canvas that the official service encodes a picture on: `low` detail shrinks it first; WebP bounds its sides.
ImageGrid service_image(ImageSize picture, bool low_detail, const ImageLimits& limits = {});

}  // namespace deepinfer::recipe
