// The micro kernels of the real matrix product, for one SIMD target: a small tile of C is kept in registers over a block of k (see
// gemm_simd-inl.h, which includes this file).
#if defined(TENSOR_CPU_GEMM_MICRO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_GEMM_MICRO_INL_H_
#undef TENSOR_CPU_GEMM_MICRO_INL_H_
#else
#define TENSOR_CPU_GEMM_MICRO_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using T = TESSERA_GEMM_T;
using D = hn::ScalableTag<T>;
using V = hn::Vec<D>;
using M = hn::Mask<D>;
constexpr D d;
constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(T);
constexpr int64_t kPanel = 2 * kLanes;  // columns of a micro tile
// Rows of a micro tile: 32 registers hold 14 x 2 accumulators, two vectors of B and an element of A; 16 registers hold 6 x 2. With masks of their
// own (AVX-512) kernels read and write exactly the columns that exist; others need whole panels.
#if HWY_TARGET <= HWY_AVX3
constexpr int kMaxRows = 14;
constexpr bool kMasks = true;
#else
constexpr int kMaxRows = 6;
constexpr bool kMasks = false;
#endif
constexpr int64_t kLine = 64;         // bytes of a cache line
constexpr int64_t kPrefetchStep = 8;  // values of k between requests for C and for the next panel

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// One tile: c = beta c + alpha a b. A is read as a[r * a_row + p * a_col] (packed: 1, rows of the tile), B as b[p * b_row + j] (packed: kPanel).
struct MicroArgs {
  int64_t k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row;
  T alpha, beta;
  T* c;
  int64_t c_row;
  int64_t cols;             // columns that exist; without kMasks, and for packed operands, the kernel reads whole panels
  const char* next;         // what later tiles will read, brought to L2 on the way: next_count pieces of two lines, next_step bytes apart
  int64_t next_step, next_count;
};

HWY_INLINE void prefetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }
HWY_INLINE void prefetch_near(const void* p) { __builtin_prefetch(p, 0, 3); }

#if HWY_TARGET <= HWY_AVX3
HWY_INLINE hn::Vec<hn::ScalableTag<float>> load_or(hn::Vec<hn::ScalableTag<float>> other, hn::Mask<hn::ScalableTag<float>> mask, const float* p) {
  return hn::Vec<hn::ScalableTag<float>>{_mm512_mask_loadu_ps(other.raw, mask.raw, p)};
}
HWY_INLINE hn::Vec<hn::ScalableTag<double>> load_or(hn::Vec<hn::ScalableTag<double>> other, hn::Mask<hn::ScalableTag<double>> mask, const double* p) {
  return hn::Vec<hn::ScalableTag<double>>{_mm512_mask_loadu_pd(other.raw, mask.raw, p)};
}
#endif

// The accumulators of kRows x kVecs vectors.
template <int kRows, int kVecs>
struct Tile {
  V v[kRows][kVecs];

  HWY_INLINE void clear() {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int q = 0; q < kVecs; ++q) v[r][q] = hn::Zero(d);
    }
  }
  HWY_INLINE void store(const MicroArgs& g, const M* mask) const {
    const V alpha = hn::Set(d, g.alpha);
    T* c = g.c;
#if HWY_TARGET <= HWY_AVX3
    // beta == 0 reads nothing and adds -0 to every element, which leaves all of them as they are.
    const bool keep = g.beta != T{0};
    const V beta = hn::Set(d, keep ? g.beta : T{1}), minus_zero = hn::SignBit(d);
    M read[kVecs];
#pragma GCC unroll 2
    for (int q = 0; q < kVecs; ++q) read[q] = keep ? mask[q] : hn::FirstN(d, 0);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int q = 0; q < kVecs; ++q) hn::BlendedStore(hn::MulAdd(beta, load_or(minus_zero, read[q], c + q * kLanes), hn::Mul(alpha, v[r][q])), mask[q], d, c + q * kLanes);
      c += g.c_row;
    }
#else
    const V beta = hn::Set(d, g.beta);
    const bool keep = g.beta != T{0};
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int q = 0; q < kVecs; ++q) {
        V x = hn::Mul(alpha, v[r][q]);
        if (keep) x = hn::MulAdd(beta, hn::LoadU(d, c + q * kLanes), x);
        hn::StoreU(x, d, c + q * kLanes);
      }
      c += g.c_row;
    }
#endif
  }
};

template <int kVecs>
HWY_INLINE void column_masks(const MicroArgs& g, M* mask) {
  if constexpr (kMasks) {
#pragma GCC unroll 2
    for (int q = 0; q < kVecs; ++q) mask[q] = hn::FirstN(d, static_cast<size_t>(max64(0, g.cols - q * kLanes)));
  }
}

// A and B packed. While it works, the tile of C and the share of the next panel of B come nearer.
template <int kRows, int kVecs>
HWY_NOINLINE void PackedMicro(const MicroArgs& g) {
  constexpr int64_t kAhead = 8;  // values of k that A is requested in advance
  Tile<kRows, kVecs> t;
  t.clear();
  const T* HWY_RESTRICT a = g.a;
  const T* HWY_RESTRICT b = g.b;
  const T* c = g.c;
  int rows = kRows;
  const char* next = g.next;
  int64_t next_count = g.next_count;
  for (int64_t rest = g.k; rest > 0; rest -= kPrefetchStep) {
    if (rows > 0) {
      --rows;
      prefetch_far(c);
      if (kVecs == 2) prefetch_far(c + kPanel - 1);
      c += g.c_row;
    }
    if (--next_count >= 0) {
      prefetch_far(next);
      prefetch_far(next + kLine);
      next += g.next_step;
    }
    int64_t p = min64(rest, kPrefetchStep);
    do {
      V y[kVecs];
#pragma GCC unroll 2
      for (int q = 0; q < kVecs; ++q) y[q] = hn::LoadU(d, b + q * kLanes);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; r += kLine / sizeof(T)) prefetch_near(a + kAhead * kRows + r);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const V x = hn::Set(d, a[r]);
#pragma GCC unroll 2
        for (int q = 0; q < kVecs; ++q) t.v[r][q] = hn::MulAdd(x, y[q], t.v[r][q]);
      }
      a += kRows;
      b += kPanel;
    } while (--p > 0);
  }
  M mask[kVecs];
  column_masks<kVecs>(g, mask);
  t.store(g, mask);
}

