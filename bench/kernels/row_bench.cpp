// What stands between the products: quantising activations, norms, gates, rotary embedding, softmax; and the barrier.
#include <chrono>
#include <string>

#include "machine.h"

namespace deepinfer::bench {

namespace {

using kernels::KernelTable;

std::vector<float> some_floats(size_t n) {
    std::vector<float> x(n);
    for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 61) / 32 - 1;
    return x;
}

void quantise(benchmark::State& state, Machine& machine, kernels::ActivationLayout layout, int rows,
              int columns, int threads) {
    Team& team = machine.team(threads);
    const auto x = some_floats(static_cast<size_t>(rows) * static_cast<size_t>(columns));
    kernels::Activations activations;
    for (auto _ : state) {
        activations.reset(x.data(), rows, columns);
        benchmark::DoNotOptimize(activations.form(team.context, layout).data);
    }
    state.counters["ns_per_row"] =
        benchmark::Counter(static_cast<double>(state.iterations()) * rows / 1e9,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void add_quantise(Machine& machine) {
    constexpr const char* names[] = {"f32",         "bf16",     "int8_off8", "int8_off16",
                                     "int8_off128", "int8_sum", "int8_256"};
    static_assert(std::size(names) == kernels::activation_layouts,
                  "one name for each ActivationLayout, in its order");
    for (int layout = 0; layout < kernels::activation_layouts; ++layout)
        for (const int rows : {1, 512})
            for (const int columns : {1536, 8960 / 256 * 256})
                for (const int threads : machine.thread_counts()) {
                    const std::string name =
                        std::string("quantise/") + names[layout] + "/rows:" + std::to_string(rows) +
                        "/columns:" + std::to_string(columns) + "/threads:" + std::to_string(threads);
                    benchmark::RegisterBenchmark(name.c_str(),
                                                 [=, &machine](benchmark::State& state) {
                                                     quantise(state, machine,
                                                              static_cast<kernels::ActivationLayout>(layout),
                                                              rows, columns, threads);
                                                 })
                        ->UseRealTime()
                        ->MinTime(0.05);
                }
}

// One call on one thread, its data in the first caches.
template <class F>
void add_call(Machine& machine, const char* kernel, int n, F call) {
    const std::string name = std::string(kernel) + "/n:" + std::to_string(n);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [=, &machine](benchmark::State& state) {
                                     const KernelTable& table = machine.team(1).context.table;
                                     const auto a = some_floats(static_cast<size_t>(n)),
                                                b = some_floats(static_cast<size_t>(n));
                                     std::vector<float> y(static_cast<size_t>(n));
                                     for (auto _ : state) {
                                         call(table, a.data(), b.data(), n, y.data());
                                         benchmark::DoNotOptimize(y.data());
                                         benchmark::ClobberMemory();
                                     }
                                     state.counters["ns_per_value"] = benchmark::Counter(
                                         static_cast<double>(state.iterations()) * n / 1e9,
                                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
                                 })
        ->UseRealTime()
        ->MinTime(0.05);
}

void add_calls(Machine& machine) {
    using T = const KernelTable&;
    using X = const float*;
    for (const int n : {576, 1536})
        add_call(machine, "rms_norm", n,
                 [](T t, X a, X b, int count, float* y) { t.rms_norm(a, b, 1e-5f, count, y); });
    for (const int n : {1536, 8960}) {
        add_call(machine, "silu_mul", n,
                 [](T t, X a, X b, int count, float* y) { t.silu_mul(a, b, count, y); });
        add_call(machine, "gelu_mul", n,
                 [](T t, X a, X b, int count, float* y) { t.gelu_mul(a, b, count, y); });
        add_call(machine, "add", n, [](T t, X a, X b, int count, float* y) { t.add(a, b, count, y); });
    }
    for (const int n : {64, 128})
        for (const bool interleaved : {false, true})
            add_call(machine, interleaved ? "rope_interleaved" : "rope_halves", n,
                     [=](T t, X a, X, int count, float* y) { t.rope(y, a, count, interleaved); });
    for (const int n : {49152, 151936}) {
        add_call(machine, "argmax", n,
                 [](T t, X a, X, int count, float* y) { *y = static_cast<float>(t.argmax(a, count)); });
        add_call(machine, "log_sum_exp", n,
                 [](T t, X a, X, int count, float* y) { *y = t.log_sum_exp(a, count, 1); });
    }
}

void busy_until(std::chrono::steady_clock::time_point end) {
    while (std::chrono::steady_clock::now() < end) {
    }
}

// A phase of as many pieces as there are threads, each of `work_us`, the second `more_us` longer. What it takes beyond the
// longest piece is the cost of starting and ending it.
void barrier(benchmark::State& state, Machine& machine, int threads, int work_us, int more_us) {
    Team& team = machine.team(threads);
    using std::chrono::microseconds;
    for (auto _ : state)
        team.pool.for_each(threads, 1, [&](int piece, int, int) {
            if (work_us > 0)
                busy_until(std::chrono::steady_clock::now() +
                           microseconds(work_us + (piece == 1 ? more_us : 0)));
        });
    state.counters["longest_work_us"] = work_us + more_us;
}

}  // namespace

void add_row_benchmarks(Machine& machine) {
    add_quantise(machine);
    add_calls(machine);
    for (const int threads : machine.thread_counts())
        for (const auto& [work, more] :
             {std::pair{0, 0}, std::pair{20, 0}, std::pair{20, 10}, std::pair{200, 100}}) {
            if (threads == 1) continue;
            const std::string name = "barrier/work_us:" + std::to_string(work) +
                                     "/more_us:" + std::to_string(more) +
                                     "/threads:" + std::to_string(threads);
            benchmark::RegisterBenchmark(name.c_str(),
                                         [=, w = work, m = more, &machine](benchmark::State& state) {
                                             barrier(state, machine, threads, w, m);
                                         })
                ->UseRealTime()
                ->MinTime(0.05);
        }
}

}  // namespace deepinfer::bench
