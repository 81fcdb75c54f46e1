#pragma once

#include <immintrin.h>

namespace deepinfer::kernels::DEEPINFER_ISA {

using F32 = __m512;
using I32 = __m512i;  // 16 x int32
using U8 = __m512i;   // 64 x uint8

constexpr int isa_block32_rows = 12;  // row tile of the 32-block kernels: 12 int32 + 12 float accumulators
constexpr int isa_kquant_rows = 8;
constexpr int isa_float_rows = 12;
constexpr int isa_attention_rows = 6;  // rows x 4 accumulators of 16 keys

static inline F32 zero() { return _mm512_setzero_ps(); }
static inline F32 set1(float x) { return _mm512_set1_ps(x); }
static inline F32 load(const float* p) { return _mm512_loadu_ps(p); }
// Element i is p[i * stride].
static inline F32 load_strided(const float* p, int stride) {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_i32gather_ps(_mm512_mullo_epi32(lanes, _mm512_set1_epi32(stride)), p, 4);
}
static inline void store(float* p, F32 x) { _mm512_storeu_ps(p, x); }
static inline F32 load_f16(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
}
static inline void store_f16(uint16_t* p, F32 x) {
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline F32 load_bf16(const uint16_t* p) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}
// 2^(e - 128) of 16 exponent bytes; subnormal for e < 2.
static inline F32 load_half_e8m0(const uint8_t* p) {
    const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)), one = _mm512_set1_epi32(1);
    const __m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
    return _mm512_castsi512_ps(
        _mm512_mask_sllv_epi32(bits, _mm512_cmple_epu32_mask(e, one), _mm512_set1_epi32(0x00200000), e));
}
// Rounded to nearest even; NaN stays NaN.
static inline void store_bf16(uint16_t* p, F32 x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    r = _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}
static inline F32 add(F32 a, F32 b) { return _mm512_add_ps(a, b); }
static inline F32 sub(F32 a, F32 b) { return _mm512_sub_ps(a, b); }
static inline F32 mul(F32 a, F32 b) { return _mm512_mul_ps(a, b); }
static inline F32 div(F32 a, F32 b) { return _mm512_div_ps(a, b); }
static inline F32 min(F32 a, F32 b) { return _mm512_min_ps(a, b); }  // min, max: b if either is NaN
static inline F32 max(F32 a, F32 b) { return _mm512_max_ps(a, b); }
static inline F32 abs(F32 a) { return _mm512_abs_ps(a); }
static inline F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }    // a*b + c
static inline F32 fnma(F32 a, F32 b, F32 c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a*b
static inline F32 round_even(F32 a) { return _mm512_roundscale_ps(a, 0); }
static inline F32 scale_by_power_of_two(F32 a, F32 n) { return _mm512_scalef_ps(a, n); }
static inline F32 zero_where_less(F32 x, float bound, F32 y) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(bound), _CMP_NLT_UQ), y);
}
static inline bool any_nan(F32 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q) != 0; }
static inline F32 select_negative(F32 x, F32 if_negative, F32 otherwise) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), otherwise,
                                if_negative);
}
// Lanes [from, to) of a, `other` elsewhere. Bounds outside 0..16 are clipped.
static inline F32 keep_lanes(F32 a, int from, int to, F32 other) {
    const uint32_t below_to = to >= 16 ? 0xffffu : to <= 0 ? 0 : (1u << to) - 1;
    const uint32_t below_from = from >= 16 ? 0xffffu : from <= 0 ? 0 : (1u << from) - 1;
    return _mm512_mask_blend_ps((__mmask16)(below_to & ~below_from), other, a);
}
// Fixed trees: lane i with i+8, then i+4, i+2, i+1.
static inline float reduce_add(F32 a) {
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
static inline float reduce_max(F32 a) { return _mm512_reduce_max_ps(a); }

static inline I32 zero_i32() { return _mm512_setzero_si512(); }
static inline I32 set1_i32(int x) { return _mm512_set1_epi32(x); }
static inline I32 load_i32(const void* p) { return _mm512_loadu_si512(p); }
static inline void store_i32(void* p, I32 x) { _mm512_storeu_si512(p, x); }
static inline I32 add_i32(I32 a, I32 b) { return _mm512_add_epi32(a, b); }
static inline I32 mul_i32(I32 a, I32 b) { return _mm512_mullo_epi32(a, b); }
// The value is computed here and not where it is used.
static inline void settle(I32& a) { asm volatile("" : "+v"(a)); }
static inline F32 to_f32(I32 a) { return _mm512_cvtepi32_ps(a); }
static inline I32 to_i32(F32 a) { return _mm512_cvtps_epi32(a); }  // round to nearest even
static inline void store_i8(int8_t* p, I32 a) { _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(a)); }
static inline I32 max_i32(I32 a, I32 b) { return _mm512_max_epi32(a, b); }
static inline I32 magnitude_bits(F32 a) {
    return _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffffff));
}
// out[i] = maximum, sum of x[i]'s lanes.
static inline void reduce_max4_i32(const I32* x, int* out) {
    const I32 a = max_i32(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
    const I32 b = max_i32(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
    const I32 c = max_i32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    const __m256i d = _mm256_max_epi32(_mm512_castsi512_si256(c), _mm512_extracti64x4_epi64(c, 1));
    _mm_storeu_si128((__m128i*)out, _mm_max_epi32(_mm256_castsi256_si128(d), _mm256_extracti128_si256(d, 1)));
}
static inline void reduce_add4_i32(const I32* x, int* out) {
    const I32 a = add_i32(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
    const I32 b = add_i32(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
    const I32 c = add_i32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    const __m256i d = _mm256_add_epi32(_mm512_castsi512_si256(c), _mm512_extracti64x4_epi64(c, 1));
    _mm_storeu_si128((__m128i*)out, _mm_add_epi32(_mm256_castsi256_si128(d), _mm256_extracti128_si256(d, 1)));
}
static inline int reduce_add_i32(I32 a) { return _mm512_reduce_add_epi32(a); }
static inline I32 widen_u8(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p));
}
static inline I32 widen_i8(const void* p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)); }
static inline I32 shift_left_i32(I32 a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
static inline I32 shift_right_i32(I32 a, int n) { return _mm512_srai_epi32(a, (unsigned)n); }  // arithmetic
static inline I32 or_i32(I32 a, I32 b) { return _mm512_or_si512(a, b); }
// The two BF16 of each lane, widened.
static inline F32 high_bf16(I32 a) {
    return _mm512_castsi512_ps(_mm512_and_si512(a, _mm512_set1_epi32((int)0xffff0000)));
}
static inline F32 low_bf16(I32 a) { return _mm512_castsi512_ps(_mm512_slli_epi32(a, 16)); }

static inline U8 load_u8(const uint8_t* p) { return _mm512_load_si512(p); }  // 64-byte aligned
static inline void store_u8(uint8_t* p, U8 a) { _mm512_store_si512(p, a); }
static inline U8 set1_u8(uint8_t x) { return _mm512_set1_epi8((char)x); }
static inline U8 and_u8(U8 a, U8 b) { return _mm512_and_si512(a, b); }
static inline U8 or_and_u8(U8 a, U8 b, U8 mask) {
    return _mm512_ternarylogic_epi32(a, b, mask, 0xf8);
}  // a | (b & mask)
// Shifts act on 16-bit lanes; the caller masks the bits that crossed a byte.
static inline U8 shift_right_u8(U8 a, int n) { return _mm512_srli_epi16(a, (unsigned)n); }
static inline U8 shift_left_u8(U8 a, int n) { return _mm512_slli_epi16(a, (unsigned)n); }
static inline U8 add_u8(U8 a, U8 b) { return _mm512_add_epi8(a, b); }      // modulo 256
static inline U8 mul_u16(U8 a, U8 b) { return _mm512_mullo_epi16(a, b); }  // 16-bit lanes, modulo 2^16
static inline U8 as_u8(I32 a) { return a; }
// 16 entries for lookup_u8, whose indices are 0..15.
static inline U8 table_u8(const uint8_t* p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)p));
}
static inline U8 lookup_u8(U8 table, U8 index) { return _mm512_shuffle_epi8(table, index); }
// GCC 12 would load the broadcast operand of these dot products by an instruction of its own, which costs 1..5 % of
// their speed and a tenth of it near memory speed. Sanitizers see through the other form.
// acc[i] += sum of the 4 unsigned bytes of a's lane i times the 4 signed bytes of b.
static inline I32 dot_u8_i8(I32 acc, U8 a, const int& b) {
#if defined(DEEPINFER_SMALL_TILES)
    return _mm512_dpbusd_epi32(acc, a, _mm512_set1_epi32(b));
#else
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(a), "m"(b));
    return acc;
#endif
}
// acc[i] += sum of the 2 int16 of a's lane i times the 2 int16 of b.
constexpr bool has_small_dots = false;  // dots.h
static inline I32 dot_i16(I32 acc, I32 a, const int& b) {
#if defined(DEEPINFER_SMALL_TILES)
    return _mm512_dpwssd_epi32(acc, a, _mm512_set1_epi32(b));
#else
    asm("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(a), "m"(b));
    return acc;
#endif
}

// While it lives, subnormal inputs and results of this thread's vector arithmetic are zero.
class FlushSubnormals {
  public:
    FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
    ~FlushSubnormals() { _mm_setcsr(before_); }
    FlushSubnormals(const FlushSubnormals&) = delete;

  private:
    unsigned before_;
};
static inline F32 fma_flushed(F32 a, F32 b, F32 c) { return fma(a, b, c); }  // requires FlushSubnormals

static inline void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }

}  // namespace deepinfer::kernels::DEEPINFER_ISA
