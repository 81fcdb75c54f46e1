// Google Benchmark over the kernels, each beside the limits of the machine that were measured just before it.
//
//   cmake --preset release -DDEEPINFER_BENCH=ON && ninja -C build/release kernel_bench
//   build/release/bench/kernel_bench --benchmark_filter=gemm/Q4_K --benchmark_out=kernels.json
//   bench/kernels/table.py kernels.json
//
// DEEPINFER_ISA chooses the instruction set, as everywhere.
#include <cstdio>
#include <cstdlib>

#include "machine.h"

int main(int argc, char** argv) {
    using namespace deepinfer;
    const char* forced = std::getenv("DEEPINFER_ISA");
    const auto isa = kernels::choose_isa(forced ? forced : "");
    if (!isa) {
        std::fprintf(stderr, "kernel_bench: %s\n", isa.error().message.c_str());
        return 1;
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    bench::Machine machine(*isa);
    bench::add_gemm_benchmarks(machine);
    bench::add_attention_benchmarks(machine);
    bench::add_row_benchmarks(machine);
    benchmark::AddCustomContext("isa", kernels::to_string(*isa));
    benchmark::AddCustomContext("int8_instruction", bench::peak_instruction(*isa, bench::Arithmetic::int8));
    benchmark::AddCustomContext("bf16_instruction", bench::peak_instruction(*isa, bench::Arithmetic::bf16));
    benchmark::AddCustomContext("f32_instruction", bench::peak_instruction(*isa, bench::Arithmetic::f32));
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
