#pragma once

#include <immintrin.h>

namespace deepinfer::kernels::DEEPINFER_ISA {

struct F32 {
    __m256 lo, hi;
};
struct I32 {
    __m256i lo, hi;
};
struct U8 {
    __m256i lo, hi;
};

constexpr int isa_block32_rows = 4;  // 16 registers: 8 for accumulators, the rest for weights and scales
constexpr int isa_kquant_rows = 4;
constexpr int isa_float_rows = 6;
constexpr int isa_attention_rows = 1;

static inline F32 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
static inline F32 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline F32 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
// Element i is p[i * stride].
static inline F32 load_strided(const float* p, int stride) {
    const __m256i lanes =
        _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(stride));
    return {_mm256_i32gather_ps(p, lanes, 4), _mm256_i32gather_ps(p + 8 * (ptrdiff_t)stride, lanes, 4)};
}
static inline void store(float* p, F32 x) { _mm256_storeu_ps(p, x.lo), _mm256_storeu_ps(p + 8, x.hi); }
static inline F32 load_f16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)),
            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p + 1))};
}
static inline void store_f16(uint16_t* p, F32 x) {
    _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(x.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((__m128i*)p + 1, _mm256_cvtps_ph(x.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline __m256 widen_bf16(const uint16_t* p) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16));
}
static inline F32 load_bf16(const uint16_t* p) { return {widen_bf16(p), widen_bf16(p + 8)}; }
static inline __m256 half_e8m0(__m128i bytes) {
    const __m256i e = _mm256_cvtepu8_epi32(bytes);
    const __m256i bits = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(bits, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}
static inline F32 load_half_e8m0(const uint8_t* p) {
    const __m128i v = _mm_loadu_si128((const __m128i*)p);
    return {half_e8m0(v), half_e8m0(_mm_srli_si128(v, 8))};
}
static inline __m256i rounded_to_bf16(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i r = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(r, quiet, nan), 16);
}
static inline void store_bf16(uint16_t* p, F32 x) {
    const __m256i packed = _mm256_packus_epi32(rounded_to_bf16(x.lo), rounded_to_bf16(x.hi));
    _mm256_storeu_si256((__m256i*)p, _mm256_permute4x64_epi64(packed, 0xd8));
}
static inline F32 add(F32 a, F32 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
static inline F32 sub(F32 a, F32 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
static inline F32 mul(F32 a, F32 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
static inline F32 div(F32 a, F32 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
static inline F32 min(F32 a, F32 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
static inline F32 max(F32 a, F32 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
static inline F32 abs(F32 a) {
    const __m256 sign = _mm256_set1_ps(-0.f);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
static inline F32 fma(F32 a, F32 b, F32 c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
static inline F32 fnma(F32 a, F32 b, F32 c) {
    return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
static inline F32 round_even(F32 a) { return {_mm256_round_ps(a.lo, 8), _mm256_round_ps(a.hi, 8)}; }
// Exact for results in the normal range; below it the callers replace the value (exp_negative cuts at -87).
static inline __m256 scale_half(__m256 a, __m256 n) {
    const __m256i e = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(a, _mm256_castsi256_ps(e));
}
static inline F32 scale_by_power_of_two(F32 a, F32 n) {
    return {scale_half(a.lo, n.lo), scale_half(a.hi, n.hi)};
}
static inline F32 zero_where_less(F32 x, float bound, F32 y) {
    const __m256 b = _mm256_set1_ps(bound);
    return {_mm256_and_ps(_mm256_cmp_ps(x.lo, b, _CMP_NLT_UQ), y.lo),
            _mm256_and_ps(_mm256_cmp_ps(x.hi, b, _CMP_NLT_UQ), y.hi)};
}
static inline bool any_nan(F32 a) {
    return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q),
                                           _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q))) != 0;
}
static inline F32 select_negative(F32 x, F32 if_negative, F32 otherwise) {
    const __m256 z = _mm256_setzero_ps();
    return {_mm256_blendv_ps(otherwise.lo, if_negative.lo, _mm256_cmp_ps(x.lo, z, _CMP_LT_OQ)),
            _mm256_blendv_ps(otherwise.hi, if_negative.hi, _mm256_cmp_ps(x.hi, z, _CMP_LT_OQ))};
}
static inline F32 keep_lanes(F32 a, int from, int to, F32 other) {
    const __m256i i0 = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                  i1 = _mm256_add_epi32(i0, _mm256_set1_epi32(8));
    const __m256i f = _mm256_set1_epi32(from - 1), t = _mm256_set1_epi32(to);
    const __m256i k0 = _mm256_and_si256(_mm256_cmpgt_epi32(i0, f), _mm256_cmpgt_epi32(t, i0));
    const __m256i k1 = _mm256_and_si256(_mm256_cmpgt_epi32(i1, f), _mm256_cmpgt_epi32(t, i1));
    return {_mm256_blendv_ps(other.lo, a.lo, _mm256_castsi256_ps(k0)),
            _mm256_blendv_ps(other.hi, a.hi, _mm256_castsi256_ps(k1))};
}
static inline float reduce_add(F32 a) {
    const __m256 h = _mm256_add_ps(a.lo, a.hi);
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
static inline float reduce_max(F32 a) {
    const __m256 h = _mm256_max_ps(a.lo, a.hi);
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
}

static inline I32 zero_i32() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
static inline I32 set1_i32(int x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
static inline I32 load_i32(const void* p) {
    return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)p + 1)};
}
static inline void store_i32(void* p, I32 x) {
    _mm256_storeu_si256((__m256i*)p, x.lo), _mm256_storeu_si256((__m256i*)p + 1, x.hi);
}
static inline I32 add_i32(I32 a, I32 b) {
    return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
static inline I32 mul_i32(I32 a, I32 b) {
    return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
}
static inline void settle(I32& a) { asm volatile("" : "+x"(a.lo), "+x"(a.hi)); }
static inline F32 to_f32(I32 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
static inline I32 to_i32(F32 a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
static inline void store_i8(int8_t* p, I32 a) {
    alignas(32) int32_t v[16];
    store_i32(v, a);
    for (int i = 0; i < 16; ++i) p[i] = (int8_t)v[i];
}
static inline I32 max_i32(I32 a, I32 b) {
    return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}
static inline I32 magnitude_bits(F32 a) {
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    return {_mm256_and_si256(_mm256_castps_si256(a.lo), mask),
            _mm256_and_si256(_mm256_castps_si256(a.hi), mask)};
}
// The halves of four vectors put together, then pairs of lanes: out[i] is made of x[i].
static inline void reduce_max4_i32(const I32* x, int* out) {
    __m256i h[4];
    for (int i = 0; i < 4; ++i) h[i] = _mm256_max_epi32(x[i].lo, x[i].hi);
    const __m256i a = _mm256_max_epi32(_mm256_unpacklo_epi32(h[0], h[1]), _mm256_unpackhi_epi32(h[0], h[1]));
    const __m256i b = _mm256_max_epi32(_mm256_unpacklo_epi32(h[2], h[3]), _mm256_unpackhi_epi32(h[2], h[3]));
    const __m256i c = _mm256_max_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    _mm_storeu_si128((__m128i*)out, _mm_max_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1)));
}
static inline void reduce_add4_i32(const I32* x, int* out) {
    __m256i h[4];
    for (int i = 0; i < 4; ++i) h[i] = _mm256_add_epi32(x[i].lo, x[i].hi);
    const __m256i a = _mm256_add_epi32(_mm256_unpacklo_epi32(h[0], h[1]), _mm256_unpackhi_epi32(h[0], h[1]));
    const __m256i b = _mm256_add_epi32(_mm256_unpacklo_epi32(h[2], h[3]), _mm256_unpackhi_epi32(h[2], h[3]));
    const __m256i c = _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    _mm_storeu_si128((__m128i*)out, _mm_add_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1)));
}
static inline int reduce_add_i32(I32 a) {
    const __m256i h = _mm256_add_epi32(a.lo, a.hi);
    __m128i q = _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
static inline I32 widen_u8(const uint8_t* p) {
    const __m128i v = _mm_loadu_si128((const __m128i*)p);
    return {_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8))};
}
static inline I32 widen_i8(const void* p) {
    const __m128i v = _mm_loadu_si128((const __m128i*)p);
    return {_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8))};
}
static inline I32 shift_left_i32(I32 a, int n) {
    return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
}
static inline I32 shift_right_i32(I32 a, int n) {
    return {_mm256_srai_epi32(a.lo, n), _mm256_srai_epi32(a.hi, n)};
}
static inline I32 or_i32(I32 a, I32 b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
static inline F32 high_bf16(I32 a) {
    const __m256i mask = _mm256_set1_epi32((int)0xffff0000);
    return {_mm256_castsi256_ps(_mm256_and_si256(a.lo, mask)),
            _mm256_castsi256_ps(_mm256_and_si256(a.hi, mask))};
}
static inline F32 low_bf16(I32 a) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(a.lo, 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(a.hi, 16))};
}

