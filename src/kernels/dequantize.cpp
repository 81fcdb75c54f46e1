#include "kernels/dequantize.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/half.h"
#include "kernels/codebooks.h"

namespace deepinfer::kernels {
namespace {

uint16_t load_u16(const uint8_t* bytes) {
    uint16_t value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

uint32_t load_u32(const uint8_t* bytes) {
    uint32_t value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

float load_f16(const uint8_t* bytes) { return f16_to_f32(load_u16(bytes)); }

// --- Blocks of 32: 16 bytes hold the low nibbles of values 0..15 and, above them, those of values 16..31.
// ---

// f16 scale, 32 signed bytes.
void q8_0_block(const uint8_t* block, float* dst) {
    const float d = load_f16(block);
    for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

// f16 scale, nibbles biased by 8.
void q4_0_block(const uint8_t* block, float* dst) {
    const float d = load_f16(block);
    const uint8_t* nibbles = block + 2;
    for (int i = 0; i < 16; ++i) {
        dst[i] = d * static_cast<float>((nibbles[i] & 0xf) - 8);
        dst[i + 16] = d * static_cast<float>((nibbles[i] >> 4) - 8);
    }
}

// f16 scale, f16 minimum, nibbles.
void q4_1_block(const uint8_t* block, float* dst) {
    const float d = load_f16(block), minimum = load_f16(block + 2);
    const uint8_t* nibbles = block + 4;
    for (int i = 0; i < 16; ++i) {
        dst[i] = d * static_cast<float>(nibbles[i] & 0xf) + minimum;
        dst[i + 16] = d * static_cast<float>(nibbles[i] >> 4) + minimum;
    }
}

// Value i of five bits: a nibble as above, and bit i of a 32-bit word.
int five_bits(const uint8_t* nibbles, uint32_t high_bits, int i) {
    const int low = i < 16 ? nibbles[i] & 0xf : nibbles[i - 16] >> 4;
    return low | static_cast<int>((high_bits >> i) & 1u) << 4;
}

// f16 scale, 32 high bits, nibbles; biased by 16.
void q5_0_block(const uint8_t* block, float* dst) {
    const float d = load_f16(block);
    const uint32_t high_bits = load_u32(block + 2);
    for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(five_bits(block + 6, high_bits, i) - 16);
}

// f16 scale, f16 minimum, 32 high bits, nibbles.
void q5_1_block(const uint8_t* block, float* dst) {
    const float d = load_f16(block), minimum = load_f16(block + 2);
    const uint32_t high_bits = load_u32(block + 4);
    for (int i = 0; i < 32; ++i)
        dst[i] = d * static_cast<float>(five_bits(block + 8, high_bits, i)) + minimum;
}

// f16 scale, nibbles that index a fixed non-linear table.
void iq4_nl_block(const uint8_t* block, float* dst) {
    const float d = load_f16(block);
    const uint8_t* nibbles = block + 2;
    for (int i = 0; i < 16; ++i) {
        dst[i] = d * static_cast<float>(iq4_nl_values[nibbles[i] & 0xf]);
        dst[i + 16] = d * static_cast<float>(iq4_nl_values[nibbles[i] >> 4]);
    }
}

// E8M0 exponent byte e: scale 2^(e-127); nibbles are E2M1. The table holds twice the E2M1 values, so the
// scale is halved. e = 255, which OCP calls NaN, is 2^127 here, as in GGUF.
void mxfp4_block(const uint8_t* block, float* dst) {
    const uint32_t e = block[0];
    const float half_scale = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    const uint8_t* nibbles = block + 1;
    for (int i = 0; i < 16; ++i) {
        dst[i] = half_scale * static_cast<float>(mxfp4_doubled_values[nibbles[i] & 0xf]);
        dst[i + 16] = half_scale * static_cast<float>(mxfp4_doubled_values[nibbles[i] >> 4]);
    }
}

// --- Super-blocks of 256 ("K"): sub-blocks of 16 or 32 values with small integer scales of their own. ---

// Two-bit value i: byte i mod 32 of the half i / 128, its bit pair (i / 32) mod 4.
int two_bits(const uint8_t* packed, int i) { return (packed[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3; }

// Four-bit value i: byte i mod 32 of the quarter i / 64, low nibbles first.
int four_bits(const uint8_t* packed, int i) {
    return (packed[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 0xf;
}

// 16 x (4-bit scale, 4-bit minimum), 2-bit values, f16 d, f16 dmin.
void q2_k_block(const uint8_t* block, float* dst) {
    const uint8_t* scales = block;
    const uint8_t* packed = block + 16;
    const float d = load_f16(block + 80), dmin = load_f16(block + 82);
    for (int i = 0; i < 256; ++i) {
        const uint8_t scale = scales[i / 16];
        dst[i] = d * static_cast<float>(scale & 0xf) * static_cast<float>(two_bits(packed, i)) -
                 dmin * static_cast<float>(scale >> 4);
    }
}

// Scale j of Q3_K: low nibble in bytes 0..7 (scales 0..7 low, 8..15 high halves), two high bits in
// bytes 8..11; biased by 32.
int q3_k_scale(const uint8_t* scales, int j) {
    const int low = j < 8 ? scales[j] & 0xf : scales[j - 8] >> 4;
    const int high = (scales[8 + j % 4] >> (j / 4 * 2)) & 3;
    return (low | high << 4) - 32;
}

// 256 high bits, 2-bit values, 16 6-bit scales, f16 d. A value is its low two bits, less 4 where the high bit
// is clear.
void q3_k_block(const uint8_t* block, float* dst) {
    const uint8_t* high_bits = block;
    const uint8_t* packed = block + 32;
    const uint8_t* scales = block + 96;
    const float d = load_f16(block + 108);
    for (int i = 0; i < 256; ++i) {
        const int high = (high_bits[i % 32] >> (i / 32)) & 1;
        const int value = two_bits(packed, i) - (high ? 0 : 4);
        dst[i] = d * static_cast<float>(q3_k_scale(scales, i / 16)) * static_cast<float>(value);
    }
}

struct ScaleAndMinimum {
    int scale, minimum;
};

// Pair j of the eight 6-bit (scale, minimum) pairs that Q4_K and Q5_K pack into 12 bytes: pairs 0..3 in the
// low six bits of bytes j and j+4; pairs 4..7 as nibbles of byte j+4 completed by the high two bits of the
// former.
ScaleAndMinimum k_scale(const uint8_t* scales, int j) {
    if (j < 4) return {scales[j] & 63, scales[j + 4] & 63};
    return {(scales[j + 4] & 0xf) | (scales[j - 4] >> 6) << 4, (scales[j + 4] >> 4) | (scales[j] >> 6) << 4};
}

// f16 d, f16 dmin, 12 bytes of scales, 4-bit values.
void q4_k_block(const uint8_t* block, float* dst) {
    const float d = load_f16(block), dmin = load_f16(block + 2);
    const uint8_t* packed = block + 16;
    for (int i = 0; i < 256; ++i) {
        const ScaleAndMinimum s = k_scale(block + 4, i / 32);
        dst[i] = d * static_cast<float>(s.scale) * static_cast<float>(four_bits(packed, i)) -
                 dmin * static_cast<float>(s.minimum);
    }
}

// f16 d, f16 dmin, 12 bytes of scales, 256 high bits, 4-bit values.
void q5_k_block(const uint8_t* block, float* dst) {
    const float d = load_f16(block), dmin = load_f16(block + 2);
    const uint8_t* high_bits = block + 16;
    const uint8_t* packed = block + 48;
    for (int i = 0; i < 256; ++i) {
        const ScaleAndMinimum s = k_scale(block + 4, i / 32);
        const int value = four_bits(packed, i) | ((high_bits[i % 32] >> (i / 32)) & 1) << 4;
        dst[i] = d * static_cast<float>(s.scale) * static_cast<float>(value) -
                 dmin * static_cast<float>(s.minimum);
    }
}

// 4 low bits, 2 high bits, 16 signed 8-bit scales, f16 d; values biased by 32. Low bits: byte i mod 64 of the
// half i / 128.
void q6_k_block(const uint8_t* block, float* dst) {
    const uint8_t* low_bits = block;
    const uint8_t* high_bits = block + 128;
    const uint8_t* scales = block + 192;
    const float d = load_f16(block + 208);
    for (int i = 0; i < 256; ++i) {
        const int low = (low_bits[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4)) & 0xf;
        const int value = (low | two_bits(high_bits, i) << 4) - 32;
        dst[i] = d * static_cast<float>(static_cast<int8_t>(scales[i / 16])) * static_cast<float>(value);
    }
}

template <class BlockFunction>
void each_block(TensorType type, const uint8_t* src, float* dst, size_t values,
                BlockFunction dequantize_block) {
    const TensorTypeTraits& layout = traits(type);
    for (size_t i = 0; i < values; i += layout.block_values) {
        dequantize_block(src, dst + i);
        src += layout.block_bytes;
    }
}

}  // namespace

void dequantize_row(TensorType type, const void* src, float* dst, size_t values) {
    const auto* bytes = static_cast<const uint8_t*>(src);
    switch (type) {
        case TensorType::f32:
            std::memcpy(dst, src, values * sizeof(float));
            return;
        case TensorType::f16:
            for (size_t i = 0; i < values; ++i) dst[i] = load_f16(bytes + 2 * i);
            return;
        case TensorType::bf16:
            for (size_t i = 0; i < values; ++i) dst[i] = bf16_to_f32(load_u16(bytes + 2 * i));
            return;
        case TensorType::q4_0:
            return each_block(type, bytes, dst, values, q4_0_block);
        case TensorType::q4_1:
            return each_block(type, bytes, dst, values, q4_1_block);
        case TensorType::q5_0:
            return each_block(type, bytes, dst, values, q5_0_block);
        case TensorType::q5_1:
            return each_block(type, bytes, dst, values, q5_1_block);
        case TensorType::q8_0:
            return each_block(type, bytes, dst, values, q8_0_block);
        case TensorType::q2_k:
            return each_block(type, bytes, dst, values, q2_k_block);
        case TensorType::q3_k:
            return each_block(type, bytes, dst, values, q3_k_block);
        case TensorType::q4_k:
            return each_block(type, bytes, dst, values, q4_k_block);
        case TensorType::q5_k:
            return each_block(type, bytes, dst, values, q5_k_block);
        case TensorType::q6_k:
            return each_block(type, bytes, dst, values, q6_k_block);
        case TensorType::iq4_nl:
            return each_block(type, bytes, dst, values, iq4_nl_block);
        case TensorType::mxfp4:
            return each_block(type, bytes, dst, values, mxfp4_block);
    }
}

}  // namespace deepinfer::kernels
