// Columns: whole rows are added to (or multiplied with) an array of running values, in chunks that stay in cache.
// Lines: sums inside a vector, to which the total of those before is added.
#include "tensor/cpu/reduce/scan_columns.h"

#include <algorithm>
#include <type_traits>

#include "tensor/cpu/support/request.h"
#include "tensor/cpu/support/simd.h"
#include "tensor/cpu/support/simd_move.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/reduce/scan_columns.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kChunk = 1024;

// The elements of x as running values (double for float).
template <class A, class T>
HWY_INLINE hn::Vec<hn::ScalableTag<A>> LoadAs(const T* x) {
  const hn::ScalableTag<A> d;
  if constexpr (std::is_same_v<A, T>)
    return hn::LoadU(d, x);
  else
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, hn::ScalableTag<A>>(), x));
}
template <class A, class T>
HWY_INLINE void StoreAs(hn::Vec<hn::ScalableTag<A>> v, T* y) {
  if constexpr (std::is_same_v<A, T>) {
    hn::StoreU(v, hn::ScalableTag<A>(), y);
  } else {
    const hn::Rebind<T, hn::ScalableTag<A>> d;
    hn::StoreU(hn::DemoteTo(d, v), d, y);
  }
}

template <bool kProduct, class A, class T>
void ScanChunk(const Columns& c, int64_t first, int64_t m, bool stream) {
  const hn::ScalableTag<A> d;
  constexpr int64_t kLanes = HWY_LANES(A);
  HWY_ALIGN A running[kChunk];
  HWY_ALIGN T results[kChunk];  // on their way past the caches
  std::fill(running, running + m, kProduct ? A{1} : A{0});
  for (int64_t i = 0; i < c.rows; ++i) {
    const T* x = reinterpret_cast<const T*>(c.in + i * c.in_stride) + first;
    T* const out = reinterpret_cast<T*>(c.out + i * c.out_stride) + first;
    T* const y = stream ? results : out;
    const T* const ahead = reinterpret_cast<const T*>(c.in + HWY_MIN(i + 2, c.rows - 1) * c.in_stride) + first;
    int64_t k = 0;
    for (; k + kLanes <= m; k += kLanes) {
      __builtin_prefetch(ahead + k);
      const auto a = hn::Load(d, running + k), v = LoadAs<A>(x + k);
      const auto next = [&]() HWY_ATTR {
        if constexpr (kProduct)
          return hn::Mul(a, v);
        else
          return hn::Add(a, v);
      }();
      hn::Store(next, d, running + k);
      StoreAs<A>(next, y + k);
    }
    for (; k < m; ++k) {
      running[k] = kProduct ? running[k] * static_cast<A>(x[k]) : running[k] + static_cast<A>(x[k]);
      y[k] = static_cast<T>(running[k]);
    }
    if (stream) stream_copy(out, results, m * static_cast<int64_t>(sizeof(T)));
  }
}
template <class A, class T>
void ScanOf(bool product, bool stream, const Columns& c) {
  for (int64_t first = 0; first < c.cols; first += kChunk) {
    const int64_t m = HWY_MIN(kChunk, c.cols - first);
    product ? ScanChunk<true, A, T>(c, first, m, stream) : ScanChunk<false, A, T>(c, first, m, stream);
  }
}

// v[i] += v[i - 1] + ... + v[0]
template <int64_t kStep, class D>
HWY_INLINE hn::Vec<D> SumInside(D d, hn::Vec<D> v) {
  constexpr int64_t kLanes = HWY_LANES(hn::TFromD<D>);
  if constexpr (kStep >= kLanes) {
    return v;
  } else {
    HWY_ALIGN static constexpr int64_t kFrom[15] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6};
    const auto from = hn::LoadU(hn::RebindToSigned<D>(), kFrom + 8 - kStep);
#if HWY_TARGET == HWY_AVX3
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return SumInside<2 * kStep>(
          d,
          hn::Add(v, hn::Vec<D>{_mm512_maskz_permutexvar_pd(static_cast<__mmask8>(0xff << kStep), from.raw, v.raw)}));
    }
#endif
    const auto before = hn::TableLookupLanes(v, hn::IndicesFromVec(d, from));
    return SumInside<2 * kStep>(d, hn::Add(v, hn::IfThenZeroElse(hn::FirstN(d, kStep), before)));
  }
}

template <class A, class T>
void SumLines(const Lines& lines, int64_t n) {
  const hn::ScalableTag<A> d;
  constexpr int64_t kLanes = HWY_LANES(A);
  const auto last = hn::IndicesFromVec(d, hn::Set(hn::RebindToSigned<decltype(d)>(), kLanes - 1));
  for (int64_t r = 0; r < lines.rows; ++r) {
    const T* x = lines.row<T>(2, r);
    T* y = lines.row<T>(0, r);
    auto before = hn::Zero(d);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      request_ahead(x + i, kRequestFarAhead);
      const auto v = SumInside<1>(d, LoadAs<A>(x + i));
      StoreAs<A>(hn::Add(before, v), y + i);
      before = hn::Add(before, hn::TableLookupLanes(v, last));
    }
    A a = hn::GetLane(before);
    for (; i < n; ++i) y[i] = static_cast<T>(a += static_cast<A>(x[i]));
  }
}

}  // namespace

void ScanColumns(bool product, DType load, bool stream, const Columns& c) {
  switch (load) {
    case DType::kFloat32:
      return ScanOf<double, float>(product, stream, c);
    case DType::kFloat64:
      return ScanOf<double, double>(product, stream, c);
    default:
      return ScanOf<uint64_t, uint64_t>(product, stream, c);
  }
}
void ScanSumLines(DType load, const Lines& lines, int64_t n) {
  load == DType::kFloat32 ? SumLines<double, float>(lines, n) : SumLines<uint64_t, uint64_t>(lines, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
TESSERA_SIMD_TABLE(ScanColumns);
TESSERA_SIMD_TABLE(ScanSumLines);
void scan_columns(bool product, DType load, bool stream, const Columns& columns) {
  TESSERA_SIMD(ScanColumns)(product, load, stream, columns);
  if (stream) stream_fence();
}
void scan_sum_lines(DType load, const Lines& lines, int64_t n) { TESSERA_SIMD(ScanSumLines)(load, lines, n); }
}  // namespace tessera::cpu
#endif
