// A row of bfloat16 times a matrix, at the speed of memory: the matrix is read once, in the order it lies, and never
// packed.
//
// A vector of bfloat16 is read as 32-bit lanes: the upper half of a lane is the float of an odd element, the lower
// half, shifted up, that of an even one. So sums are kept for even and odd elements apart.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/gemm/gemm_bf16_vector.cc"
#include <cmath>
#include <cstdint>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm_bf16.h"
#include "tensor/cpu/support/integer.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using DF = hn::ScalableTag<float>;
using DU = hn::ScalableTag<uint32_t>;
using V = hn::Vec<DF>;
constexpr DF df;
constexpr DU du;
constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(float);
constexpr int64_t kPair = 2 * kLanes;  // elements of a vector

// Elements of work in a piece.
constexpr int64_t kPieceWork = 1 << 17;
constexpr int64_t kColumns = 2048;  // summed at a time

HWY_INLINE V even_lanes(hn::Vec<DU> v) { return hn::BitCast(df, hn::ShiftLeft<16>(v)); }
HWY_INLINE V odd_lanes(hn::Vec<DU> v) { return hn::BitCast(df, hn::And(v, hn::Set(du, 0xffff0000u))); }
HWY_INLINE hn::Vec<DU> load_pairs(const uint16_t* p) {
  return hn::BitCast(du, hn::LoadU(hn::Repartition<uint16_t, DU>(), p));
}

inline void write(const Bf16Problem& g, int64_t j, float sum) {
  const int64_t at = j * g.c.col_stride;
  const float v = g.alpha * sum;
  const auto put = [&](auto& c) { c = g.beta == 0 ? v : std::fma(g.beta, static_cast<float>(c), v); };
  if (g.float_c)
    put(static_cast<float*>(g.c.data)[at]);
  else
    put(static_cast<BFloat16*>(g.c.data)[at]);
}

// ---- B row-major: sums of rows ----

// even[j], odd[j] += sum over kRows rows of x[r] b[r][2 j], b[r][2 j + 1]; n elements a row.
template <int kRows>
HWY_INLINE void add_rows(int64_t n, const float* x, const uint16_t* HWY_RESTRICT b, int64_t b_row,
                         float* HWY_RESTRICT even, float* HWY_RESTRICT odd) {
  V xs[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) xs[r] = hn::Set(df, x[r]);
  int64_t j = 0;
  for (; j + kPair <= n; j += kPair) {
    V e = hn::LoadU(df, even + j / 2), o = hn::LoadU(df, odd + j / 2);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto v = load_pairs(b + r * b_row + j);
      __builtin_prefetch(b + (r + kRows) * b_row + j);  // of the next call: rows lie far apart
      e = hn::MulAdd(xs[r], even_lanes(v), e);
      o = hn::MulAdd(xs[r], odd_lanes(v), o);
    }
    hn::StoreU(e, df, even + j / 2);
    hn::StoreU(o, df, odd + j / 2);
  }
  for (; j < n; ++j) {
    float sum = 0;
    for (int r = 0; r < kRows; ++r) sum += x[r] * bfloat16_bits_to_float(b[r * b_row + j]);
    if (j & 1)
      odd[j / 2] += sum;
    else
      even[j / 2] += sum;
  }
}

void RowsProduct(const Bf16Problem& g, const float* x) {
  const uint16_t* const b = static_cast<const uint16_t*>(g.b.data);
  const int64_t b_row = g.b.row_stride;
  const int64_t grain = min64(kColumns, max64(256, kPieceWork / g.k / 64 * 64));
  parallel_for(g.n, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    HWY_ALIGN float even[kColumns / 2];
    HWY_ALIGN float odd[kColumns / 2];
    for (int64_t j = begin; j < end; j += kColumns) {
      const int64_t n = min64(kColumns, end - j);
      for (int64_t i = 0; i < (n + 1) / 2; ++i) even[i] = odd[i] = 0;
      int64_t p = 0;
      for (; p + 8 <= g.k; p += 8) add_rows<8>(n, x + p, b + p * b_row + j, b_row, even, odd);
      for (; p < g.k; ++p) add_rows<1>(n, x + p, b + p * b_row + j, b_row, even, odd);
      for (int64_t i = 0; i < n; ++i) write(g, j + i, i & 1 ? odd[i / 2] : even[i / 2]);
    }
  });
}

// ---- B contiguous along k: scalar products ----

// x: as the vectors of y fall apart, kLanes even and kLanes odd elements in turn; whole pairs of vectors only, then the
// rest in order.
template <int kCols>
HWY_INLINE void dots(int64_t k, const float* HWY_RESTRICT x, const uint16_t* HWY_RESTRICT y, int64_t stride,
                     float* out) {
  V e[kCols], o[kCols];
#pragma GCC unroll 8
  for (int j = 0; j < kCols; ++j) e[j] = o[j] = hn::Zero(df);
  int64_t p = 0;
  for (; p + kPair <= k; p += kPair) {
    const V xe = hn::LoadU(df, x + p), xo = hn::LoadU(df, x + p + kLanes);
#pragma GCC unroll 8
    for (int j = 0; j < kCols; ++j) {
      const auto v = load_pairs(y + j * stride + p);
      e[j] = hn::MulAdd(xe, even_lanes(v), e[j]);
      o[j] = hn::MulAdd(xo, odd_lanes(v), o[j]);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < kCols; ++j) {
    float sum = hn::GetLane(hn::SumOfLanes(df, hn::Add(e[j], o[j])));
    for (int64_t q = p; q < k; ++q) sum += x[q] * bfloat16_bits_to_float(y[j * stride + q]);
    out[j] = sum;
  }
}

void DotsProduct(const Bf16Problem& g, const float* x) {
  const uint16_t* const b = static_cast<const uint16_t*>(g.b.data);
  const int64_t stride = g.b.col_stride;
  const int64_t grain = max64(4, kPieceWork / g.k / 4 * 4);
  parallel_for(g.n, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    float out[4];
    int64_t j = begin;
    for (; j + 4 <= end; j += 4) {
      dots<4>(g.k, x, b + j * stride, stride, out);
      for (int q = 0; q < 4; ++q) write(g, j + q, out[q]);
    }
    for (; j < end; ++j) {
      dots<1>(g.k, x, b + j * stride, stride, out);
      write(g, j, out[0]);
    }
  });
}

}  // namespace

void Bf16RowProduct(const Bf16Problem& g) {
  const uint16_t* const a = static_cast<const uint16_t*>(g.a.data);
  const bool rows = g.b.col_stride == 1 && g.n > 1;
  const int64_t whole = rows ? 0 : g.k / kPair * kPair;
  ScratchArray<float> x(g.k);
  for (int64_t p = 0; p < g.k; ++p) {
    const int64_t in = p % kPair;
    x[p < whole ? p - in + in / 2 + (in & 1) * kLanes : p] = bfloat16_bits_to_float(a[p * g.a.col_stride]);
  }
  if (rows)
    RowsProduct(g, x.get());
  else
    DotsProduct(g, x.get());
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(Bf16RowProduct);
void bf16_row_product(const Bf16Problem& g) { TESSERA_SIMD(Bf16RowProduct)(g); }

}  // namespace tessera::cpu::internal
#endif
