// The micro kernels of the real matrix product, for one SIMD target: a small tile of C is kept in registers over a
// block of k (see gemm_simd-inl.h, which includes this file).
#if defined(TENSOR_CPU_GEMM_MICRO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_GEMM_MICRO_INL_H_
#undef TENSOR_CPU_GEMM_MICRO_INL_H_
#else
#define TENSOR_CPU_GEMM_MICRO_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/cpu/support/integer.h"

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
// Rows of a micro tile: 32 registers hold 14 x 2 accumulators, two vectors of B and an element of A; 16 registers hold
// 6 x 2. With masks of their own (AVX-512) kernels read and write exactly the columns that exist; others need whole
// panels.
#if HWY_TARGET <= HWY_AVX3
constexpr int kMaxRows = 14;
constexpr bool kMasks = true;
constexpr int kDirectSteps = 2;  // values of k in a turn of direct kernels
#else
constexpr int kMaxRows = 6;
constexpr bool kMasks = false;
constexpr int kDirectSteps = 1;
#endif
constexpr int64_t kLine = 64;         // bytes of a cache line
constexpr int64_t kPrefetchStep = 8;  // values of k between requests for C and for the next panel

// One tile. Kernels write whole panels of c = a b where beta is 0, of c += alpha a b where it is not; those of a single
// vector write just the columns that exist. A is read as a[r * a_row + p * a_col] (packed: 1, rows of the tile), B as
// b[p * b_row + j] (packed: kPanel).
struct MicroArgs {
  int64_t k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row;
  T alpha, beta;
  T* c;
  int64_t c_row;
  int64_t cols;      // columns that exist
  const char* next;  // packed: what later tiles will read, brought to L2 on the way: next_count pieces of two lines,
                     // next_step bytes apart
  int64_t next_step, next_count;
};

HWY_INLINE void prefetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }
HWY_INLINE void prefetch_near(const void* p) { __builtin_prefetch(p, 0, 3); }

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
  // c = the tile, or c += alpha times it; a single vector goes by the mask.
  HWY_INLINE void store(const MicroArgs& g, M mask) const {
    T* c = g.c;
    if (g.beta == T{0}) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r, c += g.c_row) {
#pragma GCC unroll 2
        for (int q = 0; q < kVecs; ++q) put(v[r][q], mask, c + q * kLanes);
      }
      return;
    }
    const V alpha = hn::Set(d, g.alpha);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r, c += g.c_row) {
#pragma GCC unroll 2
      for (int q = 0; q < kVecs; ++q) put(hn::MulAdd(alpha, v[r][q], take(mask, c + q * kLanes)), mask, c + q * kLanes);
    }
  }
  static HWY_INLINE V take(M mask, const T* p) { return kVecs == 1 ? hn::MaskedLoad(mask, d, p) : hn::LoadU(d, p); }
  static HWY_INLINE void put(V x, M mask, T* p) {
    if constexpr (kVecs == 1)
      hn::BlendedStore(x, mask, d, p);
    else
      hn::StoreU(x, d, p);
  }
};

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
  t.store(g, M());
}

