#include "engine/trace.h"

#include <cstdio>

namespace deepinfer::engine {

void Trace::add(const Event& event) {
    const std::lock_guard lock(mutex_);
    if (events_.size() < capacity_) {
        events_.push_back(event);
        return;
    }
    events_[next_] = event;
    next_ = (next_ + 1) % capacity_;
}

std::string Trace::json() const {
    std::vector<Event> events;
    {
        const std::lock_guard lock(mutex_);
        events.assign(events_.begin() + static_cast<std::ptrdiff_t>(next_), events_.end());
        events.insert(events.end(), events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(next_));
    }
    std::string out =
        R"({"displayTimeUnit":"ms","traceEvents":[{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"engine"}},)"
        R"({"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"device"}})";
    const auto microseconds = [](Clock::duration d) {
        return std::chrono::duration<double, std::micro>(d).count();
    };
    for (const Event& e : events) {
        char text[320];
        std::snprintf(
            text, sizeof text,
            R"(,{"ph":"X","pid":1,"tid":%d,"name":"%s","ts":%.1f,"dur":%.1f,"args":{"step":%llu,"rows":%d,)"
            R"("sequences":%d,"predicted_ms":%.3f}})",
            static_cast<int>(e.lane), e.name, microseconds(e.begin.time_since_epoch()),
            microseconds(e.end - e.begin), static_cast<unsigned long long>(e.step), e.rows, e.sequences,
            e.predicted * 1e3);
        out += text;
    }
    return out + "]}\n";
}

}  // namespace deepinfer::engine
