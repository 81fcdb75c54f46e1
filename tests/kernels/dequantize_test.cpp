// dequantize_row against known answers of an independent implementation (make_dequantize_vectors.py).
#include "kernels/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/json.h"

namespace deepinfer::kernels {
namespace {

constexpr TensorType kTypes[] = {TensorType::f32,  TensorType::f16,    TensorType::bf16, TensorType::q4_0,
                                 TensorType::q4_1, TensorType::q5_0,   TensorType::q5_1, TensorType::q8_0,
                                 TensorType::q2_k, TensorType::q3_k,   TensorType::q4_k, TensorType::q5_k,
                                 TensorType::q6_k, TensorType::iq4_nl, TensorType::mxfp4};

std::vector<uint8_t> from_hex(std::string_view hex) {
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes.push_back(static_cast<uint8_t>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    return bytes;
}

boost::json::object vectors() {
    std::ifstream file(DEEPINFER_TEST_DATA "/vectors/dequantize.json");
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    Result<boost::json::value> parsed = parse_json(text, "dequantize.json");
    if (!parsed) throw std::runtime_error(parsed.error().message);
    return parsed->as_object();
}

TEST(Dequantize, EveryTypeMatchesKnownAnswersBitForBit) {
    const boost::json::object all = vectors();
    ASSERT_EQ(all.size(), std::size(kTypes));
    for (const TensorType type : kTypes) {
        SCOPED_TRACE(to_string(type));
        const boost::json::object& entry = all.at(to_string(type)).as_object();
        const std::vector<uint8_t> blocks = from_hex(entry.at("blocks").as_string());
        const std::vector<uint8_t> expected_bytes = from_hex(entry.at("values").as_string());
        const size_t values = expected_bytes.size() / sizeof(float);
        ASSERT_EQ(row_bytes(type, values), blocks.size());
        ASSERT_GE(values, 64u);
        std::vector<float> expected(values), actual(values, -1.0f);
        std::memcpy(expected.data(), expected_bytes.data(), expected_bytes.size());
        dequantize_row(type, blocks.data(), actual.data(), values);
        for (size_t i = 0; i < values; ++i)
            ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i]))
                << "value " << i << ": " << actual[i] << " instead of " << expected[i];
    }
}

TEST(Dequantize, ReadsAndWritesExactlyTheRowAtAnyAddress) {
    for (const TensorType type : kTypes) {
        SCOPED_TRACE(to_string(type));
        const size_t values = traits(type).block_values * 2;
        const size_t bytes = row_bytes(type, values);
        std::vector<uint8_t> aligned(bytes, 0x35);
        // One byte off, at the end of its allocation: the address sanitizer sees any overrun.
        std::vector<uint8_t> shifted(bytes + 1, 0x35);
        std::vector<float> a(values), b(values + 1, 123.0f);
        dequantize_row(type, aligned.data(), a.data(), values);
        dequantize_row(type, shifted.data() + 1, b.data(), values);
        EXPECT_EQ(std::memcmp(a.data(), b.data(), values * sizeof(float)), 0);
        EXPECT_EQ(b[values], 123.0f);
    }
}

}  // namespace
}  // namespace deepinfer::kernels
