// The options of the subcommands that draw tokens.
#pragma once

#include <CLI/CLI.hpp>

#include "engine/sampling_params.h"

namespace deepinfer::cli {

// The defaults shown are what `sampling` holds. It must outlive the parsing.
void add_sampling_options(CLI::App& command, engine::SamplingParams& sampling);

}  // namespace deepinfer::cli
