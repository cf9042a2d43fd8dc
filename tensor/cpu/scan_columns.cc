// Whole rows are added to (or multiplied with) an array of running values, in chunks that stay in cache.
#include "tensor/cpu/scan_columns.h"

#include <algorithm>
#include <type_traits>

#include "tensor/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/scan_columns.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kChunk = 512;

// The elements of x as running values (double for float).
template <class A, class T>
HWY_INLINE hn::Vec<hn::ScalableTag<A>> LoadAs(const T* x) {
  const hn::ScalableTag<A> d;
  if constexpr (std::is_same_v<A, T>) return hn::LoadU(d, x);
  else return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, hn::ScalableTag<A>>(), x));
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
void ScanChunk(const Columns& c, int64_t first, int64_t m) {
  const hn::ScalableTag<A> d;
  constexpr int64_t kLanes = HWY_LANES(A);
  HWY_ALIGN A running[kChunk];
  std::fill(running, running + m, kProduct ? A{1} : A{0});
  for (int64_t i = 0; i < c.rows; ++i) {
    const T* x = reinterpret_cast<const T*>(c.in + i * c.in_stride) + first;
    T* y = reinterpret_cast<T*>(c.out + i * c.out_stride) + first;
    int64_t k = 0;
    for (; k + kLanes <= m; k += kLanes) {
      const auto a = hn::Load(d, running + k), v = LoadAs<A>(x + k);
      const auto next = [&]() HWY_ATTR {
        if constexpr (kProduct) return hn::Mul(a, v);
        else return hn::Add(a, v);
      }();
      hn::Store(next, d, running + k);
      StoreAs<A>(next, y + k);
    }
    for (; k < m; ++k) {
      running[k] = kProduct ? running[k] * static_cast<A>(x[k]) : running[k] + static_cast<A>(x[k]);
      y[k] = static_cast<T>(running[k]);
    }
  }
}
template <class A, class T>
void ScanOf(bool product, const Columns& c) {
  for (int64_t first = 0; first < c.cols; first += kChunk) {
    const int64_t m = HWY_MIN(kChunk, c.cols - first);
    product ? ScanChunk<true, A, T>(c, first, m) : ScanChunk<false, A, T>(c, first, m);
  }
}

}  // namespace

void ScanColumns(bool product, DType load, const Columns& c) {
  switch (load) {
    case DType::kFloat32: return ScanOf<double, float>(product, c);
    case DType::kFloat64: return ScanOf<double, double>(product, c);
    default: return ScanOf<uint64_t, uint64_t>(product, c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
TESSERA_SIMD_TABLE(ScanColumns);
void scan_columns(bool product, DType load, const Columns& columns) { TESSERA_SIMD(ScanColumns)(product, load, columns); }
}  // namespace tessera::cpu
#endif
