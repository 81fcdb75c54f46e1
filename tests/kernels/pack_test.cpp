// Packed bytes are kept in files between runs, so their layouts must not change unnoticed.
#include "kernels/pack.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/philox.h"

namespace deepinfer::kernels {
namespace {

constexpr uint32_t tested_version = 1;

// XXH3 of the panels that packed_bytes() below packs, by stored type; a second line where computing in f32 has another
// layout.
const std::map<std::string, uint64_t> expected = {
    {"F32", 0x68c4ac006efa2f9f},    {"F16", 0xf2f9340fac5a2dda},  {"Q4_0", 0x53dffa13b9812689},
    {"Q4_1", 0x641fd598d3cd91e8},   {"Q5_0", 0x6955518b3bb09cc6}, {"Q5_1", 0x1e2172392df6ece0},
    {"Q8_0", 0x8e7903840df1fb7a},   {"Q2_K", 0xa3e0384517887643}, {"Q3_K", 0x7dd7c8fc798f9600},
    {"Q4_K", 0x7b38142393e68919},   {"Q5_K", 0x4aa03c7ded0e9882}, {"Q6_K", 0xc35665983df0956a},
    {"IQ4_NL", 0x53dffa13b9812689}, {"BF16", 0x540ea3380fd144a4}, {"BF16 f32", 0xf2f9340fac5a2dda},
    {"MXFP4", 0x5585fb682975b38b},
};

// A whole panel and one of five rows; with an odd number of blocks where blocks are small.
std::vector<uint8_t> packed_bytes(TensorType type, WeightLayout layout) {
    const int columns = traits(type).block_values <= 32 ? 96 : 768;
    const size_t row = row_bytes(type, static_cast<size_t>(columns)), panel = panel_bytes(layout, columns);
    std::vector<uint8_t> source(row * 21), packed(2 * panel);
    for (size_t i = 0; i < source.size(); ++i)
        source[i] = static_cast<uint8_t>(philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {1, 2})[0]);
    pack_panel(layout, source.data(), 16, columns, packed.data());
    pack_panel(layout, source.data() + 16 * row, 5, columns, packed.data() + panel);
    return packed;
}

void expect_known(const std::string& name, const std::vector<uint8_t>& bytes) {
    const uint64_t hash = XXH3_64bits(bytes.data(), bytes.size());
    const auto known = expected.find(name);
    char line[64];
    std::snprintf(line, sizeof line, "{\"%s\", 0x%016llx},", name.c_str(),
                  static_cast<unsigned long long>(hash));
    if (known == expected.end())
        ADD_FAILURE() << name << " is new; add the line\n    " << line;
    else
        EXPECT_EQ(known->second, hash) << name
                                       << " is packed differently: files of packed weights that users have "
                                          "would be read wrongly. Raise pack_version "
                                          "in kernels/pack.h, then update this test with the line\n    "
                                       << line;
}

TEST(Pack, BytesOfEveryLayoutAreThoseOfThisVersion) {
    EXPECT_EQ(pack_version, tested_version);
    size_t layouts = 0;
    for (uint32_t id = 0; id < 256; ++id) {
        const auto type = tensor_type_from_gguf(id);
        if (!type) continue;
        const auto serve = packed_layout(*type, Compute::serve), f32 = packed_layout(*type, Compute::f32);
        if (serve) expect_known(to_string(*type), packed_bytes(*type, *serve)), ++layouts;
        if (f32 && f32 != serve)
            expect_known(to_string(*type) + std::string(" f32"), packed_bytes(*type, *f32)), ++layouts;
    }
    EXPECT_EQ(layouts, expected.size());
}

}  // namespace
}  // namespace deepinfer::kernels
