#include "cli/stats_log.h"

#include <chrono>
#include <cstdio>

#include "base/start_thread.h"

namespace deepinfer::cli {

std::string describe(const engine::EngineStats& before, const engine::EngineStats& now, double seconds) {
    const double prompt = now.prompt_step_seconds_total - before.prompt_step_seconds_total,
                 decode = now.decode_step_seconds_total - before.decode_step_seconds_total,
                 predicted = now.predicted_seconds_total - before.predicted_seconds_total;
    const auto steps = static_cast<double>(now.steps_total - before.steps_total);
    const auto percent = [](double part, double whole) { return whole > 0 ? 100 * part / whole : 0.0; };
    char text[512];
    std::snprintf(text, sizeof text,
                  "%.1f prompt tokens/s (%.0f %% found in the cache) and %.1f answer tokens/s; %d running, "
                  "%d waiting; KV cache %.0f %%; %.1f "
                  "steps/s of %.1f "
                  "rows, %.0f %% of the time with prompts, %.0f %% without, predicted within %+.0f %%; %llu "
                  "ended, %llu "
                  "cancelled, %llu refused, %llu put back",
                  static_cast<double>(now.prompt_tokens_total - before.prompt_tokens_total) / seconds,
                  percent(static_cast<double>(now.cache_hits_total - before.cache_hits_total),
                          static_cast<double>(now.cache_queries_total - before.cache_queries_total)),
                  static_cast<double>(now.generated_tokens_total - before.generated_tokens_total) / seconds,
                  now.running, now.waiting, percent(now.blocks_total - now.blocks_free, now.blocks_total),
                  steps / seconds,
                  steps > 0 ? static_cast<double>(now.step_rows_total - before.step_rows_total) / steps : 0.0,
                  percent(prompt, seconds), percent(decode, seconds),
                  percent(predicted - prompt - decode, prompt + decode),
                  static_cast<unsigned long long>(now.finished_stop_total + now.finished_length_total -
                                                  before.finished_stop_total - before.finished_length_total),
                  static_cast<unsigned long long>(now.cancelled_total - before.cancelled_total),
                  static_cast<unsigned long long>(now.rejected_total - before.rejected_total),
                  static_cast<unsigned long long>(now.preemptions_total - before.preemptions_total));
    return text;
}

std::string describe_failures(const engine::EngineStats& before, const engine::EngineStats& now) {
    std::string text;
    for (size_t i = 0; i < now.tiers.size(); ++i) {
        const store::StoreStats none, &was = i < before.tiers.size() ? before.tiers[i].store : none,
                                      &is = now.tiers[i].store;
        const uint64_t reads = is.failed_total - was.failed_total,
                       damaged = is.damaged_total - was.damaged_total,
                       writes = is.not_stored_total - was.not_stored_total;
        if (reads + writes + damaged == 0) continue;
        if (!text.empty()) text += "\n";
        text += "cache \"" + now.tiers[i].name + "\": " + std::to_string(reads) + " reads failed, " +
                std::to_string(damaged) + " blocks were damaged, " + std::to_string(writes) +
                " blocks could not be stored" + (is.problem.empty() ? "" : ": " + is.problem) +
                "; answers do not depend on it";
    }
    return text;
}

Result<std::unique_ptr<StatsLog>> StatsLog::start(const engine::Engine* engine, int seconds) {
    std::unique_ptr<StatsLog> log(new StatsLog);
    if (seconds == 0) return log;
    auto thread = start_thread("of the log (--log-seconds)",
                               [self = log.get(), engine, seconds] { self->run(*engine, seconds); });
    if (!thread) return std::move(thread).error();
    log->thread_ = std::move(*thread);
    return log;
}

StatsLog::~StatsLog() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void StatsLog::run(const engine::Engine& engine, int seconds) {
    engine::EngineStats before = engine.stats();
    auto last = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::seconds(seconds), [this] { return stopping_; })) {
        const engine::EngineStats now = engine.stats();
        const auto time = std::chrono::steady_clock::now();
        if (now.steps_total != before.steps_total || now.waiting > 0)
            std::fprintf(stderr, "%s\n",
                         describe(before, now, std::chrono::duration<double>(time - last).count()).c_str());
        if (const std::string failures = describe_failures(before, now); !failures.empty())
            std::fprintf(stderr, "%s\n", failures.c_str());
        before = now;
        last = time;
    }
}

}  // namespace deepinfer::cli
