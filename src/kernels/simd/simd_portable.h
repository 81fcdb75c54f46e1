#pragma once

#include <math.h>

#include "base/half.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

struct F32 {
    float v[16];
};
struct I32 {
    int32_t v[16];
};
struct U8 {
    uint8_t v[64];
};

constexpr int isa_block32_rows = 1;
constexpr int isa_kquant_rows = 1;
constexpr int isa_float_rows = 1;
constexpr int isa_attention_rows = 1;

#define EACH(n) for (int i = 0; i < (n); ++i)
static inline F32 set1(float x) {
    F32 r;
    EACH(16) r.v[i] = x;
    return r;
}
static inline F32 zero() { return set1(0.f); }
static inline F32 load(const float* p) {
    F32 r;
    memcpy(r.v, p, 64);
    return r;
}
// Element i is p[i * stride].
static inline F32 load_strided(const float* p, int stride) {
    F32 r;
    EACH(16) r.v[i] = p[i * stride];
    return r;
}
static inline void store(float* p, F32 x) { memcpy(p, x.v, 64); }
static inline F32 load_f16(const uint16_t* p) {
    F32 r;
    EACH(16) r.v[i] = f16_to_f32(p[i]);
    return r;
}
static inline void store_f16(uint16_t* p, F32 x) { EACH(16) p[i] = f32_to_f16(x.v[i]); }
static inline float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static inline F32 load_bf16(const uint16_t* p) {
    F32 r;
    EACH(16) r.v[i] = float_of_bits((uint32_t)p[i] << 16);
    return r;
}
static inline F32 load_half_e8m0(const uint8_t* p) {
    F32 r;
    EACH(16) r.v[i] = float_of_bits(p[i] < 2 ? 0x00200000u << p[i] : (uint32_t)(p[i] - 1) << 23);
    return r;
}
static inline void store_bf16(uint16_t* p, F32 x) {
    EACH(16) {
        uint32_t bits;
        memcpy(&bits, &x.v[i], 4);
        p[i] = (uint16_t)((x.v[i] != x.v[i] ? bits | 0x400000u : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}
static inline F32 add(F32 a, F32 b) {
    EACH(16) a.v[i] += b.v[i];
    return a;
}
static inline F32 sub(F32 a, F32 b) {
    EACH(16) a.v[i] -= b.v[i];
    return a;
}
static inline F32 mul(F32 a, F32 b) {
    EACH(16) a.v[i] *= b.v[i];
    return a;
}
static inline F32 div(F32 a, F32 b) {
    EACH(16) a.v[i] /= b.v[i];
    return a;
}
static inline F32 min(F32 a, F32 b) {
    EACH(16) a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
    return a;
}
static inline F32 max(F32 a, F32 b) {
    EACH(16) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}
static inline F32 abs(F32 a) {
    EACH(16) a.v[i] = fabsf(a.v[i]);
    return a;
}
static inline F32 fma(F32 a, F32 b, F32 c) {
    EACH(16) c.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
    return c;
}
static inline F32 fnma(F32 a, F32 b, F32 c) {
    EACH(16) c.v[i] = fmaf(-a.v[i], b.v[i], c.v[i]);
    return c;
}
static inline F32 round_even(F32 a) {
    EACH(16) a.v[i] = rintf(a.v[i]);
    return a;
}
static inline F32 scale_by_power_of_two(F32 a, F32 n) {
    EACH(16) {
        const float e = !(n.v[i] >= -126.f) ? -126.f : n.v[i] > 127.f ? 127.f : n.v[i];  // NaN: a is NaN, too
        a.v[i] *= float_of_bits((uint32_t)((int)e + 127) << 23);
    }
    return a;
}
static inline F32 zero_where_less(F32 x, float bound, F32 y) {
    EACH(16) y.v[i] = x.v[i] < bound ? 0.f : y.v[i];
    return y;
}
static inline bool any_nan(F32 a) {
    bool any = false;
    EACH(16) any |= a.v[i] != a.v[i];
    return any;
}
static inline F32 select_negative(F32 x, F32 neg, F32 other) {
    EACH(16) other.v[i] = x.v[i] < 0.f ? neg.v[i] : other.v[i];
    return other;
}
static inline F32 keep_lanes(F32 a, int from, int to, F32 other) {
    EACH(16) other.v[i] = i >= from && i < to ? a.v[i] : other.v[i];
    return other;
}
static inline float reduce_add(F32 a) {
    for (int half = 8; half; half /= 2) EACH(half) a.v[i] += a.v[i + half];
    return a.v[0];
}
static inline float reduce_max(F32 a) {
    for (int half = 8; half; half /= 2) EACH(half) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
    return a.v[0];
}

static inline I32 set1_i32(int x) {
    I32 r;
    EACH(16) r.v[i] = x;
    return r;
}
static inline I32 zero_i32() { return set1_i32(0); }
static inline I32 load_i32(const void* p) {
    I32 r;
    memcpy(r.v, p, 64);
    return r;
}
static inline void store_i32(void* p, I32 x) { memcpy(p, x.v, 64); }
static inline I32 add_i32(I32 a, I32 b) {
    EACH(16) a.v[i] += b.v[i];
    return a;
}
static inline I32 mul_i32(I32 a, I32 b) {
    EACH(16) a.v[i] *= b.v[i];
    return a;
}
static inline void settle(I32&) {}
static inline F32 to_f32(I32 a) {
    F32 r;
    EACH(16) r.v[i] = (float)a.v[i];
    return r;
}
// Out of range and NaN give INT_MIN, as the vector instructions do.
static inline I32 to_i32(F32 a) {
    I32 r;
    EACH(16) r.v[i] = a.v[i] >= -2147483648.f && a.v[i] < 2147483648.f ? (int32_t)lrintf(a.v[i]) : INT32_MIN;
    return r;
}
static inline void store_i8(int8_t* p, I32 a) { EACH(16) p[i] = (int8_t)a.v[i]; }
static inline I32 max_i32(I32 a, I32 b) {
    EACH(16) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}
static inline I32 magnitude_bits(F32 a) {
    I32 r;
    memcpy(r.v, a.v, 64);
    EACH(16) r.v[i] &= 0x7fffffff;
    return r;
}
static inline void reduce_max4_i32(const I32* x, int* out) {
    for (int n = 0; n < 4; ++n) {
        out[n] = x[n].v[0];
        EACH(16) out[n] = x[n].v[i] > out[n] ? x[n].v[i] : out[n];
    }
}
static inline void reduce_add4_i32(const I32* x, int* out) {
    for (int n = 0; n < 4; ++n) {
        uint32_t sum = 0;
        EACH(16) sum += (uint32_t)x[n].v[i];
        out[n] = (int)sum;
    }
}
static inline int reduce_add_i32(I32 a) {
    int s = 0;
    EACH(16) s += a.v[i];
    return s;
}
static inline I32 widen_u8(const uint8_t* p) {
    I32 r;
    EACH(16) r.v[i] = p[i];
    return r;
}
static inline I32 widen_i8(const void* p) {
    I32 r;
    EACH(16) r.v[i] = ((const int8_t*)p)[i];
    return r;
}
static inline I32 shift_left_i32(I32 a, int n) {
    EACH(16) a.v[i] = (int32_t)((uint32_t)a.v[i] << n);
    return a;
}
static inline I32 shift_right_i32(I32 a, int n) {
    EACH(16) a.v[i] >>= n;
    return a;
}
static inline F32 high_bf16(I32 a) {
    F32 r;
    EACH(16) r.v[i] = float_of_bits((uint32_t)a.v[i] & 0xffff0000u);
    return r;
}
static inline F32 low_bf16(I32 a) {
    F32 r;
    EACH(16) r.v[i] = float_of_bits((uint32_t)a.v[i] << 16);
    return r;
}
static inline I32 or_i32(I32 a, I32 b) {
    EACH(16) a.v[i] |= b.v[i];
    return a;
}

static inline U8 load_u8(const uint8_t* p) {
    U8 r;
    memcpy(r.v, p, 64);
    return r;
}
static inline void store_u8(uint8_t* p, U8 a) { memcpy(p, a.v, 64); }
static inline U8 set1_u8(uint8_t x) {
    U8 r;
    EACH(64) r.v[i] = x;
    return r;
}
static inline U8 and_u8(U8 a, U8 b) {
    EACH(64) a.v[i] &= b.v[i];
    return a;
}
static inline U8 or_and_u8(U8 a, U8 b, U8 mask) {
    EACH(64) a.v[i] |= (uint8_t)(b.v[i] & mask.v[i]);
    return a;
}
static inline U8 shift_right_u8(U8 a, int n) {
    EACH(64) a.v[i] = (uint8_t)(a.v[i] >> n);
    return a;
}
static inline U8 shift_left_u8(U8 a, int n) {
    EACH(64) a.v[i] = (uint8_t)(a.v[i] << n);
    return a;
}
static inline U8 add_u8(U8 a, U8 b) {
    EACH(64) a.v[i] = (uint8_t)(a.v[i] + b.v[i]);
    return a;
}
static inline U8 mul_u16(U8 a, U8 b) {
    EACH(32) {
        uint16_t x, y;
        memcpy(&x, a.v + 2 * i, 2), memcpy(&y, b.v + 2 * i, 2);
        x = (uint16_t)((uint32_t)x * y);
        memcpy(a.v + 2 * i, &x, 2);
    }
    return a;
}
static inline U8 as_u8(I32 a) {
    U8 r;
    memcpy(r.v, a.v, 64);
    return r;
}
static inline U8 table_u8(const uint8_t* p) {
    U8 r;
    EACH(64) r.v[i] = p[i % 16];
    return r;
}
static inline U8 lookup_u8(U8 table, U8 index) {
    EACH(64) index.v[i] = table.v[index.v[i]];
    return index;
}
static inline I32 dot_u8_i8(I32 acc, U8 a, int b) {
    int8_t w[4];
    memcpy(w, &b, 4);
    EACH(16)
    acc.v[i] += a.v[4 * i] * w[0] + a.v[4 * i + 1] * w[1] + a.v[4 * i + 2] * w[2] + a.v[4 * i + 3] * w[3];
    return acc;
}
constexpr bool has_small_dots = false;  // dots.h
static inline I32 dot_i16(I32 acc, I32 a, int b) {
    const int lo = (int16_t)b, hi = b >> 16;
    EACH(16) acc.v[i] += (int16_t)a.v[i] * lo + (a.v[i] >> 16) * hi;
    return acc;
}

// Subnormal inputs and results become zero, as FlushSubnormals has it where the processor does the work.
struct [[maybe_unused]] FlushSubnormals {};
static inline float flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.f, x) : x; }
static inline float fma_flushed(float a, float b, float c) {
    a = flush(a), b = flush(b), c = flush(c);
    const float r = fmaf(a, b, c);
    // The processor decides after rounding to 24 bits, so what only subnormal rounding lifted to the smallest
    // normal number is zero, too: round again, away from the bound.
    if (fabsf(r) == 0x1p-126f && fabsf(fmaf(a * 0x1p32f, b, c * 0x1p32f)) < 0x1p-94f)
        return copysignf(0.f, r);
    return flush(r);
}
static inline F32 fma_flushed(F32 a, F32 b, F32 c) {
    EACH(16) c.v[i] = fma_flushed(a.v[i], b.v[i], c.v[i]);
    return c;
}
#undef EACH

static inline void prefetch(const void*) {}

}  // namespace deepinfer::kernels::DEEPINFER_ISA
