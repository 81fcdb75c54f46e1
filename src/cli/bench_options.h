// The options of `deepinfer bench`: the spelling of llama-bench, so that its scripts work here.
//
// An option takes several values separated by commas, or is repeated; numbers may be ranges: first-last,
// first-last+step, first-last*factor. Options of llama-bench that mean nothing here are refused with the reason, unless
// their value asks for what happens anyway.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/linear.h"
#include "kv/layout.h"

namespace deepinfer::cli {

enum class BenchOutput { markdown, json, jsonl, csv };

struct BenchOptions {
    std::vector<std::string> models;
    std::vector<int> prompts, generations;  // tokens; 0: skip
    std::vector<std::pair<int, int>> prompt_then_generation;
    std::vector<int> depths, threads, batch_rows, micro_batch_rows;
    std::vector<int> sequences;  // side by side
    std::vector<int> step_rows;  // rows of one sequence in a step of decoding
    std::vector<KvType> kv_types;
    kernels::Compute compute = kernels::Compute::serve;
    int repetitions = 5, delay_seconds = 0;
    bool warm_up = true, bandwidth = false, progress = false, help = false;
    BenchOutput output = BenchOutput::markdown;
};

// Lists that were not given have llama-bench's defaults. An error names the option.
Result<BenchOptions> parse_bench_options(const std::vector<std::string>& arguments);

std::string bench_help();

}  // namespace deepinfer::cli
