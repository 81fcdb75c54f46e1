#include "peak.h"

#include <atomic>
#include <chrono>

namespace deepinfer::bench {

namespace {

using kernels::Isa;
constexpr int rounds = 40'000;  // of `chains` independent instructions each, enough to hide their latency
constexpr int chains = 12;

using Loop = float (*)();
struct Peak {
    const char* instruction;
    Loop loop;
    int operations;  // of one instruction
};

#if defined(__x86_64__)

using Vector512 = float __attribute__((vector_size(64)));
using Vector256 = float __attribute__((vector_size(32)));

// Assembly, because a compiler would keep the sums in memory, or see through the loop. Everything is zero and stays zero.
#define DEEPINFER_STEP(instruction, n) instruction " %12, %12, %" #n "\n\t"
#define DEEPINFER_PEAK_LOOP(name, isa, Vector, instruction)                                                  \
    __attribute__((target(isa))) float name() {                                                              \
        Vector s[chains] = {};                                                                               \
        const Vector x = {};                                                                                 \
        for (int r = 0; r < rounds; ++r)                                                                     \
            __asm__ volatile(DEEPINFER_STEP(instruction, 0) DEEPINFER_STEP(instruction, 1) DEEPINFER_STEP(   \
                                 instruction, 2) DEEPINFER_STEP(instruction, 3)                              \
                                 DEEPINFER_STEP(instruction, 4) DEEPINFER_STEP(instruction, 5)               \
                                     DEEPINFER_STEP(instruction, 6) DEEPINFER_STEP(instruction, 7)           \
                                         DEEPINFER_STEP(instruction, 8) DEEPINFER_STEP(instruction, 9)       \
                                             DEEPINFER_STEP(instruction, 10) DEEPINFER_STEP(instruction, 11) \
                             : "+v"(s[0]), "+v"(s[1]), "+v"(s[2]), "+v"(s[3]), "+v"(s[4]), "+v"(s[5]),       \
                               "+v"(s[6]), "+v"(s[7]), "+v"(s[8]), "+v"(s[9]), "+v"(s[10]), "+v"(s[11])      \
                             : "v"(x));                                                                      \
        return s[0][0];                                                                                      \
    }

DEEPINFER_PEAK_LOOP(vpdpbusd, "avx512f,avx512bw,avx512vnni", Vector512, "vpdpbusd")
DEEPINFER_PEAK_LOOP(vdpbf16ps, "avx512f,avx512bf16", Vector512, "vdpbf16ps")
DEEPINFER_PEAK_LOOP(vfmadd512, "avx512f", Vector512, "vfmadd231ps")
DEEPINFER_PEAK_LOOP(vfmadd256, "avx2,fma", Vector256, "vfmadd231ps")
// Bytes are widened before: 8-bit products would saturate.
DEEPINFER_PEAK_LOOP(vpmaddwd, "avx2", Vector256, "vpmaddwd")

Peak peak_of(Isa isa, Arithmetic arithmetic) {
    constexpr Peak fma512{"vfmadd231ps zmm", vfmadd512, 32}, fma256{"vfmadd231ps ymm", vfmadd256, 16};
    switch (isa) {
        case Isa::portable:
            break;
        case Isa::avx2:
            return arithmetic == Arithmetic::int8 ? Peak{"vpmaddwd ymm", vpmaddwd, 32} : fma256;
        case Isa::avx512:
        case Isa::avx512_bf16:
            if (arithmetic == Arithmetic::int8) return {"vpdpbusd zmm", vpdpbusd, 128};
            if (arithmetic == Arithmetic::bf16 && isa == Isa::avx512_bf16)
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
    const int pieces = 8 * pool.threads();
    const auto start = std::chrono::steady_clock::now();
    pool.for_each(pieces, 1, [&](int begin, int end, int) {
        for (int i = begin; i < end; ++i) sink.store(peak.loop(), std::memory_order_relaxed);
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return static_cast<double>(rounds) * chains * peak.operations * pieces / seconds / 1e9;
}

}  // namespace deepinfer::bench
