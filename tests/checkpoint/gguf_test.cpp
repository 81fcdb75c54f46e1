#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "checkpoint/checkpoint.h"
#include "gguf_builder.h"

namespace deepinfer::checkpoint {
namespace {

// In an allocation of exactly its size, so that the address sanitizer sees a read past the end.
Result<std::unique_ptr<Checkpoint>> parse(const std::string& bytes, std::vector<std::byte>& storage) {
    const auto view = as_span(bytes);
    storage.assign(view.begin(), view.end());
    storage.shrink_to_fit();
    return Checkpoint::parse_gguf(storage);
}

TEST(Gguf, ReadsEveryMetadataType) {
    const std::string file = valid_gguf().build();
    const auto opened = Checkpoint::parse_gguf(as_span(file));
    ASSERT_TRUE(opened) << opened.error().message;
    const Metadata& metadata = (*opened)->metadata();
    EXPECT_EQ((*opened)->format(), FileFormat::gguf);
    EXPECT_EQ(metadata.values.size(), 17u);
    EXPECT_EQ(metadata.string("general.architecture").value(), "llama");
    EXPECT_EQ(metadata.integer("t.u8").value(), 200);
    EXPECT_EQ(metadata.integer("t.i8").value(), -3);
    EXPECT_EQ(metadata.integer("t.u16").value(), 60000);
    EXPECT_EQ(metadata.integer("t.i16").value(), -30000);
    EXPECT_EQ(metadata.integer("t.u32").value(), 4000000000);
    EXPECT_EQ(metadata.integer("t.i32").value(), -2000000000);
    EXPECT_EQ(metadata.number("t.f32").value(), 0.5);
    EXPECT_EQ(metadata.number("t.i8").value(), -3.0);
    EXPECT_EQ(metadata.boolean("t.bool").value(), true);
    EXPECT_EQ(metadata.integer("t.i64").value(), INT64_MIN);
    EXPECT_EQ(metadata.number("t.u64").value(), 0x1p64);
    EXPECT_EQ(metadata.number("t.f64").value(), 0.1);
    using Strings = std::vector<std::string_view>;
    EXPECT_EQ(std::get<Strings>(metadata.array("a.strings")->values), (Strings{"x", ""}));
    EXPECT_EQ(std::get<std::vector<int64_t>>(metadata.array("a.i32")->values),
              (std::vector<int64_t>{1, -2, 3}));
    EXPECT_EQ(std::get<std::vector<double>>(metadata.array("a.f32")->values), (std::vector<double>{1.5, -1}));
    EXPECT_EQ(std::get<std::vector<bool>>(metadata.array("a.bool")->values),
              (std::vector<bool>{true, false}));
    EXPECT_EQ(metadata.array("a.empty")->size(), 0u);
}

TEST(Gguf, TypedLookUpsNameKeyAndTypes) {
    const std::string file = valid_gguf().build();
    const auto opened = Checkpoint::parse_gguf(as_span(file));
    ASSERT_TRUE(opened);
    const Metadata& metadata = (*opened)->metadata();
    EXPECT_EQ(metadata.integer("absent").value(), std::nullopt);
    EXPECT_EQ(metadata.number("absent").value(), std::nullopt);
    EXPECT_EQ(metadata.string("absent").value(), std::nullopt);
    EXPECT_EQ(metadata.boolean("absent").value(), std::nullopt);
    EXPECT_EQ(metadata.array("absent"), nullptr);
    EXPECT_EQ(metadata.array("t.u8"), nullptr);
    EXPECT_EQ(metadata.integer("t.f32").error().message,
              "metadata key \"t.f32\" is a number, but must be an integer");
    EXPECT_EQ(metadata.integer("t.u64").error().message,
              "metadata key \"t.u64\" is 18446744073709551615, but must be at most 2^63 - 1");
    EXPECT_EQ(metadata.string("t.bool").error().message,
              "metadata key \"t.bool\" is a boolean, but must be a string");
    EXPECT_EQ(metadata.boolean("t.u8").error().message,
              "metadata key \"t.u8\" is an unsigned integer, but must be a boolean");
    EXPECT_EQ(metadata.number("a.i32").error().message,
              "metadata key \"a.i32\" is an array, but must be a number");
}

TEST(Gguf, TensorsAreMappedWithShapeOutermostFirst) {
    for (const uint32_t version : {2u, 3u}) {
        GgufSpec spec = valid_gguf();
        spec.version = version;
        const std::string file = spec.build();
        const auto opened = Checkpoint::parse_gguf(as_span(file));
        ASSERT_TRUE(opened) << opened.error().message;
        ASSERT_EQ((*opened)->tensors().size(), 2u);
        const Tensor* a = (*opened)->find("a");
        ASSERT_EQ(a, &(*opened)->tensors()[0]);
        EXPECT_EQ(a->shape, (std::vector<int64_t>{2, 4}));
        EXPECT_EQ(a->shape_string(), "[2, 4]");
        EXPECT_EQ(a->rows(), 2);
        EXPECT_EQ(a->columns(), 4);
        EXPECT_EQ(a->type, TensorType::f32);
        const char* data = file.data() + file.size() - spec.data_bytes;
        EXPECT_EQ(static_cast<const void*>(a->data.data()), data);
        EXPECT_EQ(a->data.size(), 32u);
        const Tensor* b = (*opened)->find("b");
        ASSERT_NE(b, nullptr);
        EXPECT_EQ(b->type, TensorType::q4_0);
        EXPECT_EQ(static_cast<const void*>(b->data.data()), data + 32);
        EXPECT_EQ(b->data.size(), 18u);
        EXPECT_EQ((*opened)->find("c"), nullptr);
        EXPECT_EQ((*opened)->file_bytes(), file.size());
        EXPECT_TRUE((*opened)->config_json().empty());
    }
}

TEST(Gguf, AlignmentPadsTheData) {
    GgufSpec spec = valid_gguf();
    spec.metadata.push_back({"general.alignment", typed(4, encoded(uint32_t{256}))});
    spec.alignment = 256;
    spec.tensors[1].offset = 256;
    spec.data_bytes = 256 + 18;
    const std::string file = spec.build();
    const auto opened = Checkpoint::parse_gguf(as_span(file));
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(static_cast<const void*>((*opened)->find("b")->data.data()), file.data() + file.size() - 18);
}

TEST(Gguf, VocabularyOnlyFileNeedsNoTensorData) {
    GgufSpec spec = valid_gguf();
    spec.tensors.clear();
    const std::string file = spec.header();
    const auto opened = Checkpoint::parse_gguf(as_span(file));
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_TRUE((*opened)->tensors().empty());
}

struct BrokenGguf {
    const char* what;
    std::function<void(GgufSpec&)> damage;
    ErrorCode code;
    const char* message;  // part of it
};

void set(GgufSpec& spec, const std::string& key, const std::string& value) {
    spec.metadata.push_back({key, value});
}

const BrokenGguf kBroken[] = {
    {"magic", [](GgufSpec& s) { s.magic = std::string("GGML"); }, ErrorCode::corrupt_data,
     "magic is \"GGML\", but a GGUF file starts with \"GGUF\""},
    {"control characters in magic", [](GgufSpec& s) { s.magic = std::string("\x1b[2J"); },
     ErrorCode::corrupt_data, "magic is \"\\x1b[2J\""},
    {"version 1", [](GgufSpec& s) { s.version = 1; }, ErrorCode::unsupported,
     "GGUF version 1 is not supported, only 2 and 3 are"},
    {"version 4", [](GgufSpec& s) { s.version = 4; }, ErrorCode::unsupported, "GGUF version 4"},
    {"version 0", [](GgufSpec& s) { s.version = 0; }, ErrorCode::unsupported, "GGUF version 0"},
    {"big-endian", [](GgufSpec& s) { s.version = 0x03000000; }, ErrorCode::unsupported,
     "big-endian GGUF is not supported"},
    {"tensor count", [](GgufSpec& s) { s.tensor_count = UINT64_MAX; }, ErrorCode::corrupt_data,
     "tensor count 18446744073709551615 is more than a file"},
    {"one tensor too many", [](GgufSpec& s) { s.tensor_count = 3; }, ErrorCode::corrupt_data, "tensor"},
    {"metadata count", [](GgufSpec& s) { s.metadata_count = uint64_t{1} << 62; }, ErrorCode::corrupt_data,
     "metadata count 4611686018427387904 is more than a file"},
    {"key length", [](GgufSpec& s) { s.metadata[0].first = std::string(70000, 'k'); },
     ErrorCode::corrupt_data, "metadata key 0 is 70000 bytes long; at most 65535 are accepted"},
    {"empty key", [](GgufSpec& s) { s.metadata[3].first = std::string(); }, ErrorCode::corrupt_data,
     "metadata key 3 is empty"},
    {"key twice", [](GgufSpec& s) { s.metadata[1].first = std::string("t.i8"); }, ErrorCode::corrupt_data,
     "metadata key \"t.i8\" appears twice"},
    {"value type", [](GgufSpec& s) { s.metadata[1].second = typed(13, "1234"); }, ErrorCode::corrupt_data,
     "metadata key \"t.u8\": value type 13 does not exist; GGUF has types 0 to 12"},
    {"boolean", [](GgufSpec& s) { set(s, "x", typed(7, "\2")); }, ErrorCode::corrupt_data,
     "metadata key \"x\": value is a boolean of 2; it must be 0 or 1"},
    {"boolean in array", [](GgufSpec& s) { set(s, "x", array_value(7, 2, "\1\3")); }, ErrorCode::corrupt_data,
     "metadata key \"x\": array has a boolean of 3"},
    {"string length", [](GgufSpec& s) { set(s, "x", typed(8, encoded(UINT64_MAX))); },
     ErrorCode::corrupt_data, "metadata key \"x\": value needs 18446744073709551615 bytes at byte"},
    {"array element type", [](GgufSpec& s) { set(s, "x", array_value(99, 1, "1")); }, ErrorCode::corrupt_data,
     "metadata key \"x\": array element type 99 does not exist"},
    {"array of arrays",
     [](GgufSpec& s) { set(s, "x", array_value(9, 1, encoded(4u) + encoded(uint64_t{0}))); },
     ErrorCode::unsupported, "metadata key \"x\": array holds arrays; arrays of arrays are not supported"},
    {"array count", [](GgufSpec& s) { set(s, "x", array_value(10, uint64_t{1} << 61, "")); },
     ErrorCode::corrupt_data, "metadata key \"x\": array of 2305843009213693952 elements does not fit"},
    {"string in array", [](GgufSpec& s) { set(s, "x", array_value(8, 1, encoded(uint64_t{1} << 40))); },
     ErrorCode::corrupt_data, "metadata key \"x\": string 0 needs 1099511627776 bytes"},
    {"integer in array", [](GgufSpec& s) { set(s, "x", array_value(10, 1, encoded(UINT64_MAX))); },
     ErrorCode::corrupt_data, "metadata key \"x\": array has an element above 2^63 - 1"},
    {"alignment 0", [](GgufSpec& s) { set(s, "general.alignment", typed(4, encoded(0u))); },
     ErrorCode::corrupt_data, "general.alignment is 0; it must be a power of two from 8 to 1048576"},
    {"alignment 48", [](GgufSpec& s) { set(s, "general.alignment", typed(4, encoded(48u))); },
     ErrorCode::corrupt_data, "general.alignment is 48"},
    {"alignment 2^31", [](GgufSpec& s) { set(s, "general.alignment", typed(4, encoded(1u << 31))); },
     ErrorCode::corrupt_data, "general.alignment is 2147483648"},
    {"negative alignment", [](GgufSpec& s) { set(s, "general.alignment", typed(5, encoded(-32))); },
     ErrorCode::corrupt_data, "general.alignment is -32"},
    {"alignment text", [](GgufSpec& s) { set(s, "general.alignment", string_value("32")); },
     ErrorCode::corrupt_data, "metadata key \"general.alignment\" is a string, but must be an integer"},
    {"split", [](GgufSpec& s) { set(s, "split.count", typed(2, encoded(uint16_t{3}))); },
     ErrorCode::unsupported, "split.count is 3: GGUF split over several files is not supported"},
    {"tensor name length", [](GgufSpec& s) { s.tensors[0].name = std::string(1025, 'n'); },
     ErrorCode::corrupt_data, "tensor 0: name is 1025 bytes long; at most 1024 are accepted"},
    {"empty tensor name", [](GgufSpec& s) { s.tensors[1].name = std::string(); }, ErrorCode::corrupt_data,
     "tensor 1: name is empty"},
    {"tensor name twice", [](GgufSpec& s) { s.tensors[1].name = std::string("a"); }, ErrorCode::corrupt_data,
     "tensor \"a\" appears twice"},
    {"no dimensions", [](GgufSpec& s) { s.tensors[0].dimensions = {}; }, ErrorCode::corrupt_data,
     "tensor \"a\": 0 dimensions; it must have 1 to 4"},
    {"five dimensions", [](GgufSpec& s) { s.tensors[0].dimensions = {1, 1, 1, 1, 1}; },
     ErrorCode::corrupt_data, "tensor \"a\": 5 dimensions"},
    {"dimension count", [](GgufSpec& s) { s.tensors[0].dimension_count = UINT32_MAX; },
     ErrorCode::corrupt_data, "tensor \"a\": 4294967295 dimensions"},
    {"zero dimension", [](GgufSpec& s) { s.tensors[0].dimensions = {4, 0}; }, ErrorCode::corrupt_data,
     "tensor \"a\": dimension 0 is 0; dimensions must be at least 1"},
    {"huge dimension", [](GgufSpec& s) { s.tensors[0].dimensions = {UINT64_MAX, 2}; },
     ErrorCode::corrupt_data, "tensor \"a\": dimension 18446744073709551615 exceeds 2^63 - 1"},
    {"dimension product",
     [](GgufSpec& s) { s.tensors[0].dimensions = {uint64_t{1} << 32, uint64_t{1} << 32}; },
     ErrorCode::corrupt_data, "tensor \"a\": the product of its dimensions exceeds 2^63 - 1"},
    {"byte size", [](GgufSpec& s) { s.tensors[0].dimensions = {uint64_t{1} << 62}; }, ErrorCode::corrupt_data,
     "tensor \"a\": its size exceeds 2^64 - 1 bytes"},
    {"block size", [](GgufSpec& s) { s.tensors[1].dimensions = {48}; }, ErrorCode::corrupt_data,
     "tensor \"b\": rows of 48 values do not fit Q4_0, which stores blocks of 32"},
    {"block size of K types",
     [](GgufSpec& s) {
         s.tensors[1].dimensions = {32, 8};
         s.tensors[1].type = 12;
     },
     ErrorCode::corrupt_data, "tensor \"b\": rows of 32 values do not fit Q4_K, which stores blocks of 256"},
    {"known but unsupported type", [](GgufSpec& s) { s.tensors[1].type = 16; }, ErrorCode::unsupported,
     "tensor \"b\": type IQ2_XXS is not supported"},
    {"removed type", [](GgufSpec& s) { s.tensors[1].type = 4; }, ErrorCode::unsupported,
     "tensor \"b\": type Q4_2 (removed from GGUF) is not supported"},
    {"unknown type", [](GgufSpec& s) { s.tensors[1].type = 1000; }, ErrorCode::corrupt_data,
     "tensor \"b\": type 1000 is not a GGUF tensor type"},
    {"unknown type of an absurdly large tensor",
     [](GgufSpec& s) { s.tensors[0] = {"a", {INT64_MAX, INT64_MAX}, 29, 0, {}}; }, ErrorCode::unsupported,
     "tensor \"a\": type IQ1_M is not supported"},
    {"offset alignment", [](GgufSpec& s) { s.tensors[1].offset = 40; }, ErrorCode::corrupt_data,
     "tensor \"b\": offset 40 is not a multiple of the alignment 32"},
    {"offset", [](GgufSpec& s) { s.tensors[1].offset = 64; }, ErrorCode::corrupt_data,
     "tensor \"b\": 18 bytes of data at offset 64 lie beyond the 50 bytes of tensor data in the file"},
    {"offset overflow", [](GgufSpec& s) { s.tensors[1].offset = UINT64_MAX - 31; }, ErrorCode::corrupt_data,
     "tensor \"b\": 18 bytes of data at offset 18446744073709551584 lie beyond the end of the file"},
    {"overlap", [](GgufSpec& s) { s.tensors[1].offset = 0; }, ErrorCode::corrupt_data,
     "tensors \"a\" and \"b\" overlap"},
    {"truncated data", [](GgufSpec& s) { s.data_bytes -= 1; }, ErrorCode::corrupt_data,
     "tensor \"b\": 18 bytes of data at offset 32 lie beyond the 49 bytes of tensor data in the file"},
};

TEST(Gguf, EveryBrokenFieldIsNamed) {
    for (const BrokenGguf& broken : kBroken) {
        SCOPED_TRACE(broken.what);
        GgufSpec spec = valid_gguf();
        broken.damage(spec);
        std::vector<std::byte> storage;
        const auto opened = parse(spec.build(), storage);
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code, broken.code) << opened.error().message;
        EXPECT_NE(opened.error().message.find(broken.message), std::string::npos) << opened.error().message;
    }
}

TEST(Gguf, LimitOfArrayElementsHoldsOverAllArrays) {
    GgufSpec spec = valid_gguf();
    const std::string payload(size_t{17} << 20, '\0');
    set(spec, "x", array_value(0, payload.size(), payload));
    ASSERT_TRUE(Checkpoint::parse_gguf(as_span(spec.build())));
    set(spec, "y", array_value(0, payload.size(), payload));
    const auto opened = Checkpoint::parse_gguf(as_span(spec.build()));
    ASSERT_FALSE(opened);
    EXPECT_NE(
        opened.error().message.find("\"y\": array of 17825792 elements brings all arrays over the limit"),
        std::string::npos)
        << opened.error().message;
}

TEST(Gguf, TruncationAnywhereIsAnError) {
    const std::string file = valid_gguf().build();
    std::vector<std::byte> storage;
    for (size_t length = 0; length < file.size(); ++length) {
        const auto opened = parse(file.substr(0, length), storage);
        ASSERT_FALSE(opened) << length;
        ASSERT_EQ(opened.error().code, ErrorCode::corrupt_data) << length << ": " << opened.error().message;
    }
}

// Whatever a damaged header is taken for, the tensors it yields lie in the file and do not overlap.
void expect_consistent(const Checkpoint& checkpoint, std::span<const std::byte> file) {
    std::vector<int> owner(file.size());
    for (const Tensor& tensor : checkpoint.tensors()) {
        ASSERT_GE(tensor.data.data(), file.data());
        ASSERT_LE(tensor.data.data() + tensor.data.size(), file.data() + file.size());
        ASSERT_EQ(tensor.data.size(), row_bytes(tensor.type, static_cast<size_t>(tensor.values())));
        for (size_t i = 0; i < tensor.data.size(); ++i)
            ASSERT_EQ(owner[static_cast<size_t>(tensor.data.data() - file.data()) + i]++, 0);
        ASSERT_EQ(checkpoint.find(tensor.name), &tensor);
    }
}

TEST(Gguf, DamageOfAnyHeaderByteIsSafe) {
    const GgufSpec spec = valid_gguf();
    const std::string file = spec.build();
    const size_t header = spec.header().size();
    std::vector<std::byte> storage;
    size_t refused = 0;
    for (size_t i = 0; i < header; ++i) {
        for (int value = 0; value < 256; ++value) {
            std::string damaged = file;
            damaged[i] = static_cast<char>(value);
            const auto opened = parse(damaged, storage);
            if (!opened) {
                ++refused;
                continue;
            }
            ASSERT_NO_FATAL_FAILURE(expect_consistent(**opened, storage)) << "byte " << i << " = " << value;
        }
    }
    EXPECT_GT(refused, header * 100);
}

TEST(Gguf, RandomDamageIsSafe) {
    const GgufSpec spec = valid_gguf();
    const std::string file = spec.build();
    std::mt19937 random(7);
    std::vector<std::byte> storage;
    for (int round = 0; round < 20000; ++round) {
        std::string damaged = file;
        for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
        const auto opened = parse(damaged, storage);
        if (!opened) continue;
        ASSERT_NO_FATAL_FAILURE(expect_consistent(**opened, storage)) << round;
    }
}

}  // namespace
}  // namespace deepinfer::checkpoint
