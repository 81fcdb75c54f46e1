#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace deepinfer::checkpoint {
namespace {

std::string file_of(const std::string& header, size_t data_bytes) {
    const uint64_t length = header.size();
    std::string out(sizeof length, '\0');
    std::memcpy(out.data(), &length, sizeof length);
    out += header;
    for (size_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i * 5 + 3);
    return out;
}

std::span<const std::byte> as_span(const std::string& bytes) {
    return std::as_bytes(std::span(bytes.data(), bytes.size()));
}

// In an allocation of exactly its size, so that the address sanitizer sees a read past the end.
Result<std::unique_ptr<Checkpoint>> parse(const std::string& bytes, std::vector<std::byte>& storage) {
    const auto view = as_span(bytes);
    storage.assign(view.begin(), view.end());
    storage.shrink_to_fit();
    return Checkpoint::parse_safetensors(storage);
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

// "b" before "a" in the header, after it in the data.
const std::string kValid = R"({"__metadata__":{"format":"pt"},"b":)" + entry("BF16", "[2,3]", "[16,28]") +
                           R"(,"a":)" + entry("F32", "[4]", "[0,16]") + R"(,"c":)" +
                           entry("F16", "[]", "[28,30]") + "}   ";

TEST(Safetensors, TensorsInFileOrder) {
    const std::string file = file_of(kValid, 30);
    const auto opened = Checkpoint::parse_safetensors(as_span(file));
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ((*opened)->format(), FileFormat::safetensors);
    EXPECT_TRUE((*opened)->metadata().values.empty());
    const std::vector<Tensor>& tensors = (*opened)->tensors();
    ASSERT_EQ(tensors.size(), 3u);
    const char* data = file.data() + file.size() - 30;
    EXPECT_EQ(tensors[0].name, "a");
    EXPECT_EQ(static_cast<const void*>(tensors[0].data.data()), data);
    EXPECT_EQ(tensors[1].name, "b");
    EXPECT_EQ(tensors[1].type, TensorType::bf16);
    EXPECT_EQ(tensors[1].shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(static_cast<const void*>(tensors[1].data.data()), data + 16);
    EXPECT_EQ(tensors[1].data.size(), 12u);
    EXPECT_EQ(tensors[2].shape_string(), "[]");
    EXPECT_EQ(tensors[2].values(), 1);
    EXPECT_EQ(tensors[2].rows(), 1);
    EXPECT_EQ(tensors[2].columns(), 1);
    EXPECT_EQ((*opened)->find("c"), &tensors[2]);
    EXPECT_EQ((*opened)->find("__metadata__"), nullptr);
}

TEST(Safetensors, EmptyFileOfNoTensors) {
    const auto opened = Checkpoint::parse_safetensors(as_span(file_of("{}", 0)));
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_TRUE((*opened)->tensors().empty());
}

struct BrokenHeader {
    const char* what;
    std::string header;
    size_t data_bytes;
    ErrorCode code;
    const char* message;  // part of it
};

std::string one(const std::string& tensor_entry) { return R"({"a":)" + tensor_entry + "}"; }

TEST(Safetensors, EveryBrokenFieldIsNamed) {
    const BrokenHeader broken_headers[] = {
        {"no object", "[1]", 0, ErrorCode::corrupt_data, "the header must start with '{', but is \"[1]\""},
        {"space first", " {}", 0, ErrorCode::corrupt_data, "the header must start with '{'"},
        {"empty header", "", 0, ErrorCode::corrupt_data, "the header must start with '{'"},
        {"not JSON", "{\"a\":}", 0, ErrorCode::corrupt_data, "header: not valid JSON near byte 5 of 6"},
        {"invalid UTF-8", "{\"\xff\":1}", 0, ErrorCode::corrupt_data, "header: not valid JSON"},
        {"deep", R"({"a":[[[[[[[[[1]]]]]]]]]})", 0, ErrorCode::resource_exhausted,
         "nested deeper than 8 levels"},
        {"name twice",
         R"({"a":)" + entry("F32", "[1]", "[0,4]") + R"(,"a":)" + entry("F32", "[1]", "[4,8]") + "}", 8,
         ErrorCode::corrupt_data, "the key \"a\" appears twice in one object"},
        {"field twice", R"({"a":{"dtype":"F32","dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 4,
         ErrorCode::corrupt_data, "the key \"dtype\" appears twice"},
        {"metadata", R"({"__metadata__":[]})", 0, ErrorCode::corrupt_data,
         "\"__metadata__\" must be an object"},
        {"metadata value", R"({"__metadata__":{"k":1}})", 0, ErrorCode::corrupt_data,
         "\"__metadata__\": the value of \"k\" must be a string"},
        {"entry", one("[]"), 0, ErrorCode::corrupt_data, "tensor \"a\": its entry must be"},
        {"field absent", R"({"a":{"dtype":"F32","shape":[1]}})", 4, ErrorCode::corrupt_data,
         "its entry must be"},
        {"field unknown", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4,
         ErrorCode::corrupt_data, "its entry must be"},
        {"empty name", R"({"":)" + entry("F32", "[1]", "[0,4]") + "}", 4, ErrorCode::corrupt_data,
         "its name has 0 bytes; it must have 1 to 1024"},
        {"dtype", one(entry("F8_E4M3", "[4]", "[0,4]")), 4, ErrorCode::unsupported,
         "tensor \"a\": dtype \"F8_E4M3\" is not supported, only F32, F16 and BF16 are"},
        {"dtype of an absurdly large tensor", one(entry("I64", "[9000000000000000000,9]", "[0,4]")), 4,
         ErrorCode::unsupported, "tensor \"a\": dtype \"I64\" is not supported"},
        {"dimensions", one(entry("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]")), 4, ErrorCode::corrupt_data,
         "shape has 9 dimensions; at most 8"},
        {"negative", one(entry("F32", "[-1]", "[0,4]")), 4, ErrorCode::corrupt_data,
         "tensor \"a\": shape must hold integers from 1 to 2^63 - 1, but has \"-1\""},
        {"fraction", one(entry("F32", "[1.5]", "[0,4]")), 4, ErrorCode::corrupt_data, "but has \"1.5E0\""},
        {"2^63", one(entry("F32", "[9223372036854775808]", "[0,4]")), 4, ErrorCode::corrupt_data,
         "but has \"9223372036854775808\""},
        {"zero", one(entry("F32", "[4,0]", "[0,0]")), 0, ErrorCode::corrupt_data,
         "tensor \"a\": dimension 1 is 0; dimensions must be at least 1"},
        {"product", one(entry("F32", "[4294967296,4294967296]", "[0,4]")), 4, ErrorCode::corrupt_data,
         "the product of its dimensions exceeds 2^63 - 1"},
        {"bytes", one(entry("F32", "[4611686018427387904]", "[0,4]")), 4, ErrorCode::corrupt_data,
         "its size exceeds 2^64 - 1 bytes"},
        {"one offset", one(entry("F32", "[1]", "[0]")), 4, ErrorCode::corrupt_data,
         "data_offsets must be two integers [begin, end]"},
        {"negative offset", one(entry("F32", "[1]", "[-4,0]")), 4, ErrorCode::corrupt_data,
         "data_offsets must be two integers"},
        {"end before begin", one(entry("F32", "[1]", "[4,0]")), 4, ErrorCode::corrupt_data,
         "data_offsets [4, 0] do not lie in the 4 bytes of data"},
        {"past the end", one(entry("F32", "[1]", "[4,8]")), 7, ErrorCode::corrupt_data,
         "tensor \"a\": data_offsets [4, 8] do not lie in the 7 bytes of data in the file (truncated?)"},
        {"size", one(entry("F32", "[3]", "[0,8]")), 8, ErrorCode::corrupt_data,
         "data_offsets [0, 8] hold 8 bytes, but F32 of this shape takes 12"},
        {"overlap",
         R"({"a":)" + entry("F32", "[2]", "[0,8]") + R"(,"b":)" + entry("F32", "[2]", "[4,12]") + "}", 12,
         ErrorCode::corrupt_data, "tensors \"a\" and \"b\" overlap"},
        {"hole", R"({"a":)" + entry("F32", "[1]", "[0,4]") + R"(,"b":)" + entry("F32", "[1]", "[8,12]") + "}",
         12, ErrorCode::corrupt_data, "bytes 4 to 8 of the data, before tensor \"b\", belong to no tensor"},
        {"hole at the start", one(entry("F32", "[1]", "[4,8]")), 8, ErrorCode::corrupt_data,
         "bytes 0 to 4 of the data"},
        {"rest", one(entry("F32", "[1]", "[0,4]")), 9, ErrorCode::corrupt_data,
         "5 bytes after the last tensor belong to no tensor"},
    };
    for (const BrokenHeader& broken : broken_headers) {
        SCOPED_TRACE(broken.what);
        std::vector<std::byte> storage;
        const auto opened = parse(file_of(broken.header, broken.data_bytes), storage);
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code, broken.code) << opened.error().message;
        EXPECT_NE(opened.error().message.find(broken.message), std::string::npos) << opened.error().message;
    }
}

TEST(Safetensors, HeaderLengthIsBounded) {
    const auto error_with_length = [](uint64_t length) {
        std::string file = file_of(kValid, 30);
        std::memcpy(file.data(), &length, sizeof length);
        std::vector<std::byte> storage;
        const auto opened = parse(file, storage);
        return opened ? "" : opened.error().message;
    };
    EXPECT_NE(error_with_length(UINT64_MAX)
                  .find("header length 18446744073709551615 is more than the format's limit"),
              std::string::npos);
    EXPECT_NE(error_with_length(100'000'001).find("limit of 100000000 bytes"), std::string::npos);
    EXPECT_NE(error_with_length(100'000'000).find("is more than the"), std::string::npos);
    EXPECT_NE(error_with_length(kValid.size() + 1), "");
    EXPECT_NE(error_with_length(0), "");
}

TEST(Safetensors, TruncationAnywhereIsAnError) {
    const std::string file = file_of(kValid, 30);
    std::vector<std::byte> storage;
    for (size_t length = 0; length < file.size(); ++length) {
        const auto opened = parse(file.substr(0, length), storage);
        ASSERT_FALSE(opened) << length;
        ASSERT_EQ(opened.error().code, ErrorCode::corrupt_data) << length << ": " << opened.error().message;
    }
}

TEST(Safetensors, DamageOfAnyHeaderByteIsSafe) {
    const std::string file = file_of(kValid, 30);
    std::vector<std::byte> storage;
    for (size_t i = 0; i < 8 + kValid.size(); ++i) {
        for (int value = 0; value < 256; ++value) {
            std::string damaged = file;
            damaged[i] = static_cast<char>(value);
            const auto opened = parse(damaged, storage);
            if (!opened) continue;
            size_t covered = 0;  // still in file order and without holes
            for (const Tensor& tensor : (*opened)->tensors()) {
                ASSERT_EQ(tensor.data.data() - storage.data() - 8,
                          static_cast<ptrdiff_t>(kValid.size() + covered));
                covered += tensor.data.size();
            }
            ASSERT_EQ(covered, 30u) << "byte " << i << " = " << value;
        }
    }
}

}  // namespace
}  // namespace deepinfer::checkpoint
