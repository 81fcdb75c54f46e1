#include "base/tensor_type.h"

#include <gtest/gtest.h>

#include <set>

namespace deepinfer {
namespace {

TEST(TensorType, SupportedIdsAreThoseOfTheEnumeration) {
    std::set<uint32_t> supported;
    for (uint32_t id = 0; id < 1000; ++id) {
        const std::optional<TensorType> type = tensor_type_from_gguf(id);
        if (!type) continue;
        supported.insert(id);
        EXPECT_EQ(static_cast<uint32_t>(*type), id);
        EXPECT_STREQ(to_string(*type), gguf_type_name(id));  // one spelling of each name
    }
    EXPECT_EQ(supported, (std::set<uint32_t>{0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 30, 39}));
}

TEST(TensorType, KnownNamesOfUnsupportedTypes) {
    EXPECT_STREQ(gguf_type_name(9), "Q8_1");
    EXPECT_STREQ(gguf_type_name(15), "Q8_K");
    EXPECT_STREQ(gguf_type_name(23), "IQ4_XS");
    EXPECT_STREQ(gguf_type_name(28), "F64");
    EXPECT_STREQ(gguf_type_name(29), "IQ1_M");
    EXPECT_STREQ(gguf_type_name(34), "TQ1_0");
    EXPECT_STREQ(gguf_type_name(35), "TQ2_0");
    EXPECT_STREQ(gguf_type_name(40), "NVFP4");
    EXPECT_STREQ(gguf_type_name(41), "Q1_0");
    EXPECT_EQ(gguf_type_name(42), nullptr);
    EXPECT_EQ(gguf_type_name(UINT32_MAX), nullptr);
}

TEST(TensorType, RowBytes) {
    EXPECT_EQ(row_bytes(TensorType::f32, 3), 12u);
    EXPECT_EQ(row_bytes(TensorType::q4_0, 64), 36u);
    EXPECT_EQ(row_bytes(TensorType::q6_k, 512), 420u);
    EXPECT_EQ(row_bytes(TensorType::mxfp4, 32), 17u);
    EXPECT_EQ(row_bytes(TensorType::q4_k, 0), 0u);
}

}  // namespace
}  // namespace deepinfer
