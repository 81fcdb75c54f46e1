// The GGUF container, versions 2 and 3, little-endian.
//
// Layout (ggml documentation, "GGUF"): magic "GGUF", u32 version, u64 tensor count, u64 metadata count; the
// metadata (string key, u32 type, value); the tensor infos (string name, u32 dimensions, u64 each dimension
// innermost first, u32 type, u64 offset); padding to `general.alignment`; the tensor data, offsets counted
// from here. A string is a u64 length and its bytes.
#include <bit>
#include <cstring>
#include <type_traits>

#include "checkpoint/contents.h"

namespace deepinfer::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data is used as mapped");

constexpr size_t kMaxMetadataKeys = 1 << 20;
constexpr size_t kMaxKeyBytes = 65535;                  // the format's own bound
constexpr size_t kMaxStringBytes = size_t{64} << 20;    // one metadata string, e.g. a chat template
constexpr size_t kMaxArrayElements = size_t{32} << 20;  // of all arrays together; a vocabulary has < 1 M
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kDefaultAlignment = 32, kMinAlignment = 8, kMaxAlignment = 1 << 20;

enum class ValueType : uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12,
};

// Bytes of a value in the file; for a string those of its length.
size_t value_bytes(ValueType type) {
    switch (type) {
        case ValueType::u8:
        case ValueType::i8:
        case ValueType::boolean:
            return 1;
        case ValueType::u16:
        case ValueType::i16:
            return 2;
        case ValueType::u32:
        case ValueType::i32:
        case ValueType::f32:
            return 4;
        default:
            return 8;
    }
}

// Calls `visit` with a zero of the C++ type of a scalar number; false for boolean, string and array.
template <class Visitor>
bool visit_number(ValueType type, Visitor visit) {
    switch (type) {
        case ValueType::u8:
            return visit(uint8_t{}), true;
        case ValueType::i8:
            return visit(int8_t{}), true;
        case ValueType::u16:
            return visit(uint16_t{}), true;
        case ValueType::i16:
            return visit(int16_t{}), true;
        case ValueType::u32:
            return visit(uint32_t{}), true;
        case ValueType::i32:
            return visit(int32_t{}), true;
        case ValueType::f32:
            return visit(float{}), true;
        case ValueType::u64:
            return visit(uint64_t{}), true;
        case ValueType::i64:
            return visit(int64_t{}), true;
        case ValueType::f64:
            return visit(double{}), true;
        default:
            return false;
    }
}

