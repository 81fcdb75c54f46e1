#include "models/weight_file_header.h"

#include <gtest/gtest.h>

namespace deepinfer::models {
namespace {

WeightFileHeader sample() {
    WeightFileHeader header;
    header.identity = {3, 1, 211, 123'456'512, {1, 2}, {3, 4}};
    header.file_bytes = uint64_t{60} << 21;
    return header;
}

TEST(WeightFileHeader, ComesBackAsItWasWritten) {
    const auto page = make_weight_header(sample());
    const auto parsed = parse_weight_header(page, sample().file_bytes);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(*parsed, sample());
    EXPECT_EQ(difference(parsed->identity, sample().identity), "");
}

TEST(WeightFileHeader, NoChangedBitIsAccepted) {
    const auto good = make_weight_header(sample());
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
        auto page = good;
        page[bit / 8] ^= std::byte{1} << bit % 8;
        const auto parsed = parse_weight_header(page, sample().file_bytes);
        ASSERT_FALSE(parsed.ok()) << "bit " << bit;
        EXPECT_EQ(parsed.error().code, ErrorCode::corrupt_data);
    }
}

TEST(WeightFileHeader, TruncatedFilesAreNotAccepted) {
    const auto page = make_weight_header(sample());
    for (const size_t bytes : {0, 1, 8, 88, 4095})
        EXPECT_FALSE(parse_weight_header(std::span(page).first(bytes), bytes).ok()) << bytes;
    for (const uint64_t bytes : {uint64_t{4096}, sample().file_bytes - 1, sample().file_bytes + 1})
        EXPECT_FALSE(parse_weight_header(page, bytes).ok()) << bytes;
}

TEST(WeightFileHeader, ImpossibleSizesAreNotAccepted) {
    const auto refused = [](auto change, const std::string& word) {
        WeightFileHeader header = sample();
        change(header);
        const auto parsed = parse_weight_header(make_weight_header(header), header.file_bytes);
        ASSERT_FALSE(parsed.ok()) << word;
        EXPECT_NE(parsed.error().message.find(word), std::string::npos) << parsed.error().message;
    };
    refused([](auto& h) { h.identity.data_bytes = h.file_bytes - 4095; }, "more packed bytes");
    refused([](auto& h) { h.identity.data_bytes = ~uint64_t{0}; }, "more packed bytes");
    refused([](auto& h) { h.file_bytes = 4095, h.identity.data_bytes = 0; }, "more packed bytes");
    refused([](auto& h) { h.identity.matrices = max_weight_matrices + 1; }, "1000001 matrices");
    refused([](auto& h) { h.file_bytes = max_weight_file_bytes + 1; }, "more than is accepted");
}

TEST(WeightFileHeader, SaysWhatIsDifferent) {
    const auto why = [](auto change) {
        WeightIdentity other = sample().identity;
        change(other);
        return difference(other, sample().identity);
    };
    EXPECT_NE(why([](auto& i) { ++i.pack_version; }).find("another version"), std::string::npos);
    EXPECT_NE(why([](auto& i) { i.compute = 0; }).find("--compute"), std::string::npos);
    EXPECT_NE(why([](auto& i) { ++i.layout.low; }).find("another model"), std::string::npos);
    EXPECT_NE(why([](auto& i) { ++i.matrices; }).find("another model"), std::string::npos);
    EXPECT_NE(why([](auto& i) { ++i.files.high; }).find("changed"), std::string::npos);
}

// Of the published test vectors: files built with one version of the library must be accepted with the next.
TEST(WeightFileHeader, DigestIsXxh3Of128Bits) {
    EXPECT_EQ(digest(""), (Digest{0x99aa06d3014798d8, 0x6001c324468d497f}));
}

}  // namespace
}  // namespace deepinfer::models
