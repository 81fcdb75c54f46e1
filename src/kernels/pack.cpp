#include "kernels/pack.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/half.h"
#include "kernels/pack_layout.h"

namespace deepinfer::kernels {

namespace {

using Layout = WeightLayout;

uint32_t load32(const uint8_t* p) {
    uint32_t v;
    std::memcpy(&v, p, 4);
    return v;
}
void store32(uint8_t* p, uint32_t v) { std::memcpy(p, &v, 4); }

// Words of 4 bytes from the file to lines of 16 words: `line` points at this output's word of the first line.
void copy_words(const uint8_t* source, int words, uint8_t* line, int line_stride = 64) {
    for (int j = 0; j < words; ++j) store32(line + line_stride * j, load32(source + 4 * j));
}
// Bytes to rows of 16 bytes.
void copy_bytes(const uint8_t* source, int bytes, uint8_t* row) {
    for (int b = 0; b < bytes; ++b) row[16 * b] = source[b];
}

// Calls pack(source block, output, block) for every block of the panel, all outputs of a block after another: the
// panel is written in one stream. The rows are too many streams for the hardware's prefetching, so the next panel is
// asked for in the same order, or, if the two would not fit into the second-level cache, each stream a little ahead.
template <class Pack>
void each_block(const uint8_t* source, int rows, int blocks, size_t block_bytes, Pack&& pack) {
    const size_t row_bytes = static_cast<size_t>(blocks) * block_bytes, panel = row_bytes * panel_outputs;
    const size_t ahead = panel <= 512u << 10 ? panel : 256;
    for (int b = 0; b < blocks; ++b, source += block_bytes)
        for (int i = 0; i < rows; ++i) {
            const uint8_t* p = source + static_cast<size_t>(i) * row_bytes;
            for (size_t line = 0; line < block_bytes; line += 64) __builtin_prefetch(p + ahead + line);
            pack(p, i, b);
        }
}

// Units of `Bytes` bytes, one line per unit.
template <int Bytes>
void pack_units(const uint8_t* source, int rows, int units, uint8_t* panel) {
    each_block(source, rows, units / 8, 8 * Bytes, [&](const uint8_t* p, int i, int b) {
        uint8_t* o = panel + static_cast<size_t>(b) * 8 * 16 * Bytes + i * Bytes;
        for (int k = 0; k < 8; ++k) std::memcpy(o + 16 * Bytes * k, p + Bytes * k, Bytes);
    });
}

// Byte t of entry b: bits 0 and 1 are bit t of b's low and high nibble.
constexpr std::array<uint32_t, 256> nibble_columns = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t b = 0; b < 256; ++b)
        for (uint32_t t = 0; t < 4; ++t) table[b] |= ((b >> t & 1) | (b >> (4 + t) & 1) << 1) << 8 * t;
    return table;
}();

template <Layout F>
void pack_block32(const uint8_t* source, int rows, int columns, uint8_t* panel) {
    using L = Block32<F>;
    constexpr bool bytes8 = F == Layout::q8_0;
    constexpr int scale_bytes = L::scales / 16;  // per output
    constexpr int block_bytes = scale_bytes + (L::has_high ? 4 : 0) + (bytes8 ? 32 : 16);
    each_block(source, rows, columns / 32, block_bytes, [&](const uint8_t* p, int i, int b) {
        const size_t g = static_cast<size_t>(b / 2);
        const int s = b % 2;
        uint8_t* scales = panel + L::header_at(g / L::shared * L::shared) +
                          (static_cast<int>(g) % L::shared * 2 + s) * L::scales;
        uint8_t* lines = panel + L::group_at(g);
        if constexpr (F == Layout::mxfp4) {
            scales[i] = p[0];
        } else {
            std::memcpy(scales + 2 * i, p, 2);
            if (L::has_min) std::memcpy(scales + 32 + 2 * i, p + 2, 2);
        }
        p += scale_bytes;
        if constexpr (L::has_high) {
            store32(lines + 64 * s + 4 * i, nibble_columns[p[0]] | nibble_columns[p[1]] << 2 |
                                                nibble_columns[p[2]] << 4 | nibble_columns[p[3]] << 6);
            p += 4;
        }
        uint8_t* q = lines + 2 * L::high + L::quants * s + 4 * i;
        for (int j = 0; j < L::quants / 64; ++j)
            store32(q + 64 * j, load32(p + 4 * j) ^ (bytes8 ? 0x80808080u : 0u));
    });
}

