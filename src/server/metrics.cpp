#include "server/metrics.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>

namespace deepinfer::server {
namespace {

constexpr double latency_bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                     2.5,   5,      10,    20,   40,    80,   160, 320,  640, 1280};
constexpr double token_bounds[] = {1,    2,    5,     10,    20,    50,     100,    200,    500,    1000,
                                   2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};

constexpr double count_bounds[] = {1, 2, 5, 10, 20};

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

void head(std::string& out, const char* name, const char* help, const char* type) {
    out.append("# HELP deepinfer_").append(name).append(" ").append(help).append("\n");
    out.append("# TYPE deepinfer_").append(name).append(" ").append(type).append("\n");
}

void sample(std::string& out, const char* name, const std::string& labels, double value) {
    out.append("deepinfer_").append(name).append(labels).append(" ").append(number(value)).append("\n");
}

void gauge(std::string& out, const char* name, const char* help, double value) {
    head(out, name, help, "gauge");
    sample(out, name, "", value);
}

void counter(std::string& out, const char* name, const char* help, uint64_t value) {
    head(out, name, help, "counter");
    sample(out, name, "", static_cast<double>(value));
}

void counters(std::string& out, const char* name, const char* help, const char* label,
              std::initializer_list<std::pair<const char*, uint64_t>> values) {
    head(out, name, help, "counter");
    for (const auto& [word, value] : values) {
        std::string labels("{");
        labels.append(label).append("=\"").append(word).append("\"}");
        sample(out, name, labels, static_cast<double>(value));
    }
}

// counts[i]: values of at most bounds[i] and above the bound before; one more for all others.
void print_histogram(std::string& out, const char* name, const char* help, std::span<const double> bounds,
                     std::span<const uint64_t> counts, double sum) {
    head(out, name, help, "histogram");
    const std::string base(name);
    uint64_t total = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
        total += counts[i];
        std::string labels("{le=\"");
        labels.append(i < bounds.size() ? number(bounds[i]) : "+Inf").append("\"}");
        sample(out, (base + "_bucket").c_str(), labels, static_cast<double>(total));
    }
    sample(out, (base + "_sum").c_str(), "", sum);
    sample(out, (base + "_count").c_str(), "", static_cast<double>(total));
}

void durations(std::string& out, const char* name, const char* help, const DurationHistogram& histogram) {
    print_histogram(out, name, help, DurationHistogram::bounds, histogram.counts, histogram.sum);
}

}  // namespace

void Histogram::record(double value) {
    const size_t bucket =
        static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin());
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
}

void Histogram::print(std::string& out, const char* name, const char* help) const {
    std::array<uint64_t, max_bounds + 1> counts{};
    for (size_t i = 0; i <= bounds_.size(); ++i) counts[i] = counts_[i].load(std::memory_order_relaxed);
    print_histogram(out, name, help, bounds_, std::span(counts).first(bounds_.size() + 1),
                    sum_.load(std::memory_order_relaxed));
}

Metrics::Metrics()
    : time_to_first_token(latency_bounds),
      inter_token_latency(latency_bounds),
      request_latency(latency_bounds),
      request_prompt_tokens(token_bounds),
      request_generation_tokens(token_bounds),
      request_queue_time(latency_bounds),
      request_prefill_time(latency_bounds),
      request_decode_time(latency_bounds),
      request_inference_time(latency_bounds),
      request_params_max_tokens(token_bounds),
      request_params_n(count_bounds) {
    static_assert(std::size(latency_bounds) <= 24 && std::size(token_bounds) <= 24);
}

