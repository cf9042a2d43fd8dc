// The float matrix product for each SIMD target.
#define TESSERA_GEMM_T float

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
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"
#include "tensor/cpu/gemm/gemm_simd-inl.h"  // last: it uses the headers above

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

void StoreHalves(int64_t n, float alpha, float beta, const float* sum, uint16_t* to) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, D> dh;
  hwy::float16_t* const half = reinterpret_cast<hwy::float16_t*>(to);
  const V a = hn::Set(d, alpha), b = hn::Set(d, beta);
  for (; i + kLanes <= n; i += kLanes) {
    V v = hn::Mul(a, hn::LoadU(d, sum + i));
    if (beta != 0) v = hn::Add(hn::Mul(b, hn::PromoteTo(d, hn::LoadU(dh, half + i))), v);
    hn::StoreU(hn::DemoteTo(dh, v), dh, half + i);
  }
#endif
  for (; i < n; ++i) {
    const float v = alpha * sum[i];
    to[i] = float_to_half_bits(beta == 0 ? v : beta * half_bits_to_float(to[i]) + v);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(GemmEntry);
TESSERA_SIMD_TABLE(GemmBatchEntry);
TESSERA_SIMD_TABLE(DotEntry);
TESSERA_SIMD_TABLE(StoreHalves);

void gemm_real(const GemmProblem<float>& g) { TESSERA_SIMD(GemmEntry)(g); }
void gemm_real_batch(const GemmProblem<float>& g, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step) {
  TESSERA_SIMD(GemmBatchEntry)(g, count, a_step, b_step, c_step);
}
float dot_real(int64_t n, const float* x, const float* y) { return TESSERA_SIMD(DotEntry)(n, x, y); }
void store_halves(int64_t n, float alpha, float beta, const float* sum, uint16_t* to) {
  TESSERA_SIMD(StoreHalves)(n, alpha, beta, sum, to);
}

}  // namespace tessera::cpu::internal
#endif