void store_f16_as_float(const uint8_t* half, uint8_t* out) {
    uint16_t bits;
    std::memcpy(&bits, half, 2);
    const float value = f16_to_f32(bits);
    std::memcpy(out, &value, 4);
}

void pack_q2k(const uint8_t* p, int i, uint8_t* o) {
    std::memcpy(o + 2 * i, p + 80, 2);
    std::memcpy(o + 32 + 2 * i, p + 82, 2);
    copy_bytes(p, 16, o + 64 + i);
    copy_words(p + 16, 16, o + 320 + 4 * i);
}

void pack_q3k(const uint8_t* p, int i, uint8_t* o) {
    store_f16_as_float(p + 108, o + 4 * i);
    copy_bytes(p + 96, 12, o + 64 + i);
    for (int h = 0; h < 2; ++h) {
        uint8_t* half = o + KQuant<Layout::q3_k>::quants + KQuant<Layout::q3_k>::chunk * h + 4 * i;
        for (int j = 0; j < 4; ++j)
            store32(half + 64 * j, (load32(p + 8 * j) >> (4 * h) & 0x0f0f0f0fu) |
                                       (load32(p + 8 * j + 4) >> (4 * h) & 0x0f0f0f0fu) << 4);
        copy_words(p + 32 + 32 * h, 8, half + 256);
    }
}

void pack_q4k(const uint8_t* p, int i, uint8_t* o) {
    std::memcpy(o + 2 * i, p, 2);
    std::memcpy(o + 32 + 2 * i, p + 2, 2);
    copy_bytes(p + 4, 12, o + 64 + i);
    copy_words(p + 16, 32, o + 256 + 4 * i);
}

void pack_q5k(const uint8_t* p, int i, uint8_t* o) {
    std::memcpy(o + 2 * i, p, 2);
    std::memcpy(o + 32 + 2 * i, p + 2, 2);
    copy_bytes(p + 4, 12, o + 64 + i);
    // Bit s of a byte belongs to sub-block s: two bits of each of four lines make the byte of a fifth-bit line.
    for (int u = 0; u < 2; ++u) {
        uint32_t lines[4] = {};
        for (int j = 0; j < 4; ++j) {
            const uint32_t w = load32(p + 16 + 16 * u + 4 * j);
            for (int c = 0; c < 4; ++c) {
                const uint32_t two = w >> (2 * c) & 0x03030303u;
                lines[c] |= ((two | two << 3) & 0x11111111u) << j;
            }
        }
        for (int c = 0; c < 4; ++c) store32(o + 256 + 640 * c + 64 * u + 4 * i, lines[c]);
    }
    for (int c = 0; c < 4; ++c) copy_words(p + 48 + 32 * c, 8, o + 256 + 640 * c + 128 + 4 * i);
}

void pack_q6k(const uint8_t* p, int i, uint8_t* o) {
    store_f16_as_float(p + 208, o + 4 * i);
    copy_bytes(p + 192, 16, o + 64 + i);
    for (int h = 0; h < 2; ++h) {
        uint8_t* half = o + 320 + 1536 * h + 4 * i;
        copy_words(p + 64 * h, 8, half, 128);
        copy_words(p + 128 + 32 * h, 8, half + 64, 128);
        copy_words(p + 64 * h + 32, 8, half + 1024);
    }
}

template <Layout F, class PackBlock>
void pack_kquant(const uint8_t* source, int rows, int columns, TensorType type, uint8_t* panel,
                 PackBlock pack_block) {
    each_block(source, rows, columns / 256, traits(type).block_bytes, [&](const uint8_t* p, int i, int b) {
        pack_block(p, i, panel + static_cast<size_t>(b) * KQuant<F>::block);
    });
}

}  // namespace

