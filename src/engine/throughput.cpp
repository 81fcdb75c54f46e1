#include "engine/throughput.h"

#include <algorithm>
#include <cmath>

#include "engine/seconds.h"

namespace deepinfer::engine {

namespace {

constexpr double averaging_seconds = 5;

double kept_after(double passed) { return std::exp(-passed / averaging_seconds); }

}  // namespace

void Throughput::step(Clock::time_point begin, Clock::time_point end, double service) {
    const double took = seconds(end - begin), keep = kept_after(seconds(end - std::max(begin, last_step_)));
    last_step_ = end;
    if (service > 0 && took > 0)
        prefill_share_ = keep * prefill_share_ + (1 - keep) * std::min(1.0, service / took);
}

void Throughput::request_ended(Clock::time_point now) {
    if (last_ended_ != Clock::time_point{}) {
        const double gap = std::max(seconds(now - last_ended_), 1e-6), keep = kept_after(gap);
        ended_per_second_ = keep * ended_per_second_ + (1 - keep) / gap;
    }
    last_ended_ = now;
}

double Throughput::wait(double work, int32_t places) const {
    const double prompts = work / std::max(prefill_share_, 0.02);
    return places > 0 ? std::max(prompts, places * seconds_per_request()) : prompts;
}

}  // namespace deepinfer::engine