class GgufReader {
  public:
    GgufReader(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

    Result<Contents> read() {
        if (Status status = read_counts(); !status) return status.error();
        if (Status status = read_metadata(); !status) return status.error();
        if (Status status = check_split(); !status) return status.error();
        Result<uint64_t> alignment = read_alignment();
        if (!alignment) return alignment.error();
        if (Status status = read_tensor_infos(*alignment); !status) return status.error();
        if (Status status = place_tensors(*alignment); !status) return status.error();
        return std::move(contents_);
    }

  private:
    Error wrong(const std::string& message) const { return corrupt(file_, message); }
    size_t remaining() const { return bytes_.size() - position_; }

    Error truncated(const std::string& field, uint64_t needed) const {
        return wrong(field + " needs " + std::to_string(needed) + " bytes at byte " +
                     std::to_string(position_) + ", but only " + std::to_string(remaining()) +
                     " are left in the file (truncated?)");
    }

    template <class T>
    T take() {  // the caller has checked remaining()
        T value;
        std::memcpy(&value, bytes_.data() + position_, sizeof value);
        position_ += sizeof value;
        return value;
    }

    template <class T>
    Status read_number(const char* field, T& value) {
        if (remaining() < sizeof value) return truncated(field, sizeof value);
        value = take<T>();
        return {};
    }

    // `field` is only spelled out when something is wrong: vocabularies have a million strings.
    template <class Field>
    Status read_string(Field field, size_t max_bytes, std::string_view& text) {
        if (remaining() < sizeof(uint64_t)) return truncated(field() + ": its length", sizeof(uint64_t));
        const auto length = take<uint64_t>();
        if (length > remaining()) return truncated(field(), length);
        if (length > max_bytes)
            return wrong(field() + " is " + std::to_string(length) + " bytes long; at most " +
                         std::to_string(max_bytes) + " are accepted");
        text = {reinterpret_cast<const char*>(bytes_.data() + position_), static_cast<size_t>(length)};
        position_ += length;
        return {};
    }

    Status read_counts();
    Status read_metadata();
    Status read_value(std::string_view key, uint32_t type_id);
    Status read_array(std::string_view key);
    Status read_string_array(std::string_view key, uint64_t count, MetadataArray& array);
    Status check_split() const;
    Result<uint64_t> read_alignment() const;
    Status read_tensor_infos(uint64_t alignment);
    Status read_tensor_info(uint64_t index, uint64_t alignment);
    Status place_tensors(uint64_t alignment);

    std::span<const std::byte> bytes_;
    std::string_view file_;
    size_t position_ = 0;
    uint64_t tensor_count_ = 0, metadata_count_ = 0;
    uint64_t array_elements_ = 0;
    Contents contents_;
    std::vector<uint64_t> offsets_;  // of contents_.tensors, from the start of the tensor data
};

Status GgufReader::read_counts() {
    if (bytes_.size() < 24)
        return wrong("a GGUF file starts with 24 bytes of header, but this one has only " +
                     std::to_string(bytes_.size()));
    if (std::memcmp(bytes_.data(), "GGUF", 4) != 0)
        return wrong("magic is " + quote({reinterpret_cast<const char*>(bytes_.data()), 4}) +
                     ", but a GGUF file starts with \"GGUF\"");
    position_ = 4;
    const auto version = take<uint32_t>();
    if (version != 0 && (version & 0xffffu) == 0)
        return Error{
            ErrorCode::unsupported,
            std::string(file_) + ": big-endian GGUF is not supported; convert the file to little-endian"};
    if (version != 2 && version != 3)
        return Error{ErrorCode::unsupported, std::string(file_) + ": GGUF version " +
                                                 std::to_string(version) +
                                                 " is not supported, only 2 and 3 are"};
    tensor_count_ = take<uint64_t>();
    metadata_count_ = take<uint64_t>();
    // The smallest tensor info and metadata pair: empty names are refused, so one byte of name each.
    constexpr uint64_t min_tensor_info = 8 + 1 + 4 + 8 + 4 + 8, min_pair = 8 + 1 + 4 + 1;
    if (tensor_count_ > kMaxTensors || tensor_count_ > remaining() / min_tensor_info)
        return wrong("tensor count " + std::to_string(tensor_count_) + " is more than a file of " +
                     std::to_string(bytes_.size()) + " bytes can hold, or than the limit of " +
                     std::to_string(kMaxTensors));
    if (metadata_count_ > kMaxMetadataKeys || metadata_count_ > remaining() / min_pair)
        return wrong("metadata count " + std::to_string(metadata_count_) + " is more than a file of " +
                     std::to_string(bytes_.size()) + " bytes can hold, or than the limit of " +
                     std::to_string(kMaxMetadataKeys));
    return {};
}

Status GgufReader::read_metadata() {
    for (uint64_t i = 0; i < metadata_count_; ++i) {
        const auto field = [&] { return "metadata key " + std::to_string(i); };
        std::string_view key;
        if (Status status = read_string(field, kMaxKeyBytes, key); !status) return status;
        if (key.empty()) return wrong(field() + " is empty; keys must have a name");
        if (contents_.metadata.find(key)) return wrong("metadata key " + quote(key) + " appears twice");
        uint32_t type_id = 0;
        if (Status status = read_number("metadata value type", type_id); !status) return status;
        if (Status status = read_value(key, type_id); !status) return status;
    }
    return {};
}

Status GgufReader::read_value(std::string_view key, uint32_t type_id) {
    if (type_id > static_cast<uint32_t>(ValueType::f64))
        return wrong("metadata key " + quote(key) + ": value type " + std::to_string(type_id) +
                     " does not exist; GGUF has types 0 to 12");
    const auto type = static_cast<ValueType>(type_id);
    if (type == ValueType::array) return read_array(key);
    const auto field = [&] { return "metadata key " + quote(key) + ": value"; };
    MetadataValue& value = contents_.metadata.values[std::string(key)];
    if (type == ValueType::string) {
        std::string_view text;
        if (Status status = read_string(field, kMaxStringBytes, text); !status) return status;
        value = std::string(text);
        return {};
    }
    if (remaining() < value_bytes(type)) return truncated(field(), value_bytes(type));
    if (type == ValueType::boolean) {
        const auto flag = take<uint8_t>();
        if (flag > 1)
            return wrong(field() + " is a boolean of " + std::to_string(flag) + "; it must be 0 or 1");
        value = flag == 1;
        return {};
    }
    visit_number(type, [&]<class T>(T) {
        if constexpr (std::is_floating_point_v<T>)
            value = static_cast<double>(take<T>());
        else if constexpr (std::is_signed_v<T>)
            value = static_cast<int64_t>(take<T>());
        else
            value = static_cast<uint64_t>(take<T>());
    });
    return {};
}

Status GgufReader::read_array(std::string_view key) {
    const std::string field = "metadata key " + quote(key) + ": array";
    if (remaining() < 12) return truncated(field + " header", 12);
    const auto type_id = take<uint32_t>();
    const auto count = take<uint64_t>();
    if (type_id > static_cast<uint32_t>(ValueType::f64))
        return wrong(field + " element type " + std::to_string(type_id) +
                     " does not exist; GGUF has types 0 to 12");
    const auto type = static_cast<ValueType>(type_id);
    if (type == ValueType::array)
        return Error{ErrorCode::unsupported,
                     std::string(file_) + ": " + field + " holds arrays; arrays of arrays are not supported"};
    if (count > remaining() / value_bytes(type))
        return wrong(field + " of " + std::to_string(count) + " elements does not fit into the " +
                     std::to_string(remaining()) + " bytes left in the file (truncated?)");
    array_elements_ += count;
    if (array_elements_ > kMaxArrayElements)
        return wrong(field + " of " + std::to_string(count) +
                     " elements brings all arrays over the limit of " + std::to_string(kMaxArrayElements) +
                     " elements");

    auto array = std::make_shared<MetadataArray>();
    if (type == ValueType::string) {
        if (Status status = read_string_array(key, count, *array); !status) return status;
    } else if (type == ValueType::boolean) {
        auto& flags = array->values.emplace<std::vector<bool>>(count);
        for (uint64_t i = 0; i < count; ++i) {
            const auto flag = take<uint8_t>();
            if (flag > 1)
                return wrong(field + " has a boolean of " + std::to_string(flag) + "; it must be 0 or 1");
            flags[i] = flag == 1;
        }
    } else {
        bool fits = true;
        visit_number(type, [&]<class T>(T) {
            using Element = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
            auto& numbers = array->values.emplace<std::vector<Element>>(count);
            for (Element& number : numbers) {
                const T stored = take<T>();
                if constexpr (std::is_same_v<T, uint64_t>) fits &= stored <= static_cast<uint64_t>(INT64_MAX);
                number = static_cast<Element>(stored);
            }
        });
        if (!fits) return wrong(field + " has an element above 2^63 - 1");
    }
    contents_.metadata.values[std::string(key)] = std::shared_ptr<const MetadataArray>(std::move(array));
    return {};
}

Status GgufReader::read_string_array(std::string_view key, uint64_t count, MetadataArray& array) {
    auto& strings = array.values.emplace<std::vector<std::string_view>>(count);
    for (uint64_t i = 0; i < count; ++i) {
        const auto field = [&] { return "metadata key " + quote(key) + ": string " + std::to_string(i); };
        if (Status status = read_string(field, kMaxStringBytes, strings[i]); !status) return status;
    }
    return {};
}

Status GgufReader::check_split() const {
    Result<std::optional<int64_t>> count = contents_.metadata.integer("split.count");
    if (!count) return wrong(count.error().message);
    if (count->value_or(0) > 1)
        return Error{ErrorCode::unsupported,
                     std::string(file_) + ": split.count is " + std::to_string(**count) +
                         ": GGUF split over several files is not supported; merge them into "
                         "one file first"};
    return {};
}

Result<uint64_t> GgufReader::read_alignment() const {
    Result<std::optional<int64_t>> stored = contents_.metadata.integer("general.alignment");
    if (!stored) return wrong(stored.error().message);
    if (!stored->has_value()) return kDefaultAlignment;
    const int64_t alignment = **stored;
    if (alignment < static_cast<int64_t>(kMinAlignment) || alignment > static_cast<int64_t>(kMaxAlignment) ||
        !std::has_single_bit(static_cast<uint64_t>(alignment)))
        return wrong("general.alignment is " + std::to_string(alignment) +
                     "; it must be a power of two from " + std::to_string(kMinAlignment) + " to " +
                     std::to_string(kMaxAlignment));
    return static_cast<uint64_t>(alignment);
}

Status GgufReader::read_tensor_infos(uint64_t alignment) {
    // Not reserved from tensor_count_: it is bounded by the file's size only, and every info is read before
    // it is kept.
    for (uint64_t i = 0; i < tensor_count_; ++i) {
        if (Status status = read_tensor_info(i, alignment); !status) return status;
    }
    return {};
}

Status GgufReader::read_tensor_info(uint64_t index, uint64_t alignment) {
    std::string_view name;
    const auto field = [&] { return "tensor " + std::to_string(index) + ": name"; };
    if (Status status = read_string(field, kMaxTensorNameBytes, name); !status) return status;
    if (name.empty()) return wrong(field() + " is empty");
    const std::string tensor = "tensor " + quote(name) + ": ";

    uint32_t dimensions = 0;
    if (Status status = read_number("tensor dimension count", dimensions); !status) return status;
    if (dimensions < 1 || dimensions > kMaxDimensions)
        return wrong(tensor + std::to_string(dimensions) + " dimensions; it must have 1 to " +
                     std::to_string(kMaxDimensions));
    if (remaining() < dimensions * 8 + 4 + 8)
        return truncated(tensor + "its dimensions, type and offset", dimensions * 8 + 4 + 8);
    std::vector<int64_t> shape(dimensions);
    for (uint32_t i = dimensions; i-- > 0;) {  // stored innermost first
        const auto dimension = take<uint64_t>();
        if (dimension > static_cast<uint64_t>(INT64_MAX))
            return wrong(tensor + "dimension " + std::to_string(dimension) + " exceeds 2^63 - 1");
        shape[i] = static_cast<int64_t>(dimension);
    }
    const auto type_id = take<uint32_t>();
    const std::optional<TensorType> type = tensor_type_from_gguf(type_id);
    if (!type) {
        const char* known = gguf_type_name(type_id);
        return Error{known ? ErrorCode::unsupported : ErrorCode::corrupt_data,
                     std::string(file_) + ": " + tensor + "type " +
                         (known ? std::string(known) + " is not supported"
                                : std::to_string(type_id) + " is not a GGUF tensor type")};
    }
    const auto offset = take<uint64_t>();
    if (offset % alignment != 0)
        return wrong(tensor + "offset " + std::to_string(offset) + " is not a multiple of the alignment " +
                     std::to_string(alignment));
    Result<size_t> bytes = tensor_bytes(name, *type, shape);
    if (!bytes) return wrong(bytes.error().message);
    // A first bound, so that the sizes kept here are sane; place_tensors knows where the data begins.
    if (*bytes > bytes_.size() || offset > bytes_.size() - *bytes)
        return wrong(tensor + std::to_string(*bytes) + " bytes of data at offset " + std::to_string(offset) +
                     " lie beyond the end of the file of " + std::to_string(bytes_.size()) +
                     " bytes (truncated?)");
    contents_.tensors.push_back({std::string(name), *type, std::move(shape), bytes_.subspan(offset, *bytes)});
    offsets_.push_back(offset);
    return {};
}

Status GgufReader::place_tensors(uint64_t alignment) {
    const uint64_t begin = (position_ + alignment - 1) / alignment * alignment;
    for (size_t i = 0; i < contents_.tensors.size(); ++i) {
        Tensor& tensor = contents_.tensors[i];
        const uint64_t available = begin < bytes_.size() ? bytes_.size() - begin : 0;
        if (offsets_[i] > available || tensor.data.size() > available - offsets_[i])
            return wrong("tensor " + quote(tensor.name) + ": " + std::to_string(tensor.data.size()) +
                         " bytes of data at offset " + std::to_string(offsets_[i]) + " lie beyond the " +
                         std::to_string(available) + " bytes of tensor data in the file (truncated?)");
        tensor.data = bytes_.subspan(begin + offsets_[i], tensor.data.size());
    }
    return check_no_overlap(contents_.tensors, file_);
}

}  // namespace

Result<Contents> read_gguf(std::span<const std::byte> file_bytes, std::string_view file) {
    return GgufReader(file_bytes, file).read();
}

}  // namespace deepinfer::checkpoint
