// The safetensors container and the index of its sharded form.
//
// Layout (Hugging Face documentation, "safetensors format"): u64 header length N; N bytes of JSON, an object
// of name -> {dtype, shape, data_offsets: [begin, end]} plus an optional "__metadata__" of strings; then the
// data, which the tensors must cover without holes. Offsets are counted from the end of the header.
#include <algorithm>
#include <cstring>

#include "base/json.h"
#include "checkpoint/contents.h"

namespace deepinfer::checkpoint {
namespace {

namespace json = boost::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own bound
constexpr size_t kMaxIndexBytes = 100'000'000;
constexpr size_t kMaxShards = 10'000;
constexpr size_t kMaxDimensions = 8;

std::optional<TensorType> type_of(std::string_view dtype) {
    if (dtype == "F32") return TensorType::f32;
    if (dtype == "F16") return TensorType::f16;
    if (dtype == "BF16") return TensorType::bf16;
    return std::nullopt;
}

std::optional<uint64_t> as_uint64(const json::value& value) {
    if (value.is_uint64()) return value.get_uint64();
    if (value.is_int64() && value.get_int64() >= 0) return static_cast<uint64_t>(value.get_int64());
    return std::nullopt;
}

std::string_view view(json::string_view text) { return {text.data(), text.size()}; }

class SafetensorsReader {
  public:
    SafetensorsReader(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

    Result<Contents> read() {
        Result<json::value> header = read_header();
        if (!header) return header.error();
        if (!header->is_object()) return corrupt(file_, "the header must be a JSON object");
        const json::object& entries = header->get_object();
        if (entries.size() > kMaxTensors)
            return corrupt(file_, "the header lists " + std::to_string(entries.size()) +
                                      " tensors; at most " + std::to_string(kMaxTensors) + " are accepted");
        for (const auto& [key, entry] : entries) {
            const Status status =
                view(key) == "__metadata__" ? check_metadata(entry) : read_tensor(view(key), entry);
            if (!status) return status.error();
        }
        if (Status status = check_coverage(); !status) return status.error();
        return std::move(contents_);
    }

  private:
    Result<json::value> read_header();
    Status check_metadata(const json::value& entry) const;
    Status read_tensor(std::string_view name, const json::value& entry);
    Status check_coverage();

    std::span<const std::byte> bytes_;
    std::span<const std::byte> data_;
    std::string_view file_;
    Contents contents_;
};

Result<json::value> SafetensorsReader::read_header() {
    if (bytes_.size() < 8)
        return corrupt(file_,
                       "a safetensors file starts with 8 bytes of header length, but this one has only " +
                           std::to_string(bytes_.size()));
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof length);
    if (length > kMaxHeaderBytes)
        return corrupt(file_, "header length " + std::to_string(length) +
                                  " is more than the format's limit of " + std::to_string(kMaxHeaderBytes) +
                                  " bytes (not a safetensors file?)");
    if (length > bytes_.size() - 8)
        return corrupt(file_, "header length " + std::to_string(length) + " is more than the " +
                                  std::to_string(bytes_.size() - 8) + " bytes that follow (truncated?)");
    data_ = bytes_.subspan(8 + length);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + 8, length);
    if (text.empty() || text.front() != '{')
        return corrupt(file_, "the header must start with '{', but is " + quote(text.substr(0, 20)));
    return parse_json(text, std::string(file_) + ": header",
                      {.max_bytes = kMaxHeaderBytes, .max_depth = 8, .unique_keys = true});
}

Status SafetensorsReader::check_metadata(const json::value& entry) const {
    if (!entry.is_object()) return corrupt(file_, "\"__metadata__\" must be an object of strings");
    for (const auto& [key, value] : entry.get_object()) {
        if (!value.is_string())
            return corrupt(file_, "\"__metadata__\": the value of " + quote(view(key)) + " must be a string");
    }
    return {};
}

Status SafetensorsReader::read_tensor(std::string_view name, const json::value& entry) {
    const auto wrong = [&](const std::string& message) {
        return corrupt(file_, "tensor " + quote(name) + ": " + message);
    };
    if (name.empty() || name.size() > kMaxTensorNameBytes)
        return wrong("its name has " + std::to_string(name.size()) + " bytes; it must have 1 to " +
                     std::to_string(kMaxTensorNameBytes));
    const json::object* object = entry.if_object();
    const json::value* dtype = object ? object->if_contains("dtype") : nullptr;
    const json::value* shape = object ? object->if_contains("shape") : nullptr;
    const json::value* offsets = object ? object->if_contains("data_offsets") : nullptr;
    if (!dtype || !dtype->is_string() || !shape || !shape->is_array() || !offsets || !offsets->is_array() ||
        object->size() != 3)
        return wrong("its entry must be {\"dtype\": string, \"shape\": array, \"data_offsets\": array}");

    const std::string_view dtype_name = view(dtype->get_string());
    const std::optional<TensorType> type = type_of(dtype_name);
    if (!type)
        return Error{ErrorCode::unsupported, std::string(file_) + ": tensor " + quote(name) + ": dtype " +
                                                 quote(dtype_name) +
                                                 " is not supported, only F32, F16 and BF16 are"};

    const json::array& dimensions = shape->get_array();
    if (dimensions.size() > kMaxDimensions)
        return wrong("shape has " + std::to_string(dimensions.size()) + " dimensions; at most " +
                     std::to_string(kMaxDimensions) + " are accepted");
    std::vector<int64_t> sizes;
    for (const json::value& dimension : dimensions) {
        const std::optional<uint64_t> size = as_uint64(dimension);
        if (!size || *size > static_cast<uint64_t>(INT64_MAX))
            return wrong("shape must hold integers from 1 to 2^63 - 1, but has " +
                         quote(json::serialize(dimension)));
        sizes.push_back(static_cast<int64_t>(*size));
    }
    const Result<size_t> bytes = tensor_bytes(name, *type, sizes);
    if (!bytes) return corrupt(file_, bytes.error().message);

    const json::array& pair = offsets->get_array();
    const std::optional<uint64_t> begin = pair.size() == 2 ? as_uint64(pair[0]) : std::nullopt;
    const std::optional<uint64_t> end = pair.size() == 2 ? as_uint64(pair[1]) : std::nullopt;
    if (!begin || !end) return wrong("data_offsets must be two integers [begin, end]");
    const std::string range = "data_offsets [" + std::to_string(*begin) + ", " + std::to_string(*end) + "]";
    if (*begin > *end || *end > data_.size())
        return wrong(range + " do not lie in the " + std::to_string(data_.size()) +
                     " bytes of data in the file (truncated?)");
    if (*end - *begin != *bytes)
        return wrong(range + " hold " + std::to_string(*end - *begin) + " bytes, but " +
                     std::string(dtype_name) + " of this shape takes " + std::to_string(*bytes));
    contents_.tensors.push_back({std::string(name), *type, std::move(sizes), data_.subspan(*begin, *bytes)});
    return {};
}

Status SafetensorsReader::check_coverage() {
    std::vector<Tensor>& tensors = contents_.tensors;
    std::sort(tensors.begin(), tensors.end(),
              [](const Tensor& a, const Tensor& b) { return a.data.data() < b.data.data(); });
    if (Status status = check_no_overlap(tensors, file_); !status) return status;
    size_t covered = 0;
    for (const Tensor& tensor : tensors) {
        const size_t begin = static_cast<size_t>(tensor.data.data() - data_.data());
        if (begin != covered)
            return corrupt(file_, "bytes " + std::to_string(covered) + " to " + std::to_string(begin) +
                                      " of the data, before tensor " + quote(tensor.name) +
                                      ", belong to no tensor; the data must have no holes");
        covered = begin + tensor.data.size();
    }
    if (covered != data_.size())
        return corrupt(file_,
                       std::to_string(data_.size() - covered) +
                           " bytes after the last tensor belong to no tensor; the data must have no holes");
    return {};
}

// Shards lie beside the index: anything that could lead elsewhere is refused.
bool is_plain_file_name(std::string_view name) {
    return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
           name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

}  // namespace

Result<Contents> read_safetensors(std::span<const std::byte> file_bytes, std::string_view file) {
    return SafetensorsReader(file_bytes, file).read();
}

Result<std::vector<ShardEntry>> read_shard_index(std::string_view text, std::string_view file) {
    Result<json::value> index =
        parse_json(text, file, {.max_bytes = kMaxIndexBytes, .max_depth = 16, .unique_keys = true});
    if (!index) return index.error();
    const json::object* object = index->if_object();
    const json::value* map = object ? object->if_contains("weight_map") : nullptr;
    if (!map || !map->is_object())
        return corrupt(file, "it must be an object with a \"weight_map\" of tensor name -> file name");
    const json::object& entries = map->get_object();
    if (entries.empty()) return corrupt(file, "\"weight_map\" lists no tensors");
    if (entries.size() > kMaxTensors)
        return corrupt(file, "\"weight_map\" lists " + std::to_string(entries.size()) + " tensors; at most " +
                                 std::to_string(kMaxTensors) + " are accepted");
    std::vector<ShardEntry> shards;
    shards.reserve(entries.size());
    for (const auto& [name, shard] : entries) {
        if (name.empty() || name.size() > kMaxTensorNameBytes)
            return corrupt(file, "\"weight_map\": the tensor name " + quote(view(name)) + " must have 1 to " +
                                     std::to_string(kMaxTensorNameBytes) + " bytes");
        if (!shard.is_string())
            return corrupt(file, "\"weight_map\": the file of " + quote(view(name)) + " must be a string");
        const std::string_view shard_name = view(shard.get_string());
        if (!is_plain_file_name(shard_name))
            return corrupt(file, "\"weight_map\": " + quote(shard_name) + " of tensor " + quote(view(name)) +
                                     " must be the plain name of a file beside the index");
        shards.push_back({std::string(view(name)), std::string(shard_name)});
    }
    std::vector<std::string_view> files;
    for (const ShardEntry& shard : shards) files.push_back(shard.file);
    std::sort(files.begin(), files.end());
    const auto distinct = std::unique(files.begin(), files.end()) - files.begin();
    if (static_cast<size_t>(distinct) > kMaxShards)
        return corrupt(file, "\"weight_map\" names " + std::to_string(distinct) + " files; at most " +
                                 std::to_string(kMaxShards) + " are accepted");
    return shards;
}

}  // namespace deepinfer::checkpoint
