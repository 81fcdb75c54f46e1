// Matrix products: every stored format with a kernel, few and many rows.
#include <cstring>
#include <set>
#include <string>

#include "base/tensor_type.h"
#include "kernels/pack.h"
#include "machine.h"

namespace deepinfer::bench {

namespace {

using kernels::Compute;
using kernels::Linear;
using kernels::MatrixView;

constexpr size_t weights_in_memory = size_t{400} << 20;  // many times the last-level cache

struct Case {
    TensorType type;
    Compute compute;
    int inputs, outputs;
    bool operator==(const Case&) const = default;
};

// Copies of one matrix that together are larger than any cache; a product takes the next one.
struct Copies {
    Case what;
    HugeBuffer memory;
    std::vector<Linear> linears;
    size_t bytes_each = 0;

    static std::unique_ptr<Copies> make(kernels::Context& context, const Case& what) {
        auto copies = std::make_unique<Copies>();
        copies->what = what;
        std::vector<std::byte> stored(static_cast<size_t>(what.outputs) *
                                      row_bytes(what.type, static_cast<size_t>(what.inputs)));
        fill_harmless(reinterpret_cast<uint8_t*>(stored.data()), stored.size());
        const MatrixView view{what.type, what.outputs, what.inputs, stored};
        copies->bytes_each = Linear::packed_bytes(view, what.compute);
        const size_t stride = (copies->bytes_each + 4095) / 4096 * 4096,
                     count = weights_in_memory / stride + 1;
        auto memory = HugeBuffer::allocate(stride * count);
        if (!memory) return nullptr;
        copies->memory = std::move(*memory);
        for (size_t i = 0; i < count; ++i)
            copies->linears.emplace_back(context, view, what.compute, copies->memory.data() + i * stride);
        return copies;
    }
};

Arithmetic arithmetic_of(kernels::WeightLayout layout) {
    switch (kernels::activation_layout_for(layout)) {
        case kernels::ActivationLayout::f32:
            return Arithmetic::f32;
        case kernels::ActivationLayout::bf16:
            return Arithmetic::bf16;
        default:
            return Arithmetic::int8;
    }
}

class Gemm {
  public:
    explicit Gemm(Machine& machine) : machine_(machine) {}

    void run(benchmark::State& state, const Case& what, int rows, int threads) {
        Team& team = machine_.team(threads);
        if (!copies_ || !(copies_->what == what)) {
            copies_.reset();
            copies_ = Copies::make(team.context, what);
        }
        if (!copies_) return state.SkipWithError("not enough memory");
        std::vector<float> x(static_cast<size_t>(rows * what.inputs)),
            y(static_cast<size_t>(rows * what.outputs));
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 31) / 16 - 1;
        kernels::Activations activations;
        activations.reset(x.data(), rows, what.inputs);
        team.limits(arithmetic_of(*kernels::packed_layout(what.type, what.compute)));
        size_t next = 0;
        for (auto _ : state) {
            const kernels::Product product{&copies_->linears[next], y.data(),
                                           static_cast<size_t>(what.outputs)};
            kernels::multiply(team.context, activations, {&product, 1});
            next = (next + 1) % copies_->linears.size();
        }
        benchmark::DoNotOptimize(y.data());
        team.report(state, 2.0 * rows * what.inputs * what.outputs, static_cast<double>(copies_->bytes_each));
    }

  private:
    Machine& machine_;
    std::unique_ptr<Copies> copies_;  // of the benchmark that ran last
};

}  // namespace

void add_gemm_benchmarks(Machine& machine) {
    auto gemm = std::make_shared<Gemm>(machine);
    constexpr int shapes[][2] = {{1536, 8960}, {576, 1536}};
    std::set<kernels::WeightLayout> seen;
    for (const Compute compute : {Compute::serve, Compute::f32})
        for (uint32_t id = 0; id < 256; ++id) {
            const auto type = tensor_type_from_gguf(id);
            const auto layout = type ? kernels::packed_layout(*type, compute) : std::nullopt;
            if (!layout || !seen.insert(*layout).second) continue;
            for (const auto& [inputs, outputs] : shapes) {
                if (inputs % static_cast<int>(traits(*type).block_values) != 0) continue;
                for (const int threads : machine.thread_counts())
                    for (const int rows : {1, 2, 4, 8, 16, 64, 512}) {
                        const Case what{*type, compute, inputs, outputs};
                        const std::string name = std::string("gemm/") + to_string(*type) +
                                                 (compute == Compute::f32 ? "_f32" : "") + "/" +
                                                 std::to_string(inputs) + "x" + std::to_string(outputs) +
                                                 "/M:" + std::to_string(rows) +
                                                 "/threads:" + std::to_string(threads);
                        benchmark::RegisterBenchmark(
                            name.c_str(),
                            [=](benchmark::State& state) { gemm->run(state, what, rows, threads); })
                            ->UseRealTime()
                            ->MinTime(0.2);
                    }
            }
        }
}

}  // namespace deepinfer::bench
