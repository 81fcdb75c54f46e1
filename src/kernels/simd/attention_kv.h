// What attention does with the keys and values of one block, for each way to store them (base/kv_type.h).
//
// Each type has
//   prepare(q, rows, D)        q as scores() reads it, in place
//   scores<T>(q, D, k, v, s)   s[i][g] = q row i . keys 16g..16g+15; prefetches v if not null, a block's values
//   values<T>(p, v, next, D, from, to, o)   o[i][d] += sum over keys [from, to) of p[i][key] * v[key][d]; prefetches
//                              the keys at `next` if not null
//   store_tokens(k, v, stride, D, slot, tokens, k_block, v_block)   token vectors, `stride` floats apart, into slots
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/simd/dot_bf16.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

static inline void prefetch_bytes(const uint8_t* p, int bytes) {
    for (int i = 0; i < bytes; i += 64) prefetch(p + i);
}

// f16 and f32: K[d][64 keys], V[key][d].
template <bool F16>
struct KvFloat {
    static constexpr int bytes = F16 ? 2 : 4;
    static inline void prepare(float*, int, int) {}
    static inline F32 load_kv(const uint8_t* p, size_t index) {
        if constexpr (F16)
            return load_f16((const uint16_t*)p + index);
        else
            return load((const float*)p + index);
    }

    template <int T>
    static inline void scores(const float* q, int D, const uint8_t* k, const uint8_t* v, F32 (*s)[4]) {
        F32 c[T][4];
        FOR_ROWS(i, T) {
            DEEPINFER_UNROLL(4)
            for (int g = 0; g < 4; ++g) c[i][g] = zero();
        }
        for (int d = 0; d < D; ++d) {
            if (v) prefetch_bytes(v + (size_t)d * 64 * bytes, 64 * bytes);
            F32 x[4];
            DEEPINFER_UNROLL(4)
            for (int g = 0; g < 4; ++g) x[g] = load_kv(k, (size_t)d * 64 + 16 * g);
            FOR_ROWS(i, T) {
                const F32 y = set1(q[i * D + d]);
                DEEPINFER_UNROLL(4)
                for (int g = 0; g < 4; ++g) c[i][g] = fma(x[g], y, c[i][g]);
            }
        }
        FOR_ROWS(i, T) {
            DEEPINFER_UNROLL(4)
            for (int g = 0; g < 4; ++g) s[i][g] = c[i][g];
        }
    }

    template <int T, int G>
    static inline void values_of(const float* p, const uint8_t* v, const uint8_t* next, int D, int d0,
                                 int from, int to, float* o) {
        F32 a[T][G];
        FOR_ROWS(i, T) {
            DEEPINFER_UNROLL(4)
            for (int g = 0; g < G; ++g) a[i][g] = load(o + i * D + d0 + 16 * g);
        }
        constexpr int line = 16 * G * bytes;
        for (int t = from; t < to; ++t) {
            if (next) prefetch_bytes(next + (size_t)(d0 * 64 * bytes) + (size_t)t * line, line);
            F32 x[G];
            DEEPINFER_UNROLL(4)
            for (int g = 0; g < G; ++g) x[g] = load_kv(v, (size_t)t * D + d0 + 16 * g);
            FOR_ROWS(i, T) {
                const F32 w = set1(p[i * 64 + t]);
                DEEPINFER_UNROLL(4)
                for (int g = 0; g < G; ++g) a[i][g] = fma(x[g], w, a[i][g]);
            }
        }
        FOR_ROWS(i, T) {
            DEEPINFER_UNROLL(4)
            for (int g = 0; g < G; ++g) store(o + i * D + d0 + 16 * g, a[i][g]);
        }
    }
    template <int T>
    static inline void values(const float* p, const uint8_t* v, const uint8_t* next, int D, int from, int to,
                              float* o) {
        int d0 = 0;
        for (; d0 + 64 <= D; d0 += 64) values_of<T, 4>(p, v, next, D, d0, from, to, o);
        for (; d0 < D; d0 += 16) values_of<T, 1>(p, v, nullptr, D, d0, from, to, o);
    }

    static void store_tokens(const float* k, const float* v, size_t stride, int D, int slot, int tokens,
                             uint8_t* k_block, uint8_t* v_block) {
        if constexpr (!F16) {
            for (int t = 0; t < tokens; ++t, k += stride, v += stride) {
                for (int d = 0; d < D; ++d) ((float*)k_block)[d * 64 + slot + t] = k[d];
                memcpy((float*)v_block + (slot + t) * D, v, (size_t)D * sizeof(float));
            }
            return;
        }
        for (int t = 0; t < tokens; ++t)
            for (int d = 0; d < D; d += 16)
                store_f16((uint16_t*)v_block + (slot + t) * D + d, load(v + (size_t)t * stride + d));
        uint16_t* keys = (uint16_t*)k_block + slot;
        for (; tokens >= 16; tokens -= 16, k += 16 * stride, keys += 16)
            for (int d = 0; d < D; ++d) store_f16(keys + d * 64, load_strided(k + d, (int)stride));
        alignas(32) uint16_t h[16];
        for (int t = 0; t < tokens; ++t, k += stride, ++keys)
            for (int d = 0; d < D; d += 16) {
                store_f16(h, load(k + d));
                for (int i = 0; i < 16; ++i) keys[(d + i) * 64] = h[i];
            }
    }
};

// bf16: K[d / 2][64 keys][2], V[key / 2][d][2]. Native: by vdpbf16ps, only where the processor has it.
template <bool Native>
struct KvBf16 {
    // BF16 of a row are the first half of its floats.
    static inline void prepare(float* q, int rows, int D) {
        for (int i = 0; i < rows; ++i)
            for (int d = 0; d < D; d += 16) store_bf16((uint16_t*)(q + i * D) + d, load(q + i * D + d));
    }
    template <int T>
    static inline void scores(const float* q, int D, const uint8_t* k, const uint8_t* v, F32 (*s)[4]) {
        if constexpr (Native)
            scores_native<T>((const int*)q, D, k, v, s);
        else
            scores_of<T>((const int*)q, D, k, v, s);
    }
    template <int T>
    static inline void values(const float* p, const uint8_t* v, const uint8_t* next, int D, int from, int to,
                              float* o) {
        alignas(64) uint16_t pairs[T * 64];
        if constexpr (Native)
            round_native<T * 64>(p, pairs);
        else
            for (int i = 0; i < T * 64; i += 16) store_bf16(pairs + i, load(p + i));
        int d0 = 0;
        for (; d0 + 64 <= D; d0 += 64)
            values_in<T, 4>((const int*)pairs, v, next, D, d0, from / 2, (to + 1) / 2, o);
        for (; d0 < D; d0 += 16)
            values_in<T, 1>((const int*)pairs, v, nullptr, D, d0, from / 2, (to + 1) / 2, o);
    }

    // A token in an even slot clears the odd one's values: attention multiplies both, and what an earlier sequence
    // left there must not be able to make 0 * value anything but 0.
    static void store_tokens(const float* k, const float* v, size_t stride, int D, int slot, int tokens,
                             uint8_t* k_block, uint8_t* v_block) {
        alignas(64) uint16_t h[16][most_head_dim];
        for (int done = 0; done < tokens; done += 16) {
            const int n = tokens - done < 16 ? tokens - done : 16, at = slot + done;
            for (int t = 0; t < n; ++t)
                for (int d = 0; d < D; d += 16)
                    store_bf16(h[t] + d, load(k + (size_t)(done + t) * stride + d));
            float* keys = (float*)k_block + at;  // pairs moved as they are
            if (n == 16)
                for (int d = 0; d < D / 2; ++d)
                    store(keys + d * 64, load_strided((const float*)h[0] + d, most_head_dim / 2));
            else
                for (int d = 0; d < D / 2; ++d)
                    for (int t = 0; t < n; ++t) memcpy(keys + d * 64 + t, h[t] + 2 * d, 4);
            for (int t = 0; t < n; ++t) {
                for (int d = 0; d < D; d += 16)
                    store_bf16(h[t] + d, load(v + (size_t)(done + t) * stride + d));
                uint16_t* pair = (uint16_t*)v_block + (at + t) / 2 * 2 * D;
                if ((at + t) % 2 == 0)
                    for (int d = 0; d < D; ++d) pair[2 * d] = h[t][d], pair[2 * d + 1] = 0;
                else
                    for (int d = 0; d < D; ++d) pair[2 * d + 1] = h[t][d];
            }
        }
    }

  private:
    // The same twice: with the instruction, and with what it is made of.
#define KV_BF16_SCORES(DOT)                                                         \
    F32 c[T][4];                                                                    \
    FOR_ROWS(i, T) {                                                                \
        DEEPINFER_UNROLL(4)                                                         \
        for (int g = 0; g < 4; ++g) c[i][g] = zero();                               \
    }                                                                               \
    for (int d = 0; d < D / 2; ++d) {                                               \
        if (v) prefetch_bytes(v + (size_t)d * 256, 256);                            \
        I32 x[4];                                                                   \
        DEEPINFER_UNROLL(4)                                                         \
        for (int g = 0; g < 4; ++g) x[g] = load_i32(k + (size_t)d * 256 + 64 * g);  \
        FOR_ROWS(i, T) {                                                            \
            DEEPINFER_UNROLL(4)                                                     \
            for (int g = 0; g < 4; ++g) c[i][g] = DOT(c[i][g], x[g], q[i * D + d]); \
        }                                                                           \
    }                                                                               \
    FOR_ROWS(i, T) {                                                                \
        DEEPINFER_UNROLL(4)                                                         \
        for (int g = 0; g < 4; ++g) s[i][g] = c[i][g];                              \
    }
#define KV_BF16_VALUES(DOT)                                                                 \
    F32 a[T][G];                                                                            \
    FOR_ROWS(i, T) {                                                                        \
        DEEPINFER_UNROLL(4)                                                                 \
        for (int g = 0; g < G; ++g) a[i][g] = load(o + i * D + d0 + 16 * g);                \
    }                                                                                       \
    for (int t = from; t < to; ++t) {                                                       \
        if (next) prefetch_bytes(next + (size_t)(d0 * 128) + (size_t)t * 64 * G, 64 * G);   \
        I32 x[G];                                                                           \
        DEEPINFER_UNROLL(4)                                                                 \
        for (int g = 0; g < G; ++g) x[g] = load_i32(v + ((size_t)t * D + d0 + 16 * g) * 4); \
        FOR_ROWS(i, T) {                                                                    \
            DEEPINFER_UNROLL(4)                                                             \
            for (int g = 0; g < G; ++g) a[i][g] = DOT(a[i][g], x[g], p[i * 32 + t]);        \
        }                                                                                   \
    }                                                                                       \
    FOR_ROWS(i, T) {                                                                        \
        DEEPINFER_UNROLL(4)                                                                 \
        for (int g = 0; g < G; ++g) store(o + i * D + d0 + 16 * g, a[i][g]);                \
    }
    template <int T>
    static inline void scores_of(const int* q, int D, const uint8_t* k, const uint8_t* v, F32 (*s)[4]) {
        [[maybe_unused]] FlushSubnormals flush;
        KV_BF16_SCORES(dot_bf16_emulated)
    }
    template <int T, int G>
    static inline void values_of(const int* p, const uint8_t* v, const uint8_t* next, int D, int d0, int from,
                                 int to, float* o) {
        [[maybe_unused]] FlushSubnormals flush;
        KV_BF16_VALUES(dot_bf16_emulated)
    }
#if defined(DEEPINFER_ISA_AVX512)
    // As store_bf16() does it: weights are normal numbers or 0.
    template <int N>
    [[gnu::noinline, gnu::target("avx512bf16")]] static void round_native(const float* x, uint16_t* y) {
        for (int i = 0; i < N; i += 32)
            _mm512_store_si512(y + i, (__m512i)_mm512_cvtne2ps_pbh(load(x + i + 16), load(x + i)));
    }
    template <int T>
    [[gnu::noinline, gnu::target("avx512bf16")]] static void scores_native(const int* q, int D,
                                                                           const uint8_t* k, const uint8_t* v,
                                                                           F32 (*s)[4]) {
        KV_BF16_SCORES(dot_bf16_native)
    }
    template <int T, int G>
    [[gnu::noinline, gnu::target("avx512bf16")]] static void values_native(const int* p, const uint8_t* v,
                                                                           const uint8_t* next, int D, int d0,
                                                                           int from, int to, float* o) {
        KV_BF16_VALUES(dot_bf16_native)
    }
#endif
#undef KV_BF16_SCORES
#undef KV_BF16_VALUES
    template <int T, int G>
    static inline void values_in(const int* p, const uint8_t* v, const uint8_t* next, int D, int d0, int from,
                                 int to, float* o) {
        if constexpr (Native)
            values_native<T, G>(p, v, next, D, d0, from, to, o);
        else
            values_of<T, G>(p, v, next, D, d0, from, to, o);
    }
};

// q8: K[d][64 keys] int8, then scales [d / 32][64 keys] f16; V[key][d] int8, then scales [d / 32][64 keys] f16.
struct KvQ8 {
    static inline void prepare(float*, int, int) {}
    template <int T>
    static inline void scores(const float* q, int D, const uint8_t* k, const uint8_t* v, F32 (*s)[4]) {
        FOR_ROWS(i, T) {
            DEEPINFER_UNROLL(4)
            for (int g = 0; g < 4; ++g) s[i][g] = zero();
        }
        const uint16_t* scales = (const uint16_t*)(k + 64 * D);
        for (int d0 = 0; d0 < D; d0 += 32, scales += 64) {
            F32 c[T][4];
            FOR_ROWS(i, T) {
                DEEPINFER_UNROLL(4)
                for (int g = 0; g < 4; ++g) c[i][g] = zero();
            }
            for (int d = d0; d < d0 + 32; ++d) {
                if (v) prefetch(v + (size_t)d * 64);
                F32 x[4];
                DEEPINFER_UNROLL(4)
                for (int g = 0; g < 4; ++g) x[g] = to_f32(widen_i8(k + (size_t)d * 64 + 16 * g));
                FOR_ROWS(i, T) {
                    const F32 y = set1(q[i * D + d]);
                    DEEPINFER_UNROLL(4)
                    for (int g = 0; g < 4; ++g) c[i][g] = fma(x[g], y, c[i][g]);
                }
            }
            FOR_ROWS(i, T) {
                DEEPINFER_UNROLL(4)
                for (int g = 0; g < 4; ++g) s[i][g] = fma(c[i][g], load_f16(scales + 16 * g), s[i][g]);
            }
        }
    }

    template <int T>
    static inline void values(const float* p, const uint8_t* v, const uint8_t* next, int D, int from, int to,
                              float* o) {
        alignas(64) float weights[T * 64];
        const uint16_t* scales = (const uint16_t*)(v + 64 * D);
        for (int d0 = 0; d0 < D; d0 += 32, scales += 64) {
            for (int g = 0; g < 4; ++g) {
                const F32 scale_of = load_f16(scales + 16 * g);
                for (int i = 0; i < T; ++i)
                    store(weights + i * 64 + 16 * g, mul(load(p + i * 64 + 16 * g), scale_of));
            }
            F32 a[T][2];
            FOR_ROWS(i, T) {
                DEEPINFER_UNROLL(2)
                for (int g = 0; g < 2; ++g) a[i][g] = load(o + i * D + d0 + 16 * g);
            }
            for (int t = from; t < to; ++t) {
                if (next && t % 2 == 0) prefetch(next + (size_t)(d0 * 64 + 32 * t));
                F32 x[2];
                DEEPINFER_UNROLL(2)
                for (int g = 0; g < 2; ++g) x[g] = to_f32(widen_i8(v + (size_t)t * D + d0 + 16 * g));
                FOR_ROWS(i, T) {
                    const F32 w = set1(weights[i * 64 + t]);
                    DEEPINFER_UNROLL(2)
                    for (int g = 0; g < 2; ++g) a[i][g] = fma(x[g], w, a[i][g]);
                }
            }
            FOR_ROWS(i, T) {
                DEEPINFER_UNROLL(2)
                for (int g = 0; g < 2; ++g) store(o + i * D + d0 + 16 * g, a[i][g]);
            }
        }
    }

    // 32 values as int8 and the F16 scale that they are multiplied with: amax / 127, rounded to F16 first. Not finite
    // values make the scale NaN.
    static inline uint16_t quantize32(const float* x, int8_t* q) {
        const F32 v0 = load(x), v1 = load(x + 16);
        const float top = reduce_max(max(abs(v0), abs(v1)));
        const float check = reduce_add(sub(add(v0, v1), add(v0, v1)));  // 0, or NaN if anything is not finite
        alignas(64) float scale[16];
        alignas(32) uint16_t half[16];
        store_f16(half, set1(top / 127.f + check));
        store(scale, load_f16(half));
        const F32 inverse = set1(scale[0] > 0 ? 1.f / scale[0] : 0.f), most = set1(127.f),
                  least = set1(-127.f);
        store_i8(q, to_i32(min(max(mul(v0, inverse), least), most)));
        store_i8(q + 16, to_i32(min(max(mul(v1, inverse), least), most)));
        return half[0];
    }
    static void store_tokens(const float* k, const float* v, size_t stride, int D, int slot, int tokens,
                             uint8_t* k_block, uint8_t* v_block) {
        alignas(32) int8_t q[32];
        for (int t = slot; t < slot + tokens; ++t, k += stride, v += stride)
            for (int d = 0; d < D; d += 32) {
                ((uint16_t*)(k_block + 64 * D))[d * 2 + t] = quantize32(k + d, q);
                for (int i = 0; i < 32; ++i) k_block[(d + i) * 64 + t] = (uint8_t)q[i];
                ((uint16_t*)(v_block + 64 * D))[d * 2 + t] = quantize32(v + d, q);
                memcpy(v_block + t * D + d, q, 32);
            }
    }
};

}  // namespace deepinfer::kernels::DEEPINFER_ISA
