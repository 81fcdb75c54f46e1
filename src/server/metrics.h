// Counters and histograms of the server, in Prometheus' text format.
//
// Written here rather than taken from prometheus-cpp: most values are the engine's own totals, read at the
// moment of the scrape; a registry would keep a second copy of each that has to be kept in step.
//
// Threads: everything is atomic; any thread may record, any thread may print.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "engine/engine.h"

namespace deepinfer::server {

class Histogram {
  public:
    explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {}
    void record(double value);
    void print(std::string& out, const char* name, const char* help) const;

  private:
    static constexpr size_t max_bounds = 24;
    std::span<const double> bounds_;
    std::array<std::atomic<uint64_t>, max_bounds + 1> counts_{};
    std::atomic<double> sum_{0};
};

struct Metrics {
    Metrics();

    Histogram time_to_first_token, inter_token_latency, request_latency, request_prompt_tokens,
        request_generation_tokens, request_queue_time, request_prefill_time, request_decode_time,
        request_inference_time, request_params_max_tokens, request_params_n;
    std::atomic<uint64_t> finished_stop{0}, finished_length{0}, failed{0};
    std::atomic<uint64_t> cancelled_disconnect{0}, cancelled_slow_reader{0}, cancelled_shutdown{0};
    std::array<std::atomic<uint64_t>, 6> responses{};  // by status class; [4] is 4xx
    std::atomic<uint64_t> connections_total{0};
    std::atomic<int64_t> connections{0}, active_generations{0};

    // `engine` is null while the model is loading.
    std::string print(const engine::Engine* engine) const;
};

}  // namespace deepinfer::server