static inline U8 load_u8(const uint8_t* p) {
    return {_mm256_load_si256((const __m256i*)p), _mm256_load_si256((const __m256i*)p + 1)};
}
static inline void store_u8(uint8_t* p, U8 a) {
    _mm256_store_si256((__m256i*)p, a.lo), _mm256_store_si256((__m256i*)p + 1, a.hi);
}
static inline U8 set1_u8(uint8_t x) { return {_mm256_set1_epi8((char)x), _mm256_set1_epi8((char)x)}; }
static inline U8 and_u8(U8 a, U8 b) { return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)}; }
static inline U8 or_and_u8(U8 a, U8 b, U8 mask) {
    return {_mm256_or_si256(a.lo, _mm256_and_si256(b.lo, mask.lo)),
            _mm256_or_si256(a.hi, _mm256_and_si256(b.hi, mask.hi))};
}
static inline U8 shift_right_u8(U8 a, int n) {
    return {_mm256_srli_epi16(a.lo, n), _mm256_srli_epi16(a.hi, n)};
}
static inline U8 shift_left_u8(U8 a, int n) {
    return {_mm256_slli_epi16(a.lo, n), _mm256_slli_epi16(a.hi, n)};
}
static inline U8 add_u8(U8 a, U8 b) { return {_mm256_add_epi8(a.lo, b.lo), _mm256_add_epi8(a.hi, b.hi)}; }
static inline U8 mul_u16(U8 a, U8 b) {
    return {_mm256_mullo_epi16(a.lo, b.lo), _mm256_mullo_epi16(a.hi, b.hi)};
}
static inline U8 as_u8(I32 a) { return {a.lo, a.hi}; }
static inline U8 table_u8(const uint8_t* p) {
    const __m256i v = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)p));
    return {v, v};
}
static inline U8 lookup_u8(U8 table, U8 index) {
    return {_mm256_shuffle_epi8(table.lo, index.lo), _mm256_shuffle_epi8(table.hi, index.hi)};
}
// vpmaddubsw saturates at 16 bits (255 * 127 * 2 does not fit), so even and odd bytes are widened and
// multiplied apart.
static inline __m256i dot_half(__m256i acc, __m256i a, __m256i b_even, __m256i b_odd) {
    const __m256i even = _mm256_and_si256(a, _mm256_set1_epi16(255)), odd = _mm256_srli_epi16(a, 8);
    return _mm256_add_epi32(acc,
                            _mm256_add_epi32(_mm256_madd_epi16(even, b_even), _mm256_madd_epi16(odd, b_odd)));
}
static inline I32 dot_u8_i8(I32 acc, U8 a, int b) {
    const __m256i v = _mm256_set1_epi32(b);
    const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8), odd = _mm256_srai_epi16(v, 8);
    return {dot_half(acc.lo, a.lo, even, odd), dot_half(acc.hi, a.hi, even, odd)};
}
// Of weights that are small enough, products of neighbours are summed as 16 bits: less than half of the instructions.
constexpr bool has_small_dots = true;
struct Dots16 {
    __m256i lo, hi;
};
static inline Dots16 dot16(U8 a, int b) {
    const __m256i v = _mm256_set1_epi32(b);
    return {_mm256_maddubs_epi16(a.lo, v), _mm256_maddubs_epi16(a.hi, v)};
}
static inline Dots16 dot16(Dots16 acc, U8 a, int b) {
    const Dots16 d = dot16(a, b);
    return {_mm256_add_epi16(acc.lo, d.lo), _mm256_add_epi16(acc.hi, d.hi)};
}
static inline I32 add_dots16(I32 acc, Dots16 d) {
    const __m256i one = _mm256_set1_epi16(1);
    return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(d.lo, one)),
            _mm256_add_epi32(acc.hi, _mm256_madd_epi16(d.hi, one))};
}
static inline I32 dot_i16(I32 acc, I32 a, int b) {
    const __m256i v = _mm256_set1_epi32(b);
    return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(a.lo, v)),
            _mm256_add_epi32(acc.hi, _mm256_madd_epi16(a.hi, v))};
}

class FlushSubnormals {
  public:
    FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
    ~FlushSubnormals() { _mm_setcsr(before_); }
    FlushSubnormals(const FlushSubnormals&) = delete;

  private:
    unsigned before_;
};
static inline F32 fma_flushed(F32 a, F32 b, F32 c) { return fma(a, b, c); }

static inline void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }

}  // namespace deepinfer::kernels::DEEPINFER_ISA
