// The float matrix product for each SIMD target.
#define TESSERA_GEMM_T float
#define TESSERA_GEMM_ROUNDS 1  // C may be reduced floats

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/gemm/gemm_f32.cc"
#include <cstdint>
#include <type_traits>
#include <utility>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm_internal.h"
#include "tensor/cpu/gemm/gemm_reduced.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"
#include "tensor/cpu/support/bfloat16_simd-inl.h"  // last: these use the headers above
#include "tensor/cpu/gemm/gemm_simd-inl.h"

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(GemmEntry);
TESSERA_SIMD_TABLE(GemmBatchEntry);
TESSERA_SIMD_TABLE(DotEntry);
TESSERA_SIMD_TABLE(GemmRounded);

void gemm_real(const GemmProblem<float>& g) { TESSERA_SIMD(GemmEntry)(g); }
void gemm_real_batch(const GemmProblem<float>& g, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step) {
  TESSERA_SIMD(GemmBatchEntry)(g, count, a_step, b_step, c_step);
}
void gemm_rounded(const GemmProblem<float>& g, SourceKind kind, uint16_t* c) { TESSERA_SIMD(GemmRounded)(g, kind, c); }
float dot_real(int64_t n, const float* x, const float* y) { return TESSERA_SIMD(DotEntry)(n, x, y); }

}  // namespace tessera::cpu::internal
#endif
