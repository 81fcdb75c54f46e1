#include "kernels/pack.h"

#include <cstring>

#include "base/half.h"
#include "kernels/pack_layout.h"

namespace deepinfer::kernels {

namespace {

void pack_floats(const uint8_t* source, int rows, int columns, size_t value_bytes, uint8_t* panel) {
    for (int n = 0; n < rows; ++n)
        for (int k = 0; k < columns; ++k)
            std::memcpy(
                panel + (static_cast<size_t>(k) * panel_outputs + static_cast<size_t>(n)) * value_bytes,
                source + (static_cast<size_t>(n) * static_cast<size_t>(columns) + static_cast<size_t>(k)) *
                             value_bytes,
                value_bytes);
}

template <WeightLayout F>
void pack_block32(const uint8_t* source, int rows, int columns, uint8_t* panel) {
    using L = Block32<F>;
    constexpr bool has_min = F == WeightLayout::q4_1, has_high = F == WeightLayout::q5_0,
                   bytes8 = F == WeightLayout::q8_0;
    const int blocks = columns / 32;
    for (int i = 0; i < rows; ++i)
        for (int b = 0; b < blocks; ++b) {
            uint8_t* group = panel + static_cast<size_t>(b / 2) * L::group;
            const int s = b % 2;
            std::memcpy(group + L::scales * s + 2 * i, source, 2);
            source += 2;
            if (has_min) {
                std::memcpy(group + L::scales * s + 32 + 2 * i, source, 2);
                source += 2;
            }
            if (has_high) {
                uint32_t high;
                std::memcpy(&high, source, 4);
                source += 4;
                for (int t = 0; t < 4; ++t) {
                    uint32_t bits = 0;
                    for (int j = 0; j < 4; ++j)
                        bits |= (high >> (4 * j + t) & 1) << j | (high >> (16 + 4 * j + t) & 1) << (4 + j);
                    group[2 * L::scales + 64 * s + 4 * i + t] = static_cast<uint8_t>(bits);
                }
            }
            uint8_t* q = group + 2 * (L::scales + L::high) + L::quants * s;
            for (int e = 0; e < (bytes8 ? 32 : 16); ++e)
                q[64 * (e / 4) + 4 * i + e % 4] = static_cast<uint8_t>(bytes8 ? source[e] ^ 0x80 : source[e]);
            source += bytes8 ? 32 : 16;
        }
}

void q4k_scale_min(const uint8_t* s, int j, int& scale, int& min) {  // the 12-byte packing of GGUF
    if (j < 4) {
        scale = s[j] & 63, min = s[j + 4] & 63;
    } else {
        scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

void pack_q4k(const uint8_t* source, int rows, int columns, uint8_t* panel) {
    for (int i = 0; i < rows; ++i)
        for (int b = 0; b < columns / 256; ++b, source += 144) {
            uint8_t* o = panel + static_cast<size_t>(b) * KQuant<WeightLayout::q4_k>::block;
            std::memcpy(o + 2 * i, source, 2);
            std::memcpy(o + 32 + 2 * i, source + 2, 2);
            for (int s = 0; s < 8; ++s) {
                int scale, min;
                q4k_scale_min(source + 4, s, scale, min);
                o[64 + 16 * s + i] = static_cast<uint8_t>((scale & 15) | (min & 15) << 4);
                uint8_t& high = o[192 + 16 * (s / 2) + i];
                high = static_cast<uint8_t>(high | (scale >> 4 | (min >> 4) << 2) << (4 * (s & 1)));
            }
            for (int c = 0; c < 4; ++c)
                for (int e = 0; e < 32; ++e)
                    o[256 + 512 * c + 64 * (e / 4) + 4 * i + e % 4] = source[16 + 32 * c + e];
        }
}

void pack_q6k(const uint8_t* source, int rows, int columns, uint8_t* panel) {
    for (int i = 0; i < rows; ++i)
        for (int b = 0; b < columns / 256; ++b, source += 210) {
            uint8_t* o = panel + static_cast<size_t>(b) * KQuant<WeightLayout::q6_k>::block;
            uint16_t half;
            std::memcpy(&half, source + 208, 2);
            const float d = f16_to_f32(half);
            std::memcpy(o + 4 * i, &d, 4);
            for (int s = 0; s < 16; ++s) o[64 + 16 * s + i] = source[192 + s];
            for (int h = 0; h < 2; ++h)
                for (int e = 0; e < 32; ++e) {
                    uint8_t* p = o + 320 + 1536 * h + 4 * i + e % 4;
                    p[128 * (e / 4)] = source[64 * h + e];
                    p[128 * (e / 4) + 64] = source[128 + 32 * h + e];
                    p[1024 + 64 * (e / 4)] = source[64 * h + 32 + e];
                }
        }
}

}  // namespace

std::optional<WeightLayout> packed_layout(TensorType type) {
    switch (type) {
        case TensorType::f32:
            return WeightLayout::f32;
        case TensorType::f16:
            return WeightLayout::f16;
        case TensorType::bf16:
            return WeightLayout::bf16;
        case TensorType::q4_0:
            return WeightLayout::q4_0;
        case TensorType::q4_1:
            return WeightLayout::q4_1;
        case TensorType::q5_0:
            return WeightLayout::q5_0;
        case TensorType::q8_0:
            return WeightLayout::q8_0;
        case TensorType::q4_k:
            return WeightLayout::q4_k;
        case TensorType::q6_k:
            return WeightLayout::q6_k;
        default:
            return std::nullopt;
    }
}

size_t panel_bytes(WeightLayout layout, int columns) {
    const size_t k = static_cast<size_t>(columns), groups = (k + 63) / 64;
    switch (layout) {
        case WeightLayout::f32:
            return k * 64;
        case WeightLayout::f16:
        case WeightLayout::bf16:
            return (k * 32 + 63) / 64 * 64;
        case WeightLayout::q4_0:
            return groups * Block32<WeightLayout::q4_0>::group;
        case WeightLayout::q4_1:
            return groups * Block32<WeightLayout::q4_1>::group;
        case WeightLayout::q5_0:
            return groups * Block32<WeightLayout::q5_0>::group;
        case WeightLayout::q8_0:
            return groups * Block32<WeightLayout::q8_0>::group;
        case WeightLayout::q4_k:
            return k / 256 * KQuant<WeightLayout::q4_k>::block;
        case WeightLayout::q6_k:
            return k / 256 * KQuant<WeightLayout::q6_k>::block;
    }
    return 0;
}

size_t gemm_scratch_bytes(WeightLayout layout, int columns) {
    if (layout != WeightLayout::q4_k && layout != WeightLayout::q6_k) return 0;
    const size_t panel = static_cast<size_t>(columns) / 256 * kquant_wide_bytes;
    return panel > kquant_wide_group ? panel : kquant_wide_group;
}

void pack_panel(WeightLayout layout, const void* source, int rows, int columns, uint8_t* panel) {
    const auto* bytes = static_cast<const uint8_t*>(source);
    switch (layout) {
        case WeightLayout::f32:
            return pack_floats(bytes, rows, columns, 4, panel);
        case WeightLayout::f16:
        case WeightLayout::bf16:
            return pack_floats(bytes, rows, columns, 2, panel);
        case WeightLayout::q4_0:
            return pack_block32<WeightLayout::q4_0>(bytes, rows, columns, panel);
        case WeightLayout::q4_1:
            return pack_block32<WeightLayout::q4_1>(bytes, rows, columns, panel);
        case WeightLayout::q5_0:
            return pack_block32<WeightLayout::q5_0>(bytes, rows, columns, panel);
        case WeightLayout::q8_0:
            return pack_block32<WeightLayout::q8_0>(bytes, rows, columns, panel);
        case WeightLayout::q4_k:
            return pack_q4k(bytes, rows, columns, panel);
        case WeightLayout::q6_k:
            return pack_q6k(bytes, rows, columns, panel);
    }
}

}  // namespace deepinfer::kernels
