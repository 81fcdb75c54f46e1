// For a forked child of a test: the system gives it only so many threads more.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace deepinfer {

// The limit counts all threads of a user and root has none, so root becomes a user that nobody else is. Another user has
// so many already that none is left, whatever `more` says.
inline void allow_threads(unsigned more) {
    const rlimit limit{1 + more, 1 + more};
    constexpr uid_t nobody_else = 61234;
    if (setrlimit(RLIMIT_NPROC, &limit) != 0 ||
        (getuid() == 0 && setresuid(nobody_else, nobody_else, nobody_else) != 0))
        std::_Exit(99);
}

// Ends the child: 0 if the result is an error, whose message goes to standard error.
template <class R>
[[noreturn]] void exit_with(const R& result) {
    if (!result) std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::_Exit(result ? 1 : 0);
}

}  // namespace deepinfer
