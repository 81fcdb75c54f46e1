// The kernels of one instruction set, as a table of functions: the border between the code that is compiled
// several times (simd/) and the rest. Plain C types only: a standard template that both sides use would be compiled for an instruction
// set, and the linker could keep that one for all.
//
// Arithmetic order, the same in every table (so all instruction sets give the same bits):
//   an output element has one accumulator, which runs over k in increasing order; nothing depends on the
//   number of rows, the row tile, the thread or the panel. docs/design/numerics.md has the reasons.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/kv_type.h"

namespace deepinfer::kernels {

enum class Isa : int;  // isa.h

// Weights repacked for the kernels: panels of 16 outputs, k running forward inside. pack.h has the exact
// bytes.
enum class WeightLayout : uint8_t {
    f32,
    f16,
    bf16,        // multiplied with float activations
    bf16_pairs,  // with BF16 activations
    q4_0,
    q4_1,
    q5_0,
    q5_1,
    q8_0,
    iq4_nl,
    mxfp4,  // with int8 activations, a scale per 32
    q2_k,
    q3_k,
    q4_k,
    q5_k,
    q6_k,  // with int8 activations, a scale per 256
};
constexpr int panel_outputs = 16;

// Activations as a kernel reads them: rows in tiles of R, per block of k: values, then scale, then a helper
// per row.
enum class ActivationLayout : uint8_t {
    f32,   // [k][R] float
    bf16,  // rounded to BF16. avx512_bf16: [k / 2][R][2] BF16; the others: [k][R] float with these values
    int8_off8,   // per 32: [8][R][4] int8 | [R] float scale | [R] int32 -8 * sum       (Q4_0)
    int8_off16,  //                                            | [R] int32 -16 * sum      (Q5_0)
    int8_off128,  //                                            | [R] int32 -128 * sum     (Q8_0, IQ4_NL, MXFP4)
    int8_sum,     //                                            | [R] float scale * sum    (Q4_1, Q5_1)
    int8_256,  // per 256: [64][R][4] int8 | [4][R] int16 pairs of sums of 32 | [16][R] int32 -32 * sum of 16
               // | [R] scale
};
constexpr int activation_layouts = 7;

struct ActivationTiles {
    int rows = 0, columns = 0;
    int tiles = 0;
    const int* first_row = nullptr;  // tiles + 1 entries
    const uint8_t* data = nullptr;   // tile t starts at row_stride * first_row[t]
    size_t row_stride = 0;
};

struct GemmArgs {
    const uint8_t* weights = nullptr;  // 64-byte aligned panels
    ActivationTiles activations;
    float* y = nullptr;  // y[row * ldy + output] = product, + bias[output] if there is one
    size_t ldy = 0;
    const float* bias = nullptr;
    bool add = false;  // y += product (+ bias) instead: the sum of the product is finished before it is added
    int outputs = 0;   // valid outputs; the last panel may have fewer than 16
    int first_panel = 0, last_panel = 0;  // this call computes panels [first, last)
    uint8_t* scratch = nullptr;           // gemm_scratch_bytes(), 64-byte aligned, one per thread
};

// One query tile with one or more KV heads. Rows are query vectors that share a KV head; they may belong to
// different tokens. Block layouts: simd/attention_kv.h; keys and values of a head stand one behind the other.
struct AttentionArgs {
    float* q = nullptr;              // [kv_heads][rows][head_dim], times scale * log2(e); may be overwritten
    int kv_heads = 0;                // <= most_attention_heads
    int rows = 0;                    // <= attention_tile_rows
    int head_dim = 0;                // multiple of 16, <= most_head_dim
    const int* first_key = nullptr;  // row i attends to keys [first_key[i], last_key[i])
    const int* last_key = nullptr;
    const uint8_t* const* blocks = nullptr;  // start of each 64-token block in the KV pool
    size_t k_offset = 0, v_offset = 0;       // of this layer and the first KV head inside a block
    size_t head_stride = 0;                  // bytes to the next head's keys
    KvType kv_type = KvType::f16;
    int first_partial = 0, last_partial = 0;  // partials of 512 keys to compute
    // Per partial and KV head: [rows][head_dim] values, then [rows] pairs of max and sum.
    float* partials = nullptr;
};
constexpr int attention_tile_rows = 24, most_attention_heads = 8, most_head_dim = 512;
constexpr int attention_partial_keys = 512;

struct KernelTable {
    const char* name;
    int tile_rows[activation_layouts];
    int bf16_bytes;  // of a value in ActivationLayout::bf16

    // One tile: rows [0, rows) of x (leading dimension ldx) into `out`, laid out as above.
    void (*quantize)(ActivationLayout, const float* x, size_t ldx, int rows, int columns, uint8_t* out);
    void (*gemm)(WeightLayout, const GemmArgs&);
    // y[r][0..16) (+)= over k in [0, columns) of panel[k][16] * act[k][R]: a piece of a product whose weights
    // are dequantised on the way. `add` continues the accumulators that y holds.
    void (*gemm_piece_f32)(const float* panel, const float* act, int rows, int columns, float* y, size_t ldy,
                           bool add);

    void (*attention_partials)(const AttentionArgs&);
    // out[head_dim] = row `row` of n partials of `rows` rows, `stride` floats apart, merged in key order.
    void (*attention_merge)(const float* first, size_t stride, int n, int rows, int row, int head_dim,
                            float* out);
    // Scatters token vectors, `stride` floats apart, into consecutive slots of a block: k[d] to K[d][slot + i], v
    // to V[slot + i][d].
    void (*store_kv)(const float* k, const float* v, size_t stride, int head_dim, int slot, int tokens,
                     KvType type, uint8_t* k_block, uint8_t* v_block);

    void (*rms_norm)(const float* x, const float* weight, float eps, int n,
                     float* y);  // y = x / rms(x) * weight
    void (*rope)(float* x, const float* cos_sin, int rotary_dim,
                 bool interleaved);  // cos_sin: [rotary_dim/2] cos, then sin
    void (*silu_mul)(const float* gate, const float* up, int n, float* y);  // y = silu(gate) * up
    void (*gelu_mul)(const float* gate, const float* up, int n, float* y);  // tanh form
    void (*add)(const float* x, const float* y, int n, float* out);
    void (*scale)(float* x, float factor, int n);
    void (*exp_scaled)(const float* x, int n, float max, float scale,
                       float* y);          // y = exp((x - max) * scale), x <= max
    int (*argmax)(const float* x, int n);  // lowest index of the maximum, or of the first NaN if there is one
    bool (*all_within)(const float* x, int n, float limit);  // |x[i]| <= limit for all; false for NaN
    float (*log_sum_exp)(const float* x, int n, float max);  // max + log(sum(exp(x - max)))
};

// Bytes of scratch a thread needs for gemm() with this layout and input width.
size_t gemm_scratch_bytes(WeightLayout layout, int columns);
// Bytes of a row of activations. Tiles and, for multiples of 256, columns begin at multiples of it.
size_t activation_row_bytes(const KernelTable& table, ActivationLayout layout, int columns);
ActivationLayout activation_layout_for(WeightLayout layout);

const KernelTable& kernel_table(Isa isa);  // requires supported(isa)

}  // namespace deepinfer::kernels
