// Where a tokenizer comes from: the factories of Tokenizer.
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tokenizer/loaders.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::tokenizer {

Result<std::optional<std::string>> read_optional_file(const std::filesystem::path& path, size_t limit) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return std::optional<std::string>();
    if (!std::filesystem::is_regular_file(path, error))
        return Error{ErrorCode::invalid_argument, path.string() + ": not a regular file"};
    const uintmax_t size = std::filesystem::file_size(path, error);
    if (error) return Error{ErrorCode::io_error, path.string() + ": " + error.message()};
    if (size > limit)
        return Error{ErrorCode::resource_exhausted, path.string() + ": " + std::to_string(size) +
                                                        " bytes, more than the limit of " +
                                                        std::to_string(limit)};
    std::string text(size_t(size), '\0');
    std::ifstream stream(path, std::ios::binary);
    if (!stream.read(text.data(), std::streamsize(text.size())) && size > 0)
        return Error{ErrorCode::io_error, path.string() + ": cannot be read"};
    return std::optional<std::string>(std::move(text));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view text) {
    Result<TokenizerParts> parts = read_tokenizer_json(text);
    if (!parts) return std::move(parts).error();
    find_end_of_generation(*parts, {});
    return make_tokenizer(std::move(*parts));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json_file(const std::filesystem::path& path) {
    Result<std::optional<std::string>> text = read_optional_file(path, kMaxTokenizerJsonBytes);
    if (!text) return std::move(text).error();
    if (!*text) return Error{ErrorCode::not_found, path.string() + ": no such file"};
    Result<TokenizerParts> parts = read_tokenizer_json(**text);
    if (!parts) return std::move(parts).error();
    if (Status done = read_companions(path.parent_path(), {}, *parts); !done) return done.error();
    return make_tokenizer(std::move(*parts));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_checkpoint(const checkpoint::Checkpoint& model) {
    if (model.format() == checkpoint::FileFormat::gguf) {
        Result<TokenizerParts> parts = read_gguf_tokenizer(model.metadata());
        if (!parts) return std::move(parts).error();
        return make_tokenizer(std::move(*parts));
    }
    std::error_code error;
    const std::filesystem::path folder =
        std::filesystem::is_directory(model.path(), error) ? model.path() : model.path().parent_path();
    Result<std::optional<std::string>> text =
        read_optional_file(folder / "tokenizer.json", kMaxTokenizerJsonBytes);
    if (!text) return std::move(text).error();
    if (!*text)
        return Error{ErrorCode::not_found,
                     folder.string() + ": has no tokenizer.json, so text cannot be encoded"};
    Result<TokenizerParts> parts = read_tokenizer_json(**text);
    if (!parts) return std::move(parts).error();
    if (Status done = read_companions(folder, model.config_json(), *parts); !done) return done.error();
    return make_tokenizer(std::move(*parts));
}

}  // namespace deepinfer::tokenizer