namespace {

void print_stores(std::string& out, const engine::EngineStats& stats) {
    if (stats.tiers.empty()) return;
    using Tier = engine::TierStats;
    const auto each = [&](const char* name, const char* help, const char* type,
                          const std::function<std::optional<uint64_t>(const Tier&)>& value) {
        if (std::ranges::none_of(stats.tiers, [&](const Tier& tier) { return value(tier).has_value(); }))
            return;
        head(out, name, help, type);
        for (const Tier& tier : stats.tiers)
            if (const auto number = value(tier))
                sample(out, name, "{store=\"" + tier.name + "\"}", static_cast<double>(*number));
    };
    each("cache_store_hits_total", "Prompt tokens whose blocks came from a store.", "counter",
         [](const Tier& t) { return t.hits_total; });
    each("cache_store_blocks", "Blocks in a store, as far as known here.", "gauge",
         [](const Tier& t) { return t.store.blocks; });
    each("cache_store_bytes", "Bytes in a store, as far as known here.", "gauge",
         [](const Tier& t) { return t.store.bytes; });
    each("cache_store_budget_bytes", "Bytes that a store may have.", "gauge",
         [](const Tier& t) { return t.store.budget_bytes; });
    each("cache_store_read_bytes_total", "Bytes of blocks read.", "counter",
         [](const Tier& t) { return t.store.read_bytes_total; });
    each("cache_store_written_bytes_total", "Bytes of blocks written.", "counter",
         [](const Tier& t) { return t.store.stored_bytes_total; });
    each("cache_store_damaged_total", "Blocks that were not as they had been written: not used.", "counter",
         [](const Tier& t) { return t.store.damaged_total; });
    each("cache_store_failed_total", "Reads and writes that failed.", "counter",
         [](const Tier& t) { return t.store.failed_total + t.store.not_stored_total; });
    each("cache_store_evicted_total", "Blocks that made room for others.", "counter",
         [](const Tier& t) { return t.store.evicted_total; });
    each("cache_store_expired_total", "Blocks whose time had passed.", "counter",
         [](const Tier& t) { return t.store.expired_total; });
    counters(out, "cache_lookups_total", "Prompts looked for in the stores, by what came of it.", "result",
             {{"loaded", stats.cache_loads_total},
              {"nothing", stats.cache_lookups_empty_total},
              {"no_answer", stats.cache_lookups_given_up_total},
              {"no_room", stats.cache_loads_no_room_total},
              {"late", stats.cache_loads_late_total},
              {"failed", stats.cache_loads_failed_total},
              {"slower_than_computing", stats.cache_loads_not_worth_total}});
    counters(out, "cache_writes_total", "Blocks on their way to the stores, by what came of it.", "result",
             {{"written", stats.cache_writes_total},
              {"failed", stats.cache_writes_failed_total},
              {"dropped", stats.cache_writes_dropped_total}});
}

void print_engine(std::string& out, const engine::EngineStats& stats) {
    gauge(out, "num_requests_running",
          "Answers being computed: of a request with n = 8, eight once its prompt is.", stats.running);
    gauge(out, "num_requests_waiting", "Answers that wait: of a request with n = 8, eight.", stats.waiting);
    const int used = stats.blocks_total - stats.blocks_free;
    gauge(out, "kv_cache_usage_perc", "Share of KV cache blocks in use, 0 to 1.",
          stats.blocks_total > 0 ? static_cast<double>(used) / stats.blocks_total : 0);
    gauge(out, "kv_cache_blocks", "KV cache blocks.", stats.blocks_total);
    counter(out, "prompt_tokens_total", "Prompt tokens processed.", stats.prompt_tokens_total);
    counter(out, "generation_tokens_total", "Tokens generated.", stats.generated_tokens_total);
    counter(out, "num_preemptions_total", "Requests put back into the queue to free memory.",
            stats.preemptions_total);
    counter(out, "requests_rejected_total",
            "Requests refused by the engine, for example since its queue was full.", stats.rejected_total);
    counter(out, "engine_steps_total", "Batches computed.", stats.steps_total);
    counter(out, "engine_wasted_rows_total", "Rows computed for answers that had just ended.",
            stats.wasted_rows_total);
    head(out, "engine_step_seconds_total", "Time of batches, with and without prompt rows.", "counter");
    sample(out, "engine_step_seconds_total", "{kind=\"prompt\"}", stats.prompt_step_seconds_total);
    sample(out, "engine_step_seconds_total", "{kind=\"decode\"}", stats.decode_step_seconds_total);
    head(out, "engine_predicted_seconds_total", "What the cost model predicted for these batches.",
         "counter");
    sample(out, "engine_predicted_seconds_total", "", stats.predicted_seconds_total);
    head(out, "engine_prediction_error", "Relative error of the predicted times of the latest 512 batches.",
         "gauge");
    sample(out, "engine_prediction_error", "{share=\"0.5\"}", stats.prediction_error_median);
    sample(out, "engine_prediction_error", "{share=\"0.9\"}", stats.prediction_error_p90);
    gauge(out, "engine_estimated_wait_seconds",
          "How long a request that came now would wait for its first rows.", stats.estimated_wait);
    print_histogram(out, "iteration_tokens", "Token rows of a batch.", engine::step_row_bounds,
                    stats.step_rows, static_cast<double>(stats.step_rows_total));
}

void print_cache(std::string& out, const engine::EngineStats& stats) {
    counter(out, "prefix_cache_queries_total", "Prompt tokens of requests that began.",
            stats.cache_queries_total);
    counter(out, "prefix_cache_hits_total", "Of these, tokens that were computed before and found again.",
            stats.cache_hits_total);
    head(out, "prefix_cache_misses_total", "The other ones, by why they had to be computed.", "counter");
    for (size_t why = 0; why < stats.cache_misses_total.size(); ++why)
        sample(out, "prefix_cache_misses_total",
               "{reason=\"" + std::string(engine::cache_miss_names[why]) + "\"}",
               static_cast<double>(stats.cache_misses_total[why]));
    counter(out, "prefix_cache_evictions_total", "Blocks that made room for others.",
            stats.cache.evicted_total);
    durations(out, "kv_block_lifetime_seconds", "Of blocks that made room, since they were computed.",
              stats.cache.lifetime);
    durations(out, "kv_block_idle_before_evict_seconds", "Of these, since they were used last.",
              stats.cache.idle);
    durations(out, "kv_block_reuse_gap_seconds", "From one use of a block to the next.",
              stats.cache.reuse_gap);
    gauge(out, "prefix_cache_blocks", "Blocks that no request uses and that may be found again.",
          stats.blocks_kept);
    head(out, "prefix_cache_saved_seconds_total",
         "What computing the tokens that were found would have taken, by the cost model.", "counter");
    sample(out, "prefix_cache_saved_seconds_total", "", stats.cache_seconds_saved_total);
}

}  // namespace

