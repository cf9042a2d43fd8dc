// Products of float16 on AMX, which multiplies bfloat16.
//
// A float16 has 11 significant bits, a bfloat16 has 8, and the range of float. So each number is the sum of two
// bfloat16, exactly: its upper 8 bits, and the rest. A step of a panel then is two of the steps of gemm_amx.h, upper
// parts and rests, and a product is the sum of four, all of them exact in float32. Infinities and NaN become NaN.
#include <immintrin.h>

#include <atomic>

#include "tensor/core/half.h"
#include "tensor/cpu/gemm/gemm_amx_beside.h"
#include "tensor/cpu/gemm/gemm_bf16.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")

namespace tessera::cpu::internal {
namespace {

struct HalfProduct {
  const Bf16Problem& g;
  std::atomic<bool>& special;  // a sum was NaN
};

template <class T>
void write_sums(const void* context, int64_t i, int64_t j, int64_t rows, int64_t cols, const void* sums) {
  const HalfProduct& product = *static_cast<const HalfProduct*>(context);
  const Bf16Problem& g = product.g;
  const float* from = static_cast<const float*>(sums);
  T* c = static_cast<T*>(g.c.data) + i * g.c.row_stride + j * g.c.col_stride;
  const __m512 alpha = _mm512_set1_ps(g.alpha);
  for (; rows > 0; --rows, from += kPanelLines, c += g.c.row_stride)
    for (int64_t q = 0; q < cols; q += 16) {
      const __mmask16 mask = static_cast<__mmask16>(cols - q >= 16 ? 0xffff : (1 << (cols - q)) - 1);
      const __m512 sum = _mm512_loadu_ps(from + q), x = _mm512_mul_ps(sum, alpha);
      if (_mm512_mask_cmp_ps_mask(mask, sum, sum, _CMP_UNORD_Q)) product.special.store(true, std::memory_order_relaxed);
      if (g.c.col_stride != 1) {
        alignas(64) float lanes[16];
        _mm512_store_ps(lanes, x);
        for (int64_t l = 0; l < 16 && q + l < cols; ++l) c[(q + l) * g.c.col_stride] = lanes[l];
      } else if constexpr (sizeof(T) == 2) {
        _mm256_mask_storeu_epi16(c + q, mask, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
      } else {
        _mm512_mask_storeu_ps(c + q, mask, x);
      }
    }
}

constexpr int64_t kLeastLines = 8;  // of rows and columns: vectors are better with fewer
constexpr int64_t kLeastWork = 1 << 15;

}  // namespace

bool gemm_f16(const Bf16Problem& problem) {
  if (bf16_panel_level() != PanelLevel::kAmx || problem.m < kLeastLines || problem.n < kLeastLines ||
      problem.m * problem.n * problem.k < kLeastWork)
    return false;
  const Bf16Problem g = problem.c.col_stride != 1 && problem.c.row_stride == 1 ? transposed(problem) : problem;
  std::atomic<bool> special = false;
  const HalfProduct product{g, special};
  panel_product({g.m, g.n, g.k, 2, g.a.data, g.a.row_stride, g.a.col_stride, g.b.data, g.b.row_stride, g.b.col_stride,
                 PanelLevel::kAmx, split_block, 0, g.float_c ? write_sums<float> : write_sums<Half>, &product});
  return !special.load();
}

}  // namespace tessera::cpu::internal
#pragma GCC pop_options
