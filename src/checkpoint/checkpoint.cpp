#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/mapped_file.h"
#include "checkpoint/contents.h"

namespace deepinfer::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes = size_t{16} << 20;

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class LoadedCheckpoint final : public Checkpoint {
  public:
    LoadedCheckpoint(FileFormat format, fs::path path, Contents contents, std::vector<MappedFile> files,
                     std::string config_json, uint64_t file_bytes)
        : format_(format),
          path_(std::move(path)),
          contents_(std::move(contents)),
          files_(std::move(files)),
          config_json_(std::move(config_json)),
          file_bytes_(file_bytes) {
        by_name_.reserve(contents_.tensors.size());
        for (const Tensor& tensor : contents_.tensors) by_name_.push_back(&tensor);
        std::sort(by_name_.begin(), by_name_.end(),
                  [](const Tensor* a, const Tensor* b) { return a->name < b->name; });
    }

    // A name that two tensors share, if there is one.
    const std::string* repeated_name() const {
        const auto found =
            std::adjacent_find(by_name_.begin(), by_name_.end(),
                               [](const Tensor* a, const Tensor* b) { return a->name == b->name; });
        return found == by_name_.end() ? nullptr : &(*found)->name;
    }

    FileFormat format() const override { return format_; }
    const fs::path& path() const override { return path_; }
    const Metadata& metadata() const override { return contents_.metadata; }
    const std::string& config_json() const override { return config_json_; }
    const std::vector<Tensor>& tensors() const override { return contents_.tensors; }
    uint64_t file_bytes() const override { return file_bytes_; }
    std::vector<FileStamp> files() const override {
        std::vector<FileStamp> stamps;
        for (const MappedFile& file : files_) stamps.push_back({file.bytes().size(), file.modified_ns()});
        return stamps;
    }

    const Tensor* find(std::string_view name) const override {
        const auto found =
            std::lower_bound(by_name_.begin(), by_name_.end(), name,
                             [](const Tensor* tensor, std::string_view n) { return tensor->name < n; });
        return found != by_name_.end() && (*found)->name == name ? *found : nullptr;
    }

    void release_pages(std::span<const std::byte> range) const override {
        for (const MappedFile& file : files_) file.release_pages(range);
    }

  private:
    FileFormat format_;
    fs::path path_;
    Contents contents_;
    std::vector<MappedFile> files_;
    std::string config_json_;
    uint64_t file_bytes_;
    std::vector<const Tensor*> by_name_;  // sorted; not hashed, so that no file can choose names that collide
};

struct Source {
    fs::path path;
    std::string name;  // in messages
};

Result<std::unique_ptr<Checkpoint>> finish(FileFormat format, const Source& source, Contents contents,
                                           std::vector<MappedFile> files, std::string config_json,
                                           uint64_t file_bytes) {
    auto loaded = std::make_unique<LoadedCheckpoint>(format, source.path, std::move(contents),
                                                     std::move(files), std::move(config_json), file_bytes);
    if (const std::string* name = loaded->repeated_name())
        return corrupt(source.name, "tensor " + quote(*name) + " appears twice; names must be unique");
    return std::unique_ptr<Checkpoint>(std::move(loaded));
}

Result<std::string> read_config(const fs::path& folder) {
    const fs::path path = folder / "config.json";
    Result<MappedFile> file = MappedFile::open(path);
    if (!file && file.error().code == ErrorCode::not_found) return std::string();
    if (!file) return file.error();
    if (file->bytes().size() > kMaxConfigBytes)
        return corrupt(path.string(), std::to_string(file->bytes().size()) + " bytes; at most " +
                                          std::to_string(kMaxConfigBytes) + " are accepted");
    return std::string(as_text(file->bytes()));
}

Result<std::unique_ptr<Checkpoint>> open_gguf(const Source& source, MappedFile file) {
    Result<Contents> contents = read_gguf(file.bytes(), source.name);
    if (!contents) return contents.error();
    const uint64_t size = file.bytes().size();
    std::vector<MappedFile> files;
    files.push_back(std::move(file));
    return finish(FileFormat::gguf, source, std::move(*contents), std::move(files), {}, size);
}

Result<std::unique_ptr<Checkpoint>> open_safetensors(const Source& source, MappedFile file) {
    Result<std::string> config =
        read_config(fs::is_directory(source.path) ? source.path : source.path.parent_path());
    if (!config) return config.error();
    Result<Contents> contents = read_safetensors(file.bytes(), source.name);
    if (!contents) return contents.error();
    const uint64_t size = file.bytes().size();
    std::vector<MappedFile> files;
    files.push_back(std::move(file));
    return finish(FileFormat::safetensors, source, std::move(*contents), std::move(files), std::move(*config),
                  size);
}

