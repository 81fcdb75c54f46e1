// The results of `deepinfer bench` as text. Names and units of the fields are those of llama-bench, as far as both have
// them, so that scripts can read either.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_options.h"
#include "cli/bench_session.h"

namespace deepinfer::cli {

struct BenchResult {
    BenchTest test;
    BenchSamples samples;
    std::string model_filename, model_type;
    uint64_t model_size = 0, model_n_params = 0;  // bytes of all tensors as stored; values in them
    uint64_t weight_bytes = 0;                    // in memory, repacked
    int threads = 1;
    std::string isa;
    kernels::Compute compute = kernels::Compute::serve;
    std::string time;  // ISO 8601, when the test began
};

// Prints one result after another, so that a long run can be watched.
class BenchReport {
  public:
    explicit BenchReport(const BenchOptions& options);
    std::string begin() const;
    std::string row(const BenchResult& result);
    std::string end() const;

  private:
    std::string markdown_row(const BenchResult& result) const;

    BenchOutput output_;
    bool rows_column_, type_column_, bandwidth_;
    bool first_ = true;
};

}  // namespace deepinfer::cli
