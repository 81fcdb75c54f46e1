// Threads that may fail to start: the system limits how many a user or a container has.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/result.h"

namespace deepinfer {

// resource_exhausted: thread number `started` + 1 of `wanted` could not be started. `purpose`: "that compute".
inline Error thread_error(const std::string& purpose, int started, int wanted,
                          const std::system_error& cause) {
    return {ErrorCode::resource_exhausted,
            "cannot start thread " + std::to_string(started + 1) + " of " + std::to_string(wanted) + " " +
                purpose + " (" + cause.code().message() +
                "): the limit of processes and threads (ulimit -u, or pids.max of a container) or of memory "
                "(ulimit -v) is too low, or fewer threads should be wanted (--threads)"};
}

template <class F>
Result<std::thread> start_thread(const std::string& purpose, F&& f) {
    try {
        return std::thread(std::forward<F>(f));
    } catch (const std::system_error& error) {
        return thread_error(purpose, 0, 1, error);
    }
}

}  // namespace deepinfer
