// The machine as the benchmarks see it: threads, instruction set, and its limits measured beside every benchmark.
#pragma once

#include <benchmark/benchmark.h>

#include <map>
#include <memory>

#include "base/read_bandwidth.h"
#include "kernels/linear.h"
#include "peak.h"

namespace deepinfer::bench {

// Threads of one number, with what they need to call kernels.
class Team {
  public:
    Team(int threads, kernels::Isa isa);

    ThreadPool pool;
    kernels::Context context;
    const kernels::Isa isa;

    // Sets the counters from the work of one iteration: GOPS and peak_share if it has operations, GBps and read_share if
    // it reads from memory. The limits are those that limits() found just before.
    void report(benchmark::State& state, double operations, double bytes) const;
    // Measures the limits that report() compares with.
    void limits(Arithmetic arithmetic);

  private:
    ReadBandwidth read_;
    const ThreadPool::PinnedCaller pinned_;
    double peak_ = 0, read_rate_ = 0;
};

// Owned by main(); benchmarks are run one after another.
class Machine {
  public:
    explicit Machine(kernels::Isa isa) : isa_(isa) {}
    Team& team(int threads);                 // made when first asked for
    std::vector<int> thread_counts() const;  // 1, 2 and all processors
    kernels::Isa isa() const { return isa_; }

  private:
    kernels::Isa isa_;
    std::unique_ptr<Team> team_;  // one at a time: threads that wait would take processors from the others
};

// Bytes that are small normal numbers as any float type, and harmless as scales and quants of any packed format.
void fill_harmless(uint8_t* data, size_t bytes);

void add_gemm_benchmarks(Machine& machine);
void add_attention_benchmarks(Machine& machine);
void add_row_benchmarks(Machine& machine);  // quantising, norms, gates, rotary, softmax; and the barrier

}  // namespace deepinfer::bench
