// The sources of a tokenizer. Internal to the tokenizer layer.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "tokenizer/bpe_tokenizer.h"

namespace deepinfer::tokenizer {

inline constexpr size_t kMaxTokenizerJsonBytes = size_t{256} << 20;
inline constexpr size_t kMaxConfigBytes = size_t{16} << 20;

// The contents of a file of at most `limit` bytes; nothing if there is no such file.
Result<std::optional<std::string>> read_optional_file(const std::filesystem::path& path, size_t limit);

// Parses a tokenizer.json; fills everything but what companion files add.
Result<TokenizerParts> read_tokenizer_json(std::string_view text);
// Parses tokenizer.ggml.* of a GGUF file.
Result<TokenizerParts> read_gguf_tokenizer(const checkpoint::Metadata& metadata);
// Reads what lies beside a tokenizer.json: tokenizer_config.json, chat_template.jinja,
// generation_config.json, and the EOS ids of config.json (`config_json`, perhaps empty) if there is no
// generation_config.json. Absent files are fine. Sets the end-of-generation ids.
Status read_companions(const std::filesystem::path& folder, std::string_view config_json,
                       TokenizerParts& parts);

}  // namespace deepinfer::tokenizer
