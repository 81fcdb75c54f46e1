// What the engine and its device lane did and when, for people: written as Chrome trace events, which chrome://tracing and
// Perfetto show (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
//
// Keeps the last `capacity` events. All members from any thread; a lock protects the ring, held for a few instructions
// while an event is stored, as a lane has some per step only.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace deepinfer::engine {

class Trace {
  public:
    using Clock = std::chrono::steady_clock;
    enum class Lane : uint8_t { engine = 1, device = 2 };
    struct Event {
        const char* name;  // of static storage
        Lane lane;
        Clock::time_point begin, end;
        uint64_t step = 0;
        int32_t rows = 0, sequences = 0;
        double predicted = 0;  // seconds; 0: no prediction
    };

    explicit Trace(size_t capacity = 100'000) : capacity_(capacity) {}
    void add(const Event& event);
    // The events as a JSON document, oldest first. Takes a tenth of a second when the ring is full.
    std::string json() const;

  private:
    const size_t capacity_;
    mutable std::mutex mutex_;
    std::vector<Event> events_;
    size_t next_ = 0;  // where the ring goes on once it is full
};

}  // namespace deepinfer::engine
