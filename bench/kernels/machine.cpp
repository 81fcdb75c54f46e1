#include "machine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/topology.h"

namespace deepinfer::bench {

namespace {

ReadBandwidth make_read(ThreadPool& pool) {
    auto made = ReadBandwidth::create(pool);
    if (!made) {
        std::fprintf(stderr, "kernel_bench: %s\n", made.error().message.c_str());
        std::exit(1);
    }
    return std::move(*made);
}

}  // namespace

Team::Team(int threads, kernels::Isa chosen)
    : pool(threads, Topology::of_this_process(), true),
      context(pool, chosen),
      isa(chosen),
      read_(make_read(pool)),
      pinned_(pool) {}

void Team::limits(Arithmetic arithmetic) {
    read_rate_ = std::max({read_.measure(), read_.measure(), read_.measure()});
    peak_ = std::max({measure_peak(pool, isa, arithmetic), measure_peak(pool, isa, arithmetic),
                      measure_peak(pool, isa, arithmetic)});
}

void Team::report(benchmark::State& state, double operations, double bytes) const {
    using benchmark::Counter;
    const auto n = static_cast<double>(state.iterations());
    // kIsRate divides by the time, and a limit in the numerator's place makes a share of it.
    if (operations > 0) {
        state.counters["GOPS"] = Counter(n * operations / 1e9, Counter::kIsRate);
        state.counters["peak_GOPS"] = peak_;
        if (peak_ > 0) state.counters["peak_share"] = Counter(n * operations / 1e9 / peak_, Counter::kIsRate);
    }
    if (bytes > 0) {
        state.counters["GBps"] = Counter(n * bytes / 1e9, Counter::kIsRate);
        state.counters["read_GBps"] = read_rate_;
        state.counters["read_share"] = Counter(n * bytes / 1e9 / read_rate_, Counter::kIsRate);
    }
}

Team& Machine::team(int threads) {
    if (!team_ || team_->pool.threads() != threads) {
        team_.reset();
        team_ = std::make_unique<Team>(threads, isa_);
    }
    return *team_;
}

std::vector<int> Machine::thread_counts() const {
    const int all = available_processors();
    std::vector<int> counts = {1};
    for (const int n : {2, all})
        if (n <= all && n > counts.back()) counts.push_back(n);
    return counts;
}

void fill_harmless(uint8_t* data, size_t bytes) {
    uint64_t state = 88172645463325252ull;
    for (size_t at = 0; at < bytes; at += 8) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        const uint64_t word = (state & 0x0f0f0f0f0f0f0f0full) | 0x2020202020202020ull;
        std::memcpy(data + at, &word, std::min<size_t>(8, bytes - at));
    }
}

}  // namespace deepinfer::bench
