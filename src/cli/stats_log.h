// A line for people every few seconds: what the engine did since the last one. Silent while it does nothing.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "engine/engine.h"

namespace deepinfer::cli {

// What happened between two moments, `seconds` apart.
std::string describe(const engine::EngineStats& before, const engine::EngineStats& now, double seconds);

// What stores failed at, a line for each that did, without a line break at the end; empty if none.
std::string describe_failures(const engine::EngineStats& before, const engine::EngineStats& now);

class StatsLog {
  public:
    // `engine` must outlive the object; 0 seconds: never. Lines go to standard error.
    // Error: resource_exhausted if there is no thread for it.
    static Result<std::unique_ptr<StatsLog>> start(const engine::Engine* engine, int seconds);
    ~StatsLog();
    StatsLog(const StatsLog&) = delete;
    StatsLog& operator=(const StatsLog&) = delete;

  private:
    StatsLog() = default;
    void run(const engine::Engine& engine, int seconds);

    std::mutex mutex_;
    std::condition_variable changed_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace deepinfer::cli
