// Kernels of rows.h for one type of numbers. Included once per SIMD target.
#include <cstdint>

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

// kRows rows of n reals at once: what is loaded of them serves the sums along rows and those down columns.
template <class R, int kRows, int kSides, bool kDot, bool kAxpy>
HWY_INLINE void Strip(const R* a, int64_t stride, int64_t n, const R* const* x, R* const* out, const R* const* c,
                      R* const* y) {
  const hn::ScalableTag<R> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sum[kSides][kRows], factor[kSides][kRows];
  for (int q = 0; q < kSides; ++q)
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kDot) sum[q][r] = hn::Zero(d);
      if constexpr (kAxpy) factor[q][r] = hn::Set(d, c[q][r]);
    }
  const auto step = [&](auto load, auto store, int64_t j) HWY_ATTR {
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
      if constexpr (kAxpy) {
        V yv = load(y[q] + j);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) yv = hn::MulAdd(row[r], factor[q][r], yv);
        store(yv, y[q] + j);
      }
    }
  };
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes)
    step([&](const R* p) HWY_ATTR { return hn::LoadU(d, p); }, [&](V v, R* p) HWY_ATTR { hn::StoreU(v, d, p); }, j);
  if (j < n) {
    const int64_t rest = n - j;
    step([&](const R* p) HWY_ATTR { return LoadSome(d, p, rest); },
         [&](V v, R* p) HWY_ATTR { StoreSome(v, d, p, rest); }, j);
  }
  if constexpr (kDot)
    for (int q = 0; q < kSides; ++q)
      for (int r = 0; r < kRows; ++r) out[q][r] = Total(d, sum[q][r]);
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
    Strip<R, kRows, kSides, true, false>(a.data + i * a.stride, a.stride, a.n, x, to.at, nullptr, nullptr);
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
    Strip<R, kRows, kSides, false, true>(a.data + i * a.stride, a.stride, a.n, nullptr, nullptr, from.at, y);
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

// kRows rows of a triangle: vectors in which rows begin, up to where all of them have begun and memory is aligned, then
// what they have in common.
template <class R, int kRows, int kSides>
HWY_INLINE void TriangleBlock(const Rows<R>& a, int64_t width, const R* const* c, R* const* y, const R* const* x,
                              R* const* out, int64_t i) {
  const hn::ScalableTag<R> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), first = i * width;
  const R* const rows = a.data + i * a.stride;
  const int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(rows + first) / sizeof(R)) % lanes,
                begun = (past + kRows * width + lanes - 1) / lanes * lanes - past,
                common = first + begun < a.n ? first + begun : a.n;
  const Sides<const R> from(c, kSides, i), other(x, kSides, common);
  const Sides<R> to(out, kSides, i), into(y, kSides, common);
  V sum[kSides][kRows];
  for (int q = 0; q < kSides; ++q)
    for (int r = 0; r < kRows; ++r) sum[q][r] = hn::Zero(d);
  for (int64_t j = first; j < common; j += lanes) {
    const int64_t some = common - j < lanes ? common - j : lanes;
    const V at = hn::Iota(d, static_cast<R>(j - first));
    for (int q = 0; q < kSides; ++q) {
      const V xv = LoadSome(d, x[q] + j, some);
      V yv = LoadSome(d, y[q] + j, some);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const V row = LoadSome(d, rows + r * a.stride + j, some), begin = hn::Set(d, static_cast<R>(r * width));
        const auto behind = hn::Ge(at, hn::Add(begin, hn::Set(d, static_cast<R>(width))));
        yv = hn::MulAdd(hn::IfThenElseZero(hn::Ge(at, begin), row), hn::Set(d, from.at[q][r]), yv);
        sum[q][r] = hn::MulAdd(hn::IfThenElseZero(behind, row), xv, sum[q][r]);
      }
      StoreSome(yv, d, y[q] + j, some);
    }
  }
  Strip<R, kRows, kSides, true, true>(rows + common, a.stride, a.n - common, other.at, to.at, from.at, into.at);
  for (int q = 0; q < kSides; ++q)
    for (int r = 0; r < kRows; ++r) to.at[q][r] += Total(d, sum[q][r]);
}
template <class R, int kSides>
HWY_INLINE void TriangleBlocks(const Rows<R>& a, int64_t width, const R* const* c, R* const* y, const R* const* x,
                               R* const* out) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX3  // registers for sums and factors of so many rows
  if constexpr (kSides == 1)
    for (; i + 8 <= a.count; i += 8) TriangleBlock<R, 8, kSides>(a, width, c, y, x, out, i);
#endif
  for (; i + 4 <= a.count; i += 4) TriangleBlock<R, 4, kSides>(a, width, c, y, x, out, i);
  for (; i < a.count; ++i) TriangleBlock<R, 1, kSides>(a, width, c, y, x, out, i);
}
template <class R>
void TriangleRows(const Rows<R>& a, int64_t width, const R* const* c, R* const* y, const R* const* x, R* const* out) {
  if (a.sides == 1)
    TriangleBlocks<R, 1>(a, width, c, y, x, out);
  else
    TriangleBlocks<R, 2>(a, width, c, y, x, out);
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
