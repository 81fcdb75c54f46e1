// Exact dot products of the lines of a block of weights with the rows of a tile.
//
// A line is 4 values of 16 outputs, as bytes without sign; a row gives 4 int8 from -127 to 127 for it. Where the instruction set
// multiplies bytes into pairs of 16 bits only (AVX2), sums stay there as long as they cannot overflow: a pair is at most
// 2 x 127 x MaxWeight. The result is the same integer whichever way.
#pragma once

#include "kernels/simd/simd.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

template <int MaxWeight, int R, bool In16 = has_small_dots && (MaxWeight * 254 <= 32767)>
struct Dots {
    I32 sum[R];
    template <class Start>
    explicit Dots(Start start) {
        FOR_ROWS(r, R) sum[r] = start(r);
    }
    // Line number `i` of the block, from 0 on without gaps; b[r] is what row r gives for it.
    void line(int, U8 x, const int* b) { FOR_ROWS(r, R) sum[r] = dot_u8_i8(sum[r], x, b[r]); }
    I32 end(int r) const { return sum[r]; }
};

#if defined(DEEPINFER_ISA_AVX2)
template <int MaxWeight, int R>
struct Dots<MaxWeight, R, true> {
    static constexpr int lines = 32767 / (MaxWeight * 254);  // that fit into 16 bits
    I32 sum[R];
    Dots16 part[R];
    bool open = false;  // known when compiled, as `i` is
    template <class Start>
    explicit Dots(Start start) {
        FOR_ROWS(r, R) sum[r] = start(r);
    }
    void line(int i, U8 x, const int* b) {
        if (i % lines == 0) {
            FOR_ROWS(r, R) part[r] = dot16(x, b[r]);
        } else {
            FOR_ROWS(r, R) part[r] = dot16(part[r], x, b[r]);
        }
        open = true;
        if (i % lines < lines - 1) return;
        FOR_ROWS(r, R) sum[r] = add_dots16(sum[r], part[r]);
        open = false;
    }
    I32 end(int r) const { return open ? add_dots16(sum[r], part[r]) : sum[r]; }
};
#endif

}  // namespace deepinfer::kernels::DEEPINFER_ISA
