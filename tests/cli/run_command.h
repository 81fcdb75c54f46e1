// Runs a subcommand in this process, as main() would, and catches what it prints.
#pragma once

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace deepinfer::cli {

struct Outcome {
    int code = 0;
    std::string out, err;
};

inline Outcome run_command(void (*add)(CLI::App&, ExitStatus&), std::vector<std::string> arguments) {
    CLI::App app("test", "deepinfer");
    ExitStatus exit;
    add(app, exit);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes a vector from its end
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Outcome outcome;
    try {
        app.parse(arguments);
        outcome.code = exit.code;
    } catch (const CLI::ParseError& error) {
        outcome.code = 2;
        outcome.err = error.what();
    }
    outcome.out = testing::internal::GetCapturedStdout();
    outcome.err += testing::internal::GetCapturedStderr();
    return outcome;
}

}  // namespace deepinfer::cli
