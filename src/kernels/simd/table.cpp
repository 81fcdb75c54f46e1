#include "kernels/simd/kernel_functions.h"
#include "kernels/simd/simd.h"

namespace deepinfer::kernels {

#define TABLE_NAME2(isa) table_##isa
#define TABLE_NAME(isa) TABLE_NAME2(isa)
#define STRING2(x) #x
#define STRING(x) STRING2(x)

extern const KernelTable TABLE_NAME(DEEPINFER_ISA);
const KernelTable TABLE_NAME(DEEPINFER_ISA) = {
    STRING(DEEPINFER_ISA),
    {DEEPINFER_ISA::float_rows, DEEPINFER_ISA::block32_rows, DEEPINFER_ISA::block32_rows,
     DEEPINFER_ISA::block32_rows, DEEPINFER_ISA::block32_rows, DEEPINFER_ISA::kquant_rows},
    DEEPINFER_ISA::quantize,
    DEEPINFER_ISA::gemm,
    DEEPINFER_ISA::gemm_piece_f32,
    DEEPINFER_ISA::attention_partials,
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
    DEEPINFER_ISA::log_sum_exp,
};

}  // namespace deepinfer::kernels
