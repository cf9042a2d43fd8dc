// Kernels of rows.h for one type of numbers. Included once per SIMD target.
#include <cstdint>
#include <type_traits>

#include "tensor/cpu/support/lanes-inl.h"
#include "linalg/cpu/spectral/rows.h"

#if defined(TESSERA_LINALG_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_ROWS_INL
#undef TESSERA_LINALG_ROWS_INL
#else
#define TESSERA_LINALG_ROWS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The sums of the lanes of as many vectors as a block of 16 bytes has numbers, in order.
template <class D, class V = hn::Vec<D>>
HWY_INLINE auto FoldBlocks(D d, V v) {
  if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) <= 16) {
    return v;
  } else {
    const hn::Half<D> half;
    return FoldBlocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AddNeighbours(D d, V a, V b) {
  return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE auto BlockOfTotals(D d, const V* v) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return FoldBlocks(d, AddNeighbours(d, v[0], v[1]));
  } else {
    const hn::RepartitionToWide<D> pairs;
    const auto ab = hn::BitCast(pairs, AddNeighbours(d, v[0], v[1])),
               cd = hn::BitCast(pairs, AddNeighbours(d, v[2], v[3]));
    return FoldBlocks(d, hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, cd)),
                                 hn::BitCast(d, hn::InterleaveUpper(pairs, ab, cd))));
  }
}
// to[r] = the sum of the lanes of v[r], or to[r] += it.
template <int kRows, bool kAdd, class R, class D, class V = hn::Vec<D>>
HWY_INLINE void PutTotals(D d, const V* v, R* to) {
  constexpr int kBlock = 16 / sizeof(R);
  if constexpr (kRows % kBlock == 0) {
    const hn::FixedTag<R, kBlock> block;
#pragma GCC unroll 4
    for (int r = 0; r < kRows; r += kBlock) {
      const auto totals = BlockOfTotals(d, v + r);
      hn::StoreU(kAdd ? hn::Add(totals, hn::LoadU(block, to + r)) : totals, block, to + r);
    }
  } else {
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) to[r] = (kAdd ? to[r] : R{0}) + Total(d, v[r]);
  }
}

// kRows rows of n reals at once: what is loaded of them serves the sums along rows and those down columns. The first
// `head` reals (whole vectors, or all) are in sums along rows alone. Where both are made, sums along rows are added.
template <class R, int kRows, int kSides, bool kDot, bool kAxpy>
HWY_INLINE void Strip(const R* a, int64_t stride, int64_t head, int64_t n, const R* const* x, R* const* out,
                      const R* const* c, R* const* y) {
  const hn::ScalableTag<R> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[kSides][kRows], factor[kSides][kRows];
#pragma GCC unroll 2
  for (int q = 0; q < kSides; ++q)
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kDot) sum[q][r] = hn::Zero(d);
      if constexpr (kAxpy) factor[q][r] = hn::Set(d, c[q][r]);
    }
  const auto step = [&](auto is_head, auto load, auto store, int64_t j) HWY_ATTR {
    V row[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) row[r] = load(a + r * stride + j);
#pragma GCC unroll 2
    for (int q = 0; q < kSides; ++q) {
      if constexpr (kDot) {
        const V xv = load(x[q] + j);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) sum[q][r] = hn::MulAdd(row[r], xv, sum[q][r]);
      }
      if constexpr (kAxpy && !decltype(is_head)::value) {
        V yv = load(y[q] + j);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) yv = hn::MulAdd(row[r], factor[q][r], yv);
        store(yv, y[q] + j);
      }
    }
  };
  const auto whole = [&](const R* p) HWY_ATTR { return hn::LoadU(d, p); };
  const auto put_whole = [&](V v, R* p) HWY_ATTR { hn::StoreU(v, d, p); };
  int64_t j = 0;
  if constexpr (kDot && kAxpy)
    for (; j + lanes <= (head < n ? head : n); j += lanes) step(std::true_type(), whole, put_whole, j);
  for (; j + lanes <= n; j += lanes) step(std::false_type(), whole, put_whole, j);
  if (j < n) {
    const int64_t rest = n - j;
    const auto some = [&](const R* p) HWY_ATTR { return LoadSome(d, p, rest); };
    const auto put_some = [&](V v, R* p) HWY_ATTR { StoreSome(v, d, p, rest); };
    if (kDot && kAxpy && j < head)
      step(std::true_type(), some, put_some, j);
    else
      step(std::false_type(), some, put_some, j);
  }
  if constexpr (kDot)
#pragma GCC unroll 2
    for (int q = 0; q < kSides; ++q) PutTotals<kRows, kAxpy>(d, sum[q], out[q]);
}

// Pointers to the part of each side that belongs to row i.
template <class R>
struct Sides {
  R* at[2];
  Sides(R* const* p, int sides, int64_t i) : at{p[0] + i, sides == 2 ? p[1] + i : nullptr} {}
};