// The tensors that the index assigns to `shard_name` (a range of `entries`, sorted by tensor name), taken
// from the shard's own header in file order. A tensor the index does not assign to this shard is not part of
// the model.
Status take_indexed(std::span<const ShardEntry> entries, const std::string& shard_name, Contents shard,
                    Contents& contents) {
    const auto before = [](const auto& entry, const std::string& name) { return entry.tensor < name; };
    size_t taken = 0;
    std::vector<bool> seen(entries.size());
    for (Tensor& tensor : shard.tensors) {
        const auto entry = std::lower_bound(entries.begin(), entries.end(), tensor.name, before);
        if (entry == entries.end() || entry->tensor != tensor.name) continue;
        seen[static_cast<size_t>(entry - entries.begin())] = true;
        contents.tensors.push_back(std::move(tensor));
        ++taken;
    }
    if (taken == entries.size()) return {};
    const size_t missing = static_cast<size_t>(std::find(seen.begin(), seen.end(), false) - seen.begin());
    return corrupt(shard_name, "tensor " + quote(entries[missing].tensor) +
                                   " is not in this shard, although the index says so");
}

Result<std::unique_ptr<Checkpoint>> open_sharded(const Source& source, const fs::path& index_path) {
    Result<MappedFile> index = MappedFile::open(index_path);
    if (!index) return index.error();
    Result<std::vector<ShardEntry>> entries = read_shard_index(as_text(index->bytes()), index_path.string());
    if (!entries) return entries.error();
    Result<std::string> config = read_config(source.path);
    if (!config) return config.error();
    std::sort(entries->begin(), entries->end(), [](const ShardEntry& a, const ShardEntry& b) {
        return std::tie(a.file, a.tensor) < std::tie(b.file, b.tensor);
    });

    Contents contents;
    std::vector<MappedFile> files;
    uint64_t size = 0;
    const std::span<const ShardEntry> all(*entries);
    for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
        while (end < all.size() && all[end].file == all[begin].file) ++end;
        const fs::path shard_path = source.path / all[begin].file;
        Result<MappedFile> file = MappedFile::open(shard_path);
        if (!file)
            return Error{file.error().code, "shard " + all[begin].file + " of " + index_path.string() + ": " +
                                                file.error().message};
        Result<Contents> shard = read_safetensors(file->bytes(), shard_path.string());
        if (!shard) return shard.error();
        if (Status status = take_indexed(all.subspan(begin, end - begin), shard_path.string(),
                                         std::move(*shard), contents);
            !status)
            return status.error();
        size += file->bytes().size();
        files.push_back(std::move(*file));
    }
    return finish(FileFormat::safetensors, source, std::move(contents), std::move(files), std::move(*config),
                  size);
}

Result<std::unique_ptr<Checkpoint>> open_folder(const Source& source) {
    Result<MappedFile> single = MappedFile::open(source.path / "model.safetensors");
    if (single) return open_safetensors(source, std::move(*single));
    if (single.error().code != ErrorCode::not_found) return single.error();
    const fs::path index = source.path / "model.safetensors.index.json";
    if (fs::exists(index)) return open_sharded(source, index);
    return Error{ErrorCode::not_found, source.name +
                                           ": the folder has neither model.safetensors nor "
                                           "model.safetensors.index.json (a GGUF file is given by its own "
                                           "path)"};
}

Result<std::unique_ptr<Checkpoint>> open_path(const fs::path& path) {
    const Source source{path, path.string()};
    if (fs::is_directory(path)) return open_folder(source);
    Result<MappedFile> file = MappedFile::open(path);
    if (!file) return file.error();
    const std::string_view text = as_text(file->bytes());
    if (text.starts_with("GGUF") || path.extension() == ".gguf") return open_gguf(source, std::move(*file));
    if (path.extension() == ".safetensors") return open_safetensors(source, std::move(*file));
    return Error{ErrorCode::unsupported,
                 source.name +
                     ": not a model: expected a GGUF file (it starts with \"GGUF\"), a "
                     ".safetensors file, or a folder with safetensors"};
}

// Nothing that a library throws leaves the layer.
template <class Function>
Result<std::unique_ptr<Checkpoint>> guarded(const std::string& name, Function function) {
    try {
        return function();
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::resource_exhausted, name + ": not enough memory to read the header"};
    } catch (const std::exception& error) {
        return Error{ErrorCode::io_error, name + ": " + error.what()};
    }
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const fs::path& path) {
    return guarded(path.string(), [&] { return open_path(path); });
}

Result<std::unique_ptr<Checkpoint>> Checkpoint::parse_gguf(std::span<const std::byte> bytes) {
    const Source source{{}, "GGUF"};
    return guarded(source.name, [&]() -> Result<std::unique_ptr<Checkpoint>> {
        Result<Contents> contents = read_gguf(bytes, source.name);
        if (!contents) return contents.error();
        return finish(FileFormat::gguf, source, std::move(*contents), {}, {}, bytes.size());
    });
}

Result<std::unique_ptr<Checkpoint>> Checkpoint::parse_safetensors(std::span<const std::byte> bytes) {
    const Source source{{}, "safetensors"};
    return guarded(source.name, [&]() -> Result<std::unique_ptr<Checkpoint>> {
        Result<Contents> contents = read_safetensors(bytes, source.name);
        if (!contents) return contents.error();
        return finish(FileFormat::safetensors, source, std::move(*contents), {}, {}, bytes.size());
    });
}

}  // namespace deepinfer::checkpoint
