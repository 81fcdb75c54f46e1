// A model on disk: named tensors and metadata, read from GGUF (v2, v3) or safetensors (one file or sharded
// folder).
//
// Opening maps the files read-only and checks every header field against the file's size before anything is
// allocated or trusted: counts, lengths, types, shapes, alignment, offsets, overlap. A violation is an Error
// that names the field, the value and what would be right. Tensor data itself is only mapped, never copied.
//
// Ownership: the Checkpoint owns the mappings; every span and string_view obtained from it lives as long as
// it does. Threads: immutable after open(); any number of threads may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/tensor_type.h"

namespace deepinfer::checkpoint {

enum class FileFormat { gguf, safetensors };

// One stored tensor. `shape` is outermost first (row-major), so a weight matrix of a linear layer is
// {outputs, inputs} in both formats; the last dimension is contiguous and is the one that is quantised in
// blocks. `data` may be at any address (safetensors promises no alignment): copy elements out, do not cast
// the pointer.
struct Tensor {
    std::string name;
    TensorType type = TensorType::f32;
    std::vector<int64_t> shape;
    std::span<const std::byte> data;

    int64_t values() const;                                                    // product of the shape
    int64_t rows() const { return shape.empty() ? 1 : values() / columns(); }  // all but the last dimension
    int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
    std::string shape_string() const;  // "[576, 1536]"
};

// Metadata value of a GGUF key. Integers of every width arrive as int64/uint64, floats as double.
struct MetadataArray;
using MetadataValue =
    std::variant<bool, int64_t, uint64_t, double, std::string, std::shared_ptr<const MetadataArray>>;

// Arrays keep their element type; strings are views into the mapped file.
struct MetadataArray {
    std::variant<std::vector<bool>, std::vector<int64_t>, std::vector<double>, std::vector<std::string_view>>
        values;
    size_t size() const;
};

class Metadata {
  public:
    const MetadataValue* find(std::string_view key) const;
    // Typed look-ups: nothing if the key is absent; an Error naming key and types if it is there with another
    // type or does not fit the requested range.
    Result<std::optional<int64_t>> integer(std::string_view key) const;
    Result<std::optional<double>> number(std::string_view key) const;  // accepts integers, too
    Result<std::optional<bool>> boolean(std::string_view key) const;
    Result<std::optional<std::string>> string(std::string_view key) const;
    const MetadataArray* array(std::string_view key) const;  // nullptr if absent or not an array

    std::map<std::string, MetadataValue, std::less<>> values;
};

// What tells whether a file is still the one it was, without reading it.
struct FileStamp {
    uint64_t bytes = 0;
    int64_t modified_ns = 0;  // since 1970
};

class Checkpoint {
  public:
    // `path`: a .gguf file, a .safetensors file, or a folder holding model.safetensors or
    // model.safetensors.index.json with its shards. config.json beside the weights is read when there is one.
    static Result<std::unique_ptr<Checkpoint>> open(const std::filesystem::path& path);
    // The same parser over bytes in memory (tests, fuzzing). The bytes must outlive the object.
    static Result<std::unique_ptr<Checkpoint>> parse_gguf(std::span<const std::byte> bytes);
    static Result<std::unique_ptr<Checkpoint>> parse_safetensors(std::span<const std::byte> bytes);
    virtual ~Checkpoint() = default;

    virtual FileFormat format() const = 0;
    virtual const std::filesystem::path& path() const = 0;        // empty for parsed bytes
    virtual const Metadata& metadata() const = 0;                 // GGUF keys; empty for safetensors
    virtual const std::string& config_json() const = 0;           // text of config.json; empty for GGUF
    virtual const std::vector<Tensor>& tensors() const = 0;       // in file order
    virtual const Tensor* find(std::string_view name) const = 0;  // nullptr if there is none
    virtual uint64_t file_bytes() const = 0;                      // of all files together
    // Of the files with tensors, in the order in which tensors() goes through them; empty for parsed bytes.
    virtual std::vector<FileStamp> files() const { return {}; }
    // Tells the kernel that the pages of this range are no longer needed (after repacking). Never fails
    // loudly.
    virtual void release_pages(std::span<const std::byte> range) const = 0;
};

}  // namespace deepinfer::checkpoint
