// What the engine got done lately, as moving averages: from that, how long somebody who comes now would wait.
//
// Threads: owned by the engine thread.
#pragma once

#include <cstdint>

#include "engine/engine.h"

namespace deepinfer::engine {

class Throughput {
  public:
    // A step was computed. `service`: seconds that the chunks of prompts in it would have taken alone; 0 if there were none.
    void step(Clock::time_point begin, Clock::time_point end, double service);
    void request_ended(Clock::time_point now);

    double seconds_per_request() const { return ended_per_second_ > 0 ? 1 / ended_per_second_ : 0; }
    // Seconds until prompts of `work` seconds (each alone) are computed at the speed at which prompts are computed beside
    // decoding, and until `places` sequences have ended.
    double wait(double work, int32_t places) const;

  private:
    double prefill_share_ = 1;  // of the time, seconds of service done per second
    double ended_per_second_ = 0;
    Clock::time_point last_step_{}, last_ended_{};
};

}  // namespace deepinfer::engine
