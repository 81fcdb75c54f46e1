// Matrix products: choice of the kernel for a format and a tile height, and the walk over panels and tiles.
#include "kernels/simd/gemm_bf16.h"
#include "kernels/simd/gemm_block32.h"
#include "kernels/simd/gemm_float.h"
#include "kernels/simd/gemm_kquant_wide.h"
#include "kernels/simd/kernel_functions.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

// One panel x one tile. Where more is to do than to store 16 outputs, the tile goes through a buffer.
template <int MaxRows, class Kernel>
static inline void write_tile(const GemmArgs& g, int panel, int first_row, int rows, Kernel&& kernel) {
    const int out = panel * panel_outputs, valid = g.outputs - out;
    float* y = g.y + (size_t)first_row * g.ldy + out;
    if (valid >= panel_outputs && !g.bias && !g.add) return kernel(y, g.ldy);
    alignas(64) float buffer[MaxRows * panel_outputs];
    kernel(buffer, (size_t)panel_outputs);
    if (valid >= panel_outputs) {
        const F32 bias = g.bias ? load(g.bias + out) : zero();
        for (int r = 0; r < rows; ++r) {
            F32 v = load(buffer + r * panel_outputs);
            if (g.bias) v = add(v, bias);
            if (g.add) v = add(load(y + (size_t)r * g.ldy), v);
            store(y + (size_t)r * g.ldy, v);
        }
        return;
    }
    for (int r = 0; r < rows; ++r)
        for (int i = 0; i < valid; ++i) {
            float v = buffer[r * panel_outputs + i], *to = y + (size_t)r * g.ldy + i;
            if (g.bias) v += g.bias[out + i];
            *to = g.add ? *to + v : v;
        }
}

// A group of panels that fits into L2 serves all row tiles before the next group is read.
template <int MaxRows, class Panel>
static inline void walk(const GemmArgs& g, int step, Panel&& panel) {
    for (int first = g.first_panel; first < g.last_panel; first += step) {
        const int last = first + step < g.last_panel ? first + step : g.last_panel;
        for (int t = 0; t < g.activations.tiles; ++t) {
            const int row = g.activations.first_row[t], rows = g.activations.first_row[t + 1] - row;
            const uint8_t* act = g.activations.data + (size_t)row * g.activations.row_stride;
            for (int p = first; p < last; ++p)
                write_tile<MaxRows>(g, p, row, rows,
                                    [&](float* y, size_t ldy) { panel(p, rows, act, y, ldy); });
        }
    }
}
static inline int panels_per_group(size_t bytes, size_t panel_bytes) {
    return panel_bytes >= bytes ? 1 : (int)(bytes / panel_bytes);
}

template <WeightLayout F>
static void block32_gemm(const GemmArgs& g) {
    const int groups = (g.activations.columns + 63) / 64;
    const size_t panel_bytes = Block32<F>::panel_bytes((size_t)groups);
    walk<block32_rows>(g, panels_per_group(packed_group, panel_bytes),
                       [&](int p, int rows, const uint8_t* act, float* y, size_t ldy) {
                           with_rows<block32_rows>(rows, [&]<int R>() {
                               block32_kernel<F, R>(g.weights + (size_t)p * panel_bytes, act, groups, y, ldy);
                           });
                       });
}

template <WeightLayout F>
static void kquant_gemm(const GemmArgs& g) {
    const int blocks = g.activations.columns / 256;
    const size_t panel_bytes = (size_t)blocks * KQuant<F>::block;
    walk<kquant_rows>(g, panels_per_group(packed_group, panel_bytes),
                      [&](int p, int rows, const uint8_t* act, float* y, size_t ldy) {
                          with_rows<kquant_rows>(rows, [&]<int R>() {
                              kquant_kernel<F, R>(g.weights + (size_t)p * panel_bytes, act, blocks, y, ldy);
                          });
                      });
}

template <WeightLayout F>
static void kquant_wide_gemm(const GemmArgs& g) {
    if (g.activations.rows < kquant_wide_rows) return kquant_gemm<F>(g);
    const int blocks = g.activations.columns / 256;
    const size_t panel_bytes = (size_t)blocks * KQuant<F>::block,
                 wide_bytes = (size_t)blocks * kquant_wide_bytes;
    const int step = panels_per_group(kquant_wide_group, wide_bytes);
    for (int first = g.first_panel; first < g.last_panel; first += step) {
        GemmArgs group = g;
        group.first_panel = first;
        group.last_panel = first + step < g.last_panel ? first + step : g.last_panel;
        for (int p = first; p < group.last_panel; ++p)
            kquant_unpack<F>(g.weights + (size_t)p * panel_bytes, blocks,
                             g.scratch + (size_t)(p - first) * wide_bytes);
        walk<kquant_rows>(group, step, [&](int p, int rows, const uint8_t* act, float* y, size_t ldy) {
            with_rows<kquant_rows>(rows, [&]<int R>() {
                kquant_wide_kernel<F, R>(g.scratch + (size_t)(p - first) * wide_bytes, act, blocks, y, ldy);
            });
        });
    }
}

