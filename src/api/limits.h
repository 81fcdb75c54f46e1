// What one request may ask for. Past a limit the answer is an error that names it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deepinfer::api::limits {

constexpr size_t body_bytes = size_t{32} << 20;  // also what the server reads at most
constexpr size_t json_depth = 64;
constexpr size_t messages = 65'536;
constexpr size_t tools = 512;
constexpr size_t stop_strings = 16;
constexpr size_t stop_string_bytes = 256;
constexpr size_t stop_token_ids = 128;
constexpr size_t prompts = 64;  // of one /v1/completions request
constexpr int64_t max_tokens = 1 << 30;
constexpr int64_t top_k = 1 << 30;
constexpr size_t cache_salt_bytes = 256;
constexpr int64_t priority = 1'000'000;                               // its absolute value
constexpr double shortest_timeout = 0.001, longest_timeout = 86'400;  // seconds

}  // namespace deepinfer::api::limits