// A in place with any strides, B in place (rows contiguous, whole panels; a single vector reads what exists) or packed. A load with a mask costs as
// much as a multiplication.
template <int kRows, int kVecs>
HWY_NOINLINE void DirectMicro(const MicroArgs& g) {
  constexpr int kBases = (kRows + 2) / 3;
  constexpr int64_t kAhead = 8;
  Tile<kRows, kVecs> t;
  t.clear();
  M mask[kVecs];
  column_masks<kVecs>(g, mask);
  const int64_t a_row = g.a_row, a_col = g.a_col, b_row = g.b_row, ahead = kAhead * b_row;
  const T* a[kBases];  // of every third row: the others are in reach of an addressing mode
#pragma GCC unroll 5
  for (int i = 0; i < kBases; ++i) a[i] = g.a + 3 * i * a_row;
  const T* HWY_RESTRICT b = g.b;
#pragma GCC unroll 1
  for (int r = 0; r < kRows && g.k > kLanes; ++r) {
    prefetch_far(g.c + r * g.c_row);
    if (kVecs == 2) prefetch_far(g.c + r * g.c_row + kPanel - 1);
  }
  const char* next = g.next;
  for (int64_t i = 0; i < g.next_count; ++i, next += g.next_step) {
    prefetch_far(next);
    prefetch_far(next + kLine);
  }
  for (int64_t p = g.k; p > 0; --p) {
    V y[kVecs];
#pragma GCC unroll 2
    for (int q = 0; q < kVecs; ++q) {
      y[q] = kMasks && kVecs == 1 ? hn::MaskedLoad(mask[q], d, b + q * kLanes) : hn::LoadU(d, b + q * kLanes);
      prefetch_near(b + ahead + q * kLanes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, a[r / 3][r % 3 * a_row]);
#pragma GCC unroll 2
      for (int q = 0; q < kVecs; ++q) t.v[r][q] = hn::MulAdd(x, y[q], t.v[r][q]);
    }
#pragma GCC unroll 5
    for (int i = 0; i < kBases; ++i) a[i] += a_col;
    b += b_row;
  }
  t.store(g, mask);
}

using MicroFn = void (*)(const MicroArgs&);
// Low tiles do without a kernel for packed operands, high ones without one for a single vector of columns: small programs count kilobytes.
constexpr int kLeastPacked = 3 * kMaxRows / 4, kMostAliased = kMaxRows < 10 ? kMaxRows : 10, kMostNarrow = kMasks ? 4 : 0;
struct MicroTables {
  MicroFn packed[kMaxRows], direct[kMaxRows], narrow[kMaxRows];  // narrow: direct, for at most one vector of columns
};
template <int... kIndex>
constexpr MicroTables make_tables(std::integer_sequence<int, kIndex...>) {
  return {{(kIndex + 1 < kLeastPacked ? DirectMicro<kIndex + 1, 2> : PackedMicro<(kIndex + 1 < kLeastPacked ? kMaxRows : kIndex + 1), 2>)...},
          {DirectMicro<kIndex + 1, 2>...},
          {DirectMicro<kIndex + 1, (kIndex < kMostNarrow ? 1 : 2)>...}};
}
constexpr MicroTables kMicro = make_tables(std::make_integer_sequence<int, kMaxRows>());

// How m rows are cut into panels of at most `most` rows, as even as can be: the first `tall` panels have low + 1 rows, the others low.
struct RowPanels {
  int64_t count, low, tall;
  RowPanels(int64_t m, int64_t most) : count(1), low(m), tall(0) {
    if (m <= most) return;
    count = ceil_div(m, most);
    low = m / count;
    tall = m % count;
  }
  int64_t first(int64_t panel) const { return panel * low + min64(panel, tall); }
  int64_t tallest() const { return low + (tall > 0 ? 1 : 0); }
  int64_t height(int64_t panel) const { return low + (panel < tall ? 1 : 0); }
};

// A tile that the kernel cannot write in place goes through a temporary.
template <class Put>
HWY_INLINE void through_temporary(MicroFn micro, MicroArgs& g, int64_t rows, Put put) {
  HWY_ALIGN T tmp[kMaxRows * kPanel];
  const MicroArgs before = g;
  g.c = tmp;
  g.c_row = kPanel;
  g.beta = T{0};
  micro(g);
  g.c = before.c;
  g.c_row = before.c_row;
  g.beta = before.beta;
  for (int64_t j = 0; j < g.cols; ++j)
    for (int64_t r = 0; r < rows; ++r) {
      T* const to = put(r, j);
      *to = g.beta == T{0} ? tmp[r * kPanel + j] : g.beta * *to + tmp[r * kPanel + j];
    }
}

// A micro tile at any place of C.
HWY_INLINE void RunTile(MicroFn micro, MicroArgs& g, int64_t rows, int64_t c_col) {
  if (c_col == 1 && (kMasks || g.cols == kPanel)) return micro(g);
  through_temporary(micro, g, rows, [c = g.c, c_row = g.c_row, c_col](int64_t r, int64_t j) { return c + r * c_row + j * c_col; });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