std::string Metrics::print(const engine::Engine* engine) const {
    std::string out;
    if (engine) {
        const engine::EngineStats stats = engine->stats();
        print_engine(out, stats);
        print_cache(out, stats);
        print_stores(out, stats);
    }
    counters(out, "request_success_total", "Requests answered, by the reason they ended.", "finished_reason",
             {{"stop", finished_stop}, {"length", finished_length}});
    counter(out, "request_failure_total", "Requests that ended in an error of the engine.", failed);
    counters(out, "requests_cancelled_total", "Requests given up, by reason.", "reason",
             {{"disconnect", cancelled_disconnect},
              {"slow_reader", cancelled_slow_reader},
              {"shutdown", cancelled_shutdown}});
    time_to_first_token.print(out, "time_to_first_token_seconds", "From the request to its first token.");
    inter_token_latency.print(out, "inter_token_latency_seconds", "Between tokens of one answer.");
    request_latency.print(out, "e2e_request_latency_seconds", "From the request to its last token.");
    request_prompt_tokens.print(out, "request_prompt_tokens", "Prompt tokens of a request.");
    request_generation_tokens.print(out, "request_generation_tokens", "Generated tokens of a request.");
    request_queue_time.print(out, "request_queue_time_seconds", "From a request to its first rows.");
    request_prefill_time.print(out, "request_prefill_time_seconds",
                               "From its first rows to its first token.");
    request_decode_time.print(out, "request_decode_time_seconds", "From its first token to its last.");
    request_inference_time.print(out, "request_inference_time_seconds",
                                 "From its first rows to its last token.");
    request_params_max_tokens.print(out, "request_params_max_tokens", "Tokens that a request allows.");
    request_params_n.print(out, "request_params_n", "Answers that a request wants.");
    counters(out, "http_responses_total", "HTTP responses, by class of status.", "class",
             {{"2xx", responses[2]}, {"4xx", responses[4]}, {"5xx", responses[5]}});
    counter(out, "http_connections_total", "Connections accepted.", connections_total);
    gauge(out, "http_connections", "Connections open.", static_cast<double>(connections.load()));
    return out;
}

}  // namespace deepinfer::server
