// Durations as numbers, which formulas want.
#pragma once

#include "engine/engine.h"

namespace deepinfer::engine {

inline double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }
inline Clock::duration duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace deepinfer::engine
