// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011).
//
// A draw is a pure function of (seed, counter), so a token's randomness depends on its request's seed and its
// position and on nothing that happened before it.
#pragma once

#include <array>
#include <cstdint>

namespace deepinfer {

inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
        counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
                   static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    return counter;
}

// Uniform in (0, 1) with 53 bits, for draw number `index` of this seed.
inline double uniform_draw(uint64_t seed, uint64_t index) {
    const auto r = philox4x32({0, 0, static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32)},
                              {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    const uint64_t bits = (uint64_t{r[0]} << 21) | (r[1] >> 11);  // 53 bits
    return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}

}  // namespace deepinfer
