// What other threads tell the engine, and what the engine shows them: the only state that threads share. The lock is held
// for a few instructions, never over compute or a listener.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "engine/engine.h"

namespace deepinfer::engine {

class Mailbox {
  public:
    struct Arrival {
        RequestId id = 0;
        Request request;
        Listener listener;
        Clock::time_point time;
    };
    struct Cancel {
        RequestId id = 0;
        int32_t choice = -1;  // -1: all
    };
    struct Orders {
        std::vector<Arrival> arrived;
        std::vector<Cancel> cancelled;
        RequestId cancelled_below = 0;     // all with a lower id
        bool cancels(RequestId id) const;  // all of the request's choices
    };

    // At most `places` sequences wait and run; who would wait longer than `max_wait_seconds` (if positive) is refused.
    Mailbox(int32_t places, double max_wait_seconds) : places_(places), max_wait_(max_wait_seconds) {}

    // Any thread.
    Result<RequestId> submit(Request request, Listener listener);
    void cancel(RequestId id, int32_t choice);
    void cancel_all();
    void stop();
    void wake();  // take() returns, though there may be nothing in it
    EngineStats stats() const;

    // The engine's thread. Waits until there is something, stop(), wake() or `until`; Clock::time_point::min(): not at all.
    Orders take(Clock::time_point until);
    bool stopping() const;
    // `seconds_per_finish`: how long until the next request ends, at the present rate; 0: not known.
    void publish(const EngineStats& stats, double seconds_per_finish);

  private:
    const int32_t places_;
    const double max_wait_;
    mutable std::mutex mutex_;
    std::condition_variable wake_;
    Orders orders_;
    bool stopping_ = false, woken_ = false;
    RequestId next_id_ = 1;
    int32_t arrived_choices_ = 0;  // sequences in orders_.arrived
    double seconds_per_finish_ = 0;
    EngineStats stats_;
};

}  // namespace deepinfer::engine
