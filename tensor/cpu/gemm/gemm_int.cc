// Integer and bool matrix products: loops that the compiler vectorises for each SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/gemm/gemm_int.cc"
#include <cstdint>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm_internal.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

#define TESSERA_VECTORIZE __attribute__((optimize("O3")))

constexpr int64_t kCols = 256;  // of C at a time: the sums and some rows of B stay in L1
constexpr int64_t kDepth = 128;

template <class T>
TESSERA_VECTORIZE void add_row(int64_t n, T x, const T* __restrict b, T* __restrict sum) {
  for (int64_t j = 0; j < n; ++j) sum[j] = static_cast<T>(sum[j] + x * b[j]);
}
template <class T>
TESSERA_VECTORIZE void add_rows4(int64_t n, const T* x, const T* __restrict b, int64_t b_row, T* __restrict sum) {
  const T *b1 = b + b_row, *b2 = b1 + b_row, *b3 = b2 + b_row;
  const T x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
  for (int64_t j = 0; j < n; ++j) sum[j] = static_cast<T>(sum[j] + x0 * b[j] + x1 * b1[j] + x2 * b2[j] + x3 * b3[j]);
}
TESSERA_VECTORIZE void or_row(int64_t n, uint8_t x, const uint8_t* __restrict b, uint8_t* __restrict sum) {
  for (int64_t j = 0; j < n; ++j) sum[j] |= x & b[j];
}

template <class T>
void write_row(const IntGemmProblem<T>& g, int64_t i, int64_t j0, int64_t n, const T* sum) {
  T* c = g.c + i * g.c_row + j0 * g.c_col;
  for (int64_t j = 0; j < n; ++j, c += g.c_col) {
    if (g.logical) {
      *c = (g.beta != 0 && *c) || (g.alpha != 0 && sum[j]);
    } else {
      *c = static_cast<T>((g.beta == 0 ? T{0} : static_cast<T>(g.beta * *c)) + static_cast<T>(g.alpha * sum[j]));
    }
  }
}

// Rows [i0, i1), columns [j0, j0 + n) of C, n <= kCols.
template <class T>
void IntTile(const IntGemmProblem<T>& g, int64_t i0, int64_t i1, int64_t j0, int64_t n) {
  const bool in_place = g.b_col == 1;
  ScratchArray<T> packed(in_place ? 0 : kDepth * n);
  ScratchArray<T> sums((i1 - i0) * n);
  T* const sum = sums.get();
  for (int64_t i = 0; i < (i1 - i0) * n; ++i) sum[i] = 0;
  T x[kDepth];
  for (int64_t p0 = 0; p0 < g.k; p0 += kDepth) {
    const int64_t depth = g.k - p0 < kDepth ? g.k - p0 : kDepth;
    const T* b = g.b + p0 * g.b_row + j0 * g.b_col;
    int64_t b_row = g.b_row;
    if (!in_place) {
      for (int64_t p = 0; p < depth; ++p)
        for (int64_t j = 0; j < n; ++j) packed[p * n + j] = b[p * g.b_row + j * g.b_col];
      b = packed.get();
      b_row = n;
    }
    for (int64_t i = i0; i < i1; ++i) {
      for (int64_t p = 0; p < depth; ++p) x[p] = g.a[i * g.a_row + (p0 + p) * g.a_col];
      T* const row = sum + (i - i0) * n;
      int64_t p = 0;
      if constexpr (sizeof(T) == 1) {
        if (g.logical)
          for (; p < depth; ++p) or_row(n, x[p], b + p * b_row, row);
      }
      for (; p + 4 <= depth; p += 4) add_rows4(n, x + p, b + p * b_row, b_row, row);
      for (; p < depth; ++p) add_row(n, x[p], b + p * b_row, row);
    }
  }
  for (int64_t i = i0; i < i1; ++i) write_row(g, i, j0, n, sum + (i - i0) * n);
}

template <class T>
void IntGemm(const IntGemmProblem<T>& g) {
  constexpr int64_t kRows = 32;
  const int64_t row_tiles = (g.m + kRows - 1) / kRows, col_tiles = (g.n + kCols - 1) / kCols;
  const int64_t tile_work = (g.m < kRows ? g.m : kRows) * (g.n < kCols ? g.n : kCols) * (g.k + 1);
  const int64_t grain = tile_work > (1 << 17) ? 1 : (1 << 17) / tile_work;
  parallel_for(row_tiles * col_tiles, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t i0 = t / col_tiles * kRows, j0 = t % col_tiles * kCols;
      IntTile(g, i0, i0 + kRows < g.m ? i0 + kRows : g.m, j0, g.n - j0 < kCols ? g.n - j0 : kCols);
    }
  });
}

}  // namespace

void IntGemm8(const IntGemmProblem<uint8_t>& g) { IntGemm(g); }
void IntGemm16(const IntGemmProblem<uint16_t>& g) { IntGemm(g); }
void IntGemm32(const IntGemmProblem<uint32_t>& g) { IntGemm(g); }
void IntGemm64(const IntGemmProblem<uint64_t>& g) { IntGemm(g); }

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(IntGemm8);
TESSERA_SIMD_TABLE(IntGemm16);
TESSERA_SIMD_TABLE(IntGemm32);
TESSERA_SIMD_TABLE(IntGemm64);
void gemm_int(const IntGemmProblem<uint8_t>& g) { TESSERA_SIMD(IntGemm8)(g); }
void gemm_int(const IntGemmProblem<uint16_t>& g) { TESSERA_SIMD(IntGemm16)(g); }
void gemm_int(const IntGemmProblem<uint32_t>& g) { TESSERA_SIMD(IntGemm32)(g); }
void gemm_int(const IntGemmProblem<uint64_t>& g) { TESSERA_SIMD(IntGemm64)(g); }

}  // namespace tessera::cpu::internal
#endif