// A in place with any strides, B in place (rows contiguous, whole panels; a single vector reads what exists) or packed.
// A load with a mask costs as much as a multiplication. Requests for C would only take the places of loads that come
// sooner.
template <int kRows, int kVecs>
HWY_NOINLINE void DirectMicro(const MicroArgs& g) {
  constexpr int kBases = (kRows + 2) / 3;
  constexpr int64_t kAhead = 8;
  Tile<kRows, kVecs> t;
  t.clear();
  const M mask = kVecs == 1 ? hn::FirstN(d, static_cast<size_t>(g.cols)) : M();
  const int64_t a_row = g.a_row, a_col = g.a_col, b_row = g.b_row, ahead = kAhead * b_row;
  const T* a[kBases];  // of every third row: the others are in reach of an addressing mode
#pragma GCC unroll 5
  for (int i = 0; i < kBases; ++i) a[i] = g.a + 3 * i * a_row;
  const T* HWY_RESTRICT b = g.b;
#pragma GCC unroll kDirectSteps
  for (int64_t p = g.k; p > 0; --p) {
    V y[kVecs];
#pragma GCC unroll 2
    for (int q = 0; q < kVecs; ++q) {
      y[q] = t.take(mask, b + q * kLanes);
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
// Low tiles do without a kernel for packed operands, high ones without one for a single vector of columns: small
// programs count kilobytes.
constexpr int kLeastPacked = 3 * kMaxRows / 4, kMostAliased = kMaxRows < 10 ? kMaxRows : 10,
              kMostNarrow = kMasks ? 8 : 0;
struct MicroTables {
  MicroFn packed[kMaxRows], direct[kMaxRows], narrow[kMaxRows];  // narrow: direct, for at most one vector of columns
};
template <int... kIndex>
constexpr MicroTables make_tables(std::integer_sequence<int, kIndex...>) {
  return {{(kIndex + 1 < kLeastPacked ? DirectMicro<kIndex + 1, 2>
                                      : PackedMicro<(kIndex + 1 < kLeastPacked ? kMaxRows : kIndex + 1), 2>)...},
          {DirectMicro<kIndex + 1, 2>...},
          {DirectMicro<kIndex + 1, (kIndex < kMostNarrow ? 1 : 2)>...}};
}
constexpr MicroTables kMicro = make_tables(std::make_integer_sequence<int, kMaxRows>());

// How m rows are cut into panels of at most `most` rows, as even as can be: the first `tall` panels have low + 1 rows,
// the others low.
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

// c = beta c + alpha tile, rows of kPanel elements.
HWY_NOINLINE void finish_tile(const MicroArgs& g, const T* tile, int64_t rows, int64_t c_col) {
  const V alpha = hn::Set(d, g.alpha), beta = hn::Set(d, g.beta);
  const bool keep = g.beta != T{0};
  for (int64_t r = 0; r < rows; ++r, tile += kPanel) {
    T* const c = g.c + r * g.c_row;
    int64_t j = 0;
    for (; c_col == 1 && j + kLanes <= g.cols; j += kLanes) {
      V x = hn::Mul(alpha, hn::Load(d, tile + j));
      if (keep) x = hn::MulAdd(beta, hn::LoadU(d, c + j), x);
      hn::StoreU(x, d, c + j);
    }
    if (kMasks && c_col == 1 && j < g.cols) {
      const M mask = hn::FirstN(d, static_cast<size_t>(g.cols - j));
      V x = hn::Mul(alpha, hn::Load(d, tile + j));
      if (keep) x = hn::MulAdd(beta, hn::MaskedLoad(mask, d, c + j), x);
      hn::BlendedStore(x, mask, d, c + j);
      continue;
    }
    for (; j < g.cols; ++j) {
      T* const to = c + j * c_col;
      *to = keep ? g.beta * *to + g.alpha * tile[j] : g.alpha * tile[j];
    }
  }
}

// A tile that the kernel cannot write in place goes through a temporary, and from there by finish(tile).
template <class Finish>
HWY_INLINE void through_temporary(MicroFn micro, const MicroArgs& g, Finish finish) {
  HWY_ALIGN T tile[kMaxRows * kPanel];
  MicroArgs to = g;
  to.c = tile;
  to.c_row = kPanel;
  to.beta = T{0};
  micro(to);
  finish(tile);
}

// Kernels write the tile themselves where beta is 1, or 0 with an alpha of 1, and the columns follow each other.
HWY_INLINE bool is_plain(const MicroArgs& g, int64_t c_col) {
  return c_col == 1 && (g.beta == T{1} || (g.beta == T{0} && g.alpha == T{1}));
}

// A micro tile at any place of C.
HWY_INLINE void RunTile(MicroFn micro, const MicroArgs& g, int64_t rows, int64_t c_col, bool plain) {
  if (plain) return micro(g);
  through_temporary(micro, g, [&](const T* tile) { finish_tile(g, tile, rows, c_col); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
