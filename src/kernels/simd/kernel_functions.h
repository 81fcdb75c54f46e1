// The functions of one instruction set, gathered by table.cpp.
#pragma once

#include "kernels/kernel_table.h"

namespace deepinfer::kernels::DEEPINFER_ISA {

void quantize(ActivationLayout layout, const float* x, size_t ldx, int rows, int columns, uint8_t* out);
void gemm(WeightLayout layout, const GemmArgs& g);
#if defined(DEEPINFER_ISA_AVX512)
// The same where the processor has avx512_bf16.
void quantize_bf16(ActivationLayout layout, const float* x, size_t ldx, int rows, int columns, uint8_t* out);
void gemm_bf16(WeightLayout layout, const GemmArgs& g);
#endif
void gemm_piece_f32(const float* panel, const float* act, int rows, int columns, float* y, size_t ldy,
                    bool add_to_y);
void attention_partials(const AttentionArgs& args);
void attention_partials_bf16(const AttentionArgs& args);  // where the processor has avx512_bf16
void attention_merge(const float* first, size_t stride, int n, int rows, int row, int head_dim, float* out);
void store_kv(const float* k, const float* v, size_t stride, int head_dim, int slot, int tokens, KvType type,
              uint8_t* k_block, uint8_t* v_block);
void rms_norm(const float* x, const float* weight, float eps, int n, float* y);
void rope(float* x, const float* cos_sin, int rotary_dim, bool interleaved);
void silu_mul(const float* gate, const float* up, int n, float* y);
void gelu_mul(const float* gate, const float* up, int n, float* y);
void add_vectors(const float* x, const float* y, int n, float* out);
void scale_vector(float* x, float factor, int n);
void exp_scaled(const float* x, int n, float max, float scale, float* y);
int argmax(const float* x, int n);
bool all_within(const float* x, int n, float limit);
float log_sum_exp(const float* x, int n, float max);

}  // namespace deepinfer::kernels::DEEPINFER_ISA