template <class R, int kRows, int kSides>
HWY_INLINE void DotBlocks(const Rows<R>& a, const R* const* x, R* const* out, int64_t& i) {
  for (; i + kRows <= a.count; i += kRows) {
    const Sides<R> to(out, kSides, i);
    Strip<R, kRows, kSides, true, false>(a.data + i * a.stride, a.stride, 0, a.n, x, to.at, nullptr, nullptr);
  }
}
template <class R>
void DotRows(const Rows<R>& a, const R* const* x, R* const* out) {
  int64_t i = 0;
  if (a.sides == 1) {
    DotBlocks<R, 8, 1>(a, x, out, i);
    DotBlocks<R, 2, 1>(a, x, out, i);
    DotBlocks<R, 1, 1>(a, x, out, i);
  } else {
    DotBlocks<R, 4, 2>(a, x, out, i);
    DotBlocks<R, 1, 2>(a, x, out, i);
  }
}

template <class R, int kRows, int kSides>
HWY_INLINE void AxpyBlocks(const Rows<R>& a, const R* const* c, R* const* y, int64_t& i) {
  for (; i + kRows <= a.count; i += kRows) {
    const Sides<const R> from(c, kSides, i);
    Strip<R, kRows, kSides, false, true>(a.data + i * a.stride, a.stride, 0, a.n, nullptr, nullptr, from.at, y);
  }
}
template <class R>
void AxpyRows(const Rows<R>& a, const R* const* c, R* const* y) {
  int64_t i = 0;
  if (a.sides == 1) {
    AxpyBlocks<R, 8, 1>(a, c, y, i);
    AxpyBlocks<R, 2, 1>(a, c, y, i);
    AxpyBlocks<R, 1, 1>(a, c, y, i);
  } else {
    AxpyBlocks<R, 4, 2>(a, c, y, i);
    AxpyBlocks<R, 1, 2>(a, c, y, i);
  }
}

// As many rows of a symmetric matrix as there are groups of kRows, from row i on.
template <class R, int kRows, int kSides>
HWY_INLINE void SymmetricBlocks(const Rows<R>& a, int64_t width, const R* const* c, R* const* y, const R* const* x,
                                R* const* out, int64_t& i) {
  const int64_t in_line = kLine<R> / width;
  for (; i + kRows <= a.count; i += kRows) {
    const int64_t begin = i / in_line * in_line * width;
    const Sides<const R> factors(c, kSides, i), other(x, kSides, begin);
    const Sides<R> to(out, kSides, i), into(y, kSides, begin);
    Strip<R, kRows, kSides, true, true>(a.data + i * a.stride + begin, a.stride, kLine<R>, a.n - begin, other.at, to.at,
                                        factors.at, into.at);
  }
}
template <class R>
void SymmetricRows(const Rows<R>& a, int64_t width, const R* const* c, R* const* y, const R* const* x, R* const* out) {
  int64_t i = 0;
  if (a.sides == 1) {
#if HWY_TARGET <= HWY_AVX3  // registers for sums and factors of so many rows
    SymmetricBlocks<R, 8, 1>(a, width, c, y, x, out, i);
#endif
    SymmetricBlocks<R, 4, 1>(a, width, c, y, x, out, i);
    SymmetricBlocks<R, 1, 1>(a, width, c, y, x, out, i);
  } else {
    SymmetricBlocks<R, 4, 2>(a, width, c, y, x, out, i);
    SymmetricBlocks<R, 1, 2>(a, width, c, y, x, out, i);
  }
}

// kVectors vectors of each row; the row that two rotations have in common stays in registers.
template <class R, int kVectors, class Load, class Store>
HWY_INLINE void RotateStrip(R* first, int64_t stride, int64_t count, const R* c, const R* s, Load load, Store store) {
  const hn::ScalableTag<R> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V carried[kVectors];
#pragma GCC unroll 4
  for (int k = 0; k < kVectors; ++k) carried[k] = load(first + k * lanes);
  for (int64_t i = 0; i < count; ++i) {
    const V cv = hn::Set(d, c[i]), sv = hn::Set(d, s[i]);
    R *a = first + i * stride, *b = a + stride;
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      const V bv = load(b + k * lanes);
      store(hn::MulAdd(cv, carried[k], hn::Mul(sv, bv)), a + k * lanes);
      carried[k] = hn::NegMulAdd(sv, carried[k], hn::Mul(cv, bv));
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < kVectors; ++k) store(carried[k], first + count * stride + k * lanes);
}
template <class R>
void Rotate(R* first, int64_t stride, int64_t n, int64_t count, const R* c, const R* s) {
  if (count == 0) return;
  const hn::ScalableTag<R> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](const R* p) HWY_ATTR { return hn::LoadU(d, p); };
  const auto store = [&](V v, R* p) HWY_ATTR { hn::StoreU(v, d, p); };
  int64_t j = 0;
  for (; j + 4 * lanes <= n; j += 4 * lanes) RotateStrip<R, 4>(first + j, stride, count, c, s, load, store);
  for (; j + lanes <= n; j += lanes) RotateStrip<R, 1>(first + j, stride, count, c, s, load, store);
  if (j == n) return;
  const int64_t rest = n - j;
  RotateStrip<R, 1>(
      first + j, stride, count, c, s, [&](const R* p) HWY_ATTR { return LoadSome(d, p, rest); },
      [&](V v, R* p) HWY_ATTR { StoreSome(v, d, p, rest); });
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif
