#include "peak.h"

#include <atomic>
#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace deepinfer::bench {

namespace {

using kernels::Isa;
constexpr int rounds = 300'000;  // of `chains` independent instructions each, enough to hide their latency
constexpr int chains = 12;

// A loop returns something that depends on all its instructions, so that none can be left out.
using Loop = float (*)(float seed);
struct Peak {
    const char* instruction;
    Loop loop;
    int operations;  // of one instruction
};

#if defined(__x86_64__)

// Zeros stay zeros: no instruction meets a denormal or an infinity.
#define DEEPINFER_PEAK_LOOP(name, isa, vector, zero, step, result)  \
    __attribute__((target(isa))) float name(float seed) {           \
        vector sums[chains];                                        \
        for (auto& s : sums) s = zero;                              \
        const auto x = zero;                                        \
        for (int r = 0; r < rounds; ++r) {                          \
            _Pragma("GCC unroll 12") for (auto& s : sums) s = step; \
            __asm__ volatile("" ::: "memory");                      \
        }                                                           \
        auto total = sums[0];                                       \
        for (int i = 1; i < chains; ++i) total = total + sums[i];   \
        return result + seed;                                       \
    }

DEEPINFER_PEAK_LOOP(vpdpbusd, "avx512f,avx512bw,avx512vnni", __m512i,
                    _mm512_set1_epi32(static_cast<int>(seed)), _mm512_dpbusd_epi32(s, x, x),
                    static_cast<float>(_mm512_reduce_add_epi32(total)))
DEEPINFER_PEAK_LOOP(vfmadd512, "avx512f", __m512, _mm512_set1_ps(seed), _mm512_fmadd_ps(x, x, s),
                    _mm512_reduce_add_ps(total))
DEEPINFER_PEAK_LOOP(vfmadd256, "avx2,fma", __m256, _mm256_set1_ps(seed), _mm256_fmadd_ps(x, x, s),
                    _mm256_cvtss_f32(total))
// Bytes are widened before: 8-bit products would saturate.
DEEPINFER_PEAK_LOOP(vpmaddwd, "avx2", __m256i, _mm256_set1_epi32(static_cast<int>(seed)),
                    _mm256_add_epi32(s, _mm256_madd_epi16(x, s)),
                    static_cast<float>(_mm256_extract_epi32(total, 0)))

__attribute__((target("avx512f,avx512bf16"))) float vdpbf16ps(float seed) {
    const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(seed), _mm512_set1_ps(seed));
    __m512 sums[chains];
    for (auto& s : sums) s = _mm512_set1_ps(seed);
    for (int r = 0; r < rounds; ++r) {
        _Pragma("GCC unroll 12") for (auto& s : sums) s = _mm512_dpbf16_ps(s, x, x);
        __asm__ volatile("" ::: "memory");
    }
    __m512 total = sums[0];
    for (int i = 1; i < chains; ++i) total = total + sums[i];
    return _mm512_reduce_add_ps(total) + seed;
}

Peak peak_of(Isa isa, Arithmetic arithmetic) {
    constexpr Peak fma512{"vfmadd231ps zmm", vfmadd512, 32}, fma256{"vfmadd231ps ymm", vfmadd256, 16};
    switch (isa) {
        case Isa::portable:
            break;
        case Isa::avx2:
            return arithmetic == Arithmetic::int8 ? Peak{"vpmaddwd ymm", vpmaddwd, 32} : fma256;
        default:
            if (arithmetic == Arithmetic::int8) return {"vpdpbusd zmm", vpdpbusd, 128};
            if (arithmetic == Arithmetic::bf16 && __builtin_cpu_supports("avx512bf16"))
                return {"vdpbf16ps zmm", vdpbf16ps, 64};
            return fma512;
    }
    return {"none", nullptr, 0};
}

#else

Peak peak_of(Isa, Arithmetic) { return {"none", nullptr, 0}; }

#endif

}  // namespace

const char* peak_instruction(Isa isa, Arithmetic arithmetic) { return peak_of(isa, arithmetic).instruction; }

double measure_peak(ThreadPool& pool, Isa isa, Arithmetic arithmetic) {
    const Peak peak = peak_of(isa, arithmetic);
    if (!peak.loop) return 0;
    std::atomic<float> sink{0};
    const auto start = std::chrono::steady_clock::now();
    pool.for_each(pool.threads(), 1,
                  [&](int, int, int) { sink.store(peak.loop(0.0f), std::memory_order_relaxed); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return static_cast<double>(rounds) * chains * peak.operations * pool.threads() / seconds / 1e9;
}

}  // namespace deepinfer::bench