std::optional<WeightLayout> packed_layout(TensorType type, Compute compute) {
    const bool serve = compute == Compute::serve;
    const auto if_serving = [&](Layout layout) { return serve ? std::optional(layout) : std::nullopt; };
    switch (type) {
        case TensorType::f32:
            return Layout::f32;
        case TensorType::f16:
            return Layout::f16;
        case TensorType::bf16:
            return serve ? Layout::bf16_pairs : Layout::bf16;
        case TensorType::q4_0:
            return if_serving(Layout::q4_0);
        case TensorType::q4_1:
            return if_serving(Layout::q4_1);
        case TensorType::q5_0:
            return if_serving(Layout::q5_0);
        case TensorType::q5_1:
            return if_serving(Layout::q5_1);
        case TensorType::q8_0:
            return if_serving(Layout::q8_0);
        case TensorType::iq4_nl:
            return if_serving(Layout::iq4_nl);
        case TensorType::mxfp4:
            return if_serving(Layout::mxfp4);
        case TensorType::q2_k:
            return if_serving(Layout::q2_k);
        case TensorType::q3_k:
            return if_serving(Layout::q3_k);
        case TensorType::q4_k:
            return if_serving(Layout::q4_k);
        case TensorType::q5_k:
            return if_serving(Layout::q5_k);
        case TensorType::q6_k:
            return if_serving(Layout::q6_k);
    }
    return std::nullopt;
}

size_t panel_bytes(WeightLayout layout, int columns) {
    const size_t k = static_cast<size_t>(columns), groups = (k + 63) / 64;
    switch (layout) {
        case Layout::f32:
            return k * 64;
        case Layout::f16:
        case Layout::bf16:
        case Layout::bf16_pairs:
            return k * 32;
        case Layout::q4_0:
            return Block32<Layout::q4_0>::panel_bytes(groups);
        case Layout::q4_1:
            return Block32<Layout::q4_1>::panel_bytes(groups);
        case Layout::q5_0:
            return Block32<Layout::q5_0>::panel_bytes(groups);
        case Layout::q5_1:
            return Block32<Layout::q5_1>::panel_bytes(groups);
        case Layout::q8_0:
            return Block32<Layout::q8_0>::panel_bytes(groups);
        case Layout::iq4_nl:
            return Block32<Layout::iq4_nl>::panel_bytes(groups);
        case Layout::mxfp4:
            return Block32<Layout::mxfp4>::panel_bytes(groups);
        case Layout::q2_k:
            return k / 256 * KQuant<Layout::q2_k>::block;
        case Layout::q3_k:
            return k / 256 * KQuant<Layout::q3_k>::block;
        case Layout::q4_k:
            return k / 256 * KQuant<Layout::q4_k>::block;
        case Layout::q5_k:
            return k / 256 * KQuant<Layout::q5_k>::block;
        case Layout::q6_k:
            return k / 256 * KQuant<Layout::q6_k>::block;
    }
    return 0;
}

void pack_panel(WeightLayout layout, const void* source, int rows, int columns, uint8_t* panel) {
    const auto* bytes = static_cast<const uint8_t*>(source);
    switch (layout) {
        case Layout::f32:
            return pack_units<4>(bytes, rows, columns, panel);
        case Layout::f16:
        case Layout::bf16:
            return pack_units<2>(bytes, rows, columns, panel);
        case Layout::bf16_pairs:
            return pack_units<4>(bytes, rows, columns / 2, panel);
        case Layout::q4_0:
            return pack_block32<Layout::q4_0>(bytes, rows, columns, panel);
        case Layout::q4_1:
            return pack_block32<Layout::q4_1>(bytes, rows, columns, panel);
        case Layout::q5_0:
            return pack_block32<Layout::q5_0>(bytes, rows, columns, panel);
        case Layout::q5_1:
            return pack_block32<Layout::q5_1>(bytes, rows, columns, panel);
        case Layout::q8_0:
            return pack_block32<Layout::q8_0>(bytes, rows, columns, panel);
        case Layout::iq4_nl:
            return pack_block32<Layout::iq4_nl>(bytes, rows, columns, panel);
        case Layout::mxfp4:
            return pack_block32<Layout::mxfp4>(bytes, rows, columns, panel);
        case Layout::q2_k:
            return pack_kquant<Layout::q2_k>(bytes, rows, columns, TensorType::q2_k, panel, pack_q2k);
        case Layout::q3_k:
            return pack_kquant<Layout::q3_k>(bytes, rows, columns, TensorType::q3_k, panel, pack_q3k);
        case Layout::q4_k:
            return pack_kquant<Layout::q4_k>(bytes, rows, columns, TensorType::q4_k, panel, pack_q4k);
        case Layout::q5_k:
            return pack_kquant<Layout::q5_k>(bytes, rows, columns, TensorType::q5_k, panel, pack_q5k);
        case Layout::q6_k:
            return pack_kquant<Layout::q6_k>(bytes, rows, columns, TensorType::q6_k, panel, pack_q6k);
    }
}

}  // namespace deepinfer::kernels
