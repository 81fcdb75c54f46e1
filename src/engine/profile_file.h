// Times of some steps, kept in a file for the next start: a server knows at once how long steps take on this machine.
//
// The file is JSON. It belongs to one `key`, which says everything that the times depend on (model, quantisation, processor,
// threads, ...); for another key it counts as damaged. It is replaced as a whole (written beside its place and renamed), so
// that readers never see a part of it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "models/step_cost.h"

namespace deepinfer::engine {

struct StepMeasurement {
    std::vector<models::ChunkShape> step;
    double seconds = 0;
};

// Limits of what is read.
constexpr size_t most_profile_bytes = size_t{64} << 10, most_profile_key = 1024;
constexpr size_t most_profile_steps = 64, most_profile_chunks = 64;  // chunks of one step
constexpr int32_t most_profile_position = 1 << 30;
constexpr double shortest_profile_step = 1e-7, longest_profile_step = 3600;  // seconds

std::string format_profile(std::string_view key, const std::vector<StepMeasurement>& steps);
// Error: corrupt_data, which says where and why; resource_exhausted past most_profile_bytes.
Result<std::vector<StepMeasurement>> parse_profile(std::string_view text, std::string_view key);

// Errors of parse_profile(); not_found, io_error.
Result<std::vector<StepMeasurement>> read_profile(const std::filesystem::path& path, std::string_view key);
// Makes the folder if it is missing. Error: io_error.
Status write_profile(const std::filesystem::path& path, std::string_view key,
                     const std::vector<StepMeasurement>& steps);

}  // namespace deepinfer::engine
