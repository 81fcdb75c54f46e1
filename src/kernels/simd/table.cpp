#include "kernels/simd/kernel_functions.h"
#include "kernels/simd/simd.h"

namespace deepinfer::kernels {

#define TABLE_NAME2(isa) table_##isa
#define TABLE_NAME(isa) TABLE_NAME2(isa)
#define STRING2(x) #x
#define STRING(x) STRING2(x)

static constexpr KernelTable make_table(const char* name, int bf16_bytes,
                                        decltype(KernelTable::quantize) quantize,
                                        decltype(KernelTable::gemm) gemm,
                                        decltype(KernelTable::attention_partials) partials) {
    return {
        name,
        {DEEPINFER_ISA::float_rows, DEEPINFER_ISA::float_rows, DEEPINFER_ISA::block32_rows,
         DEEPINFER_ISA::block32_rows, DEEPINFER_ISA::block32_rows, DEEPINFER_ISA::block32_rows,
         DEEPINFER_ISA::kquant_rows},
        bf16_bytes,
        quantize,
        gemm,
        DEEPINFER_ISA::gemm_piece_f32,
        partials,
        DEEPINFER_ISA::attention_merge,
        DEEPINFER_ISA::store_kv,
        DEEPINFER_ISA::rms_norm,
        DEEPINFER_ISA::rope,
        DEEPINFER_ISA::silu_mul,
        DEEPINFER_ISA::gelu_mul,
        DEEPINFER_ISA::add_vectors,
        DEEPINFER_ISA::scale_vector,
        DEEPINFER_ISA::exp_scaled,
        DEEPINFER_ISA::argmax,
        DEEPINFER_ISA::all_within,
        DEEPINFER_ISA::log_sum_exp,
    };
}

extern const KernelTable TABLE_NAME(DEEPINFER_ISA);
constexpr KernelTable TABLE_NAME(DEEPINFER_ISA) = make_table(STRING(DEEPINFER_ISA), 4,
                                                             DEEPINFER_ISA::quantize, DEEPINFER_ISA::gemm,
                                                             DEEPINFER_ISA::attention_partials);

#if defined(DEEPINFER_ISA_AVX512)
extern const KernelTable table_avx512_bf16;
constexpr KernelTable table_avx512_bf16 =
    make_table("avx512_bf16", 2, DEEPINFER_ISA::quantize_bf16, DEEPINFER_ISA::gemm_bf16,
               DEEPINFER_ISA::attention_partials_bf16);
#endif

}  // namespace deepinfer::kernels