template <WeightLayout F>
static void float_gemm(const GemmArgs& g) {
    const int columns = g.activations.columns;
    const size_t panel_bytes = (size_t)columns * (F == WeightLayout::f32 ? 64 : 32);
    walk<float_rows>(g, panels_per_group(packed_group, panel_bytes),
                     [&](int p, int rows, const uint8_t* act, float* y, size_t ldy) {
                         with_rows<float_rows>(rows, [&]<int R>() {
                             float_kernel<F, R>(g.weights + (size_t)p * panel_bytes, (const float*)act,
                                                columns, y, ldy, false);
                         });
                     });
}

static void bf16_gemm(const GemmArgs& g) {
    const int columns = g.activations.columns;
    const size_t panel_bytes = (size_t)columns * 32;
    walk<float_rows>(g, panels_per_group(packed_group, panel_bytes),
                     [&](int p, int rows, const uint8_t* act, float* y, size_t ldy) {
                         with_rows<float_rows>(rows, [&]<int R>() {
                             const FlushSubnormals flush;
                             bf16_kernel<R>(g.weights + (size_t)p * panel_bytes, (const float*)act, columns,
                                            y, ldy);
                         });
                     });
}

#if defined(DEEPINFER_ISA_AVX512)
static void bf16_dot_gemm(const GemmArgs& g) {
    const int columns = g.activations.columns;
    const size_t panel_bytes = (size_t)columns * 32;
    walk<float_rows>(g, panels_per_group(packed_group, panel_bytes),
                     [&](int p, int rows, const uint8_t* act, float* y, size_t ldy) {
                         with_rows<float_rows>(rows, [&]<int R>() {
                             bf16_dot_kernel<R>(g.weights + (size_t)p * panel_bytes, (const int*)act, columns,
                                                y, ldy);
                         });
                     });
}
void gemm_bf16(WeightLayout layout, const GemmArgs& g) {
    layout == WeightLayout::bf16_pairs ? bf16_dot_gemm(g) : gemm(layout, g);
}
void quantize_bf16(ActivationLayout layout, const float* x, size_t ldx, int rows, int columns, uint8_t* out) {
    layout == ActivationLayout::bf16 ? bf16_quantize_pairs(x, ldx, rows, columns, (uint32_t*)out)
                                     : quantize(layout, x, ldx, rows, columns, out);
}
#endif

void gemm(WeightLayout layout, const GemmArgs& g) {
    switch (layout) {
        case WeightLayout::f32:
            return float_gemm<WeightLayout::f32>(g);
        case WeightLayout::f16:
            return float_gemm<WeightLayout::f16>(g);
        case WeightLayout::bf16:
            return float_gemm<WeightLayout::bf16>(g);
        case WeightLayout::bf16_pairs:
            return bf16_gemm(g);
        case WeightLayout::q4_0:
            return block32_gemm<WeightLayout::q4_0>(g);
        case WeightLayout::q4_1:
            return block32_gemm<WeightLayout::q4_1>(g);
        case WeightLayout::q5_0:
            return block32_gemm<WeightLayout::q5_0>(g);
        case WeightLayout::q5_1:
            return block32_gemm<WeightLayout::q5_1>(g);
        case WeightLayout::q8_0:
            return block32_gemm<WeightLayout::q8_0>(g);
        case WeightLayout::iq4_nl:
            return block32_gemm<WeightLayout::iq4_nl>(g);
        case WeightLayout::mxfp4:
            return block32_gemm<WeightLayout::mxfp4>(g);
        case WeightLayout::q2_k:
            return kquant_wide_gemm<WeightLayout::q2_k>(g);
        case WeightLayout::q3_k:
            return kquant_wide_gemm<WeightLayout::q3_k>(g);
        case WeightLayout::q4_k:
            return kquant_gemm<WeightLayout::q4_k>(g);
        case WeightLayout::q5_k:
            return kquant_gemm<WeightLayout::q5_k>(g);
        case WeightLayout::q6_k:
            return kquant_gemm<WeightLayout::q6_k>(g);
    }
}

void gemm_piece_f32(const float* panel, const float* act, int rows, int columns, float* y, size_t ldy,
                    bool add_to_y) {
    with_rows<float_rows>(rows, [&]<int R>() {
        float_kernel<WeightLayout::f32, R>((const uint8_t*)panel, act, columns, y, ldy, add_to_y);
    });
}

void quantize(ActivationLayout layout, const float* x, size_t ldx, int rows, int columns, uint8_t* out) {
    if (layout == ActivationLayout::f32) return float_quantize(x, ldx, rows, columns, (float*)out);
    if (layout == ActivationLayout::bf16) return bf16_quantize_floats(x, ldx, rows, columns, (float*)out);
    if (layout == ActivationLayout::int8_256) return kquant_quantize(x, ldx, rows, columns, out);
    block32_quantize(layout, x, ldx, rows, columns, out);
}

}  // namespace deepinfer::kernels::DEEPINFER_ISA
