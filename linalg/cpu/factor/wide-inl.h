// Vectors of numbers that lie next to each other: of real ones, or of complex ones as pairs of lanes. Included once per
// SIMD target.
#if defined(TESSERA_LINALG_WIDE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_WIDE_INL
#undef TESSERA_LINALG_WIDE_INL
#else
#define TESSERA_LINALG_WIDE_INL
#endif

#include "hwy/highway.h"
#include "linalg/cpu/factor/blocks.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::factor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The first n lanes from and to memory, which may end there; the others are zeros.
template <class R>
HWY_INLINE hn::Vec<hn::ScalableTag<R>> load_lanes(const R* p, int64_t n) {
  const hn::ScalableTag<R> d;
#if HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, p);
#else
  R lanes[HWY_MAX_BYTES / sizeof(R)] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return hn::LoadU(d, lanes);
#endif
}
template <class R>
HWY_INLINE void store_lanes(hn::Vec<hn::ScalableTag<R>> v, R* p, int64_t n) {
  const hn::ScalableTag<R> d;
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, p);
#else
  R lanes[HWY_MAX_BYTES / sizeof(R)];
  hn::StoreU(v, d, lanes);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
#endif
}

template <class T>
struct Wide {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  using Source = V;  // a vector that is multiplied by several factors
  using Factor = V;  // a number for all lanes
  static constexpr int64_t kCount = HWY_MAX_BYTES / sizeof(T);

  static HWY_INLINE V load(const T* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(v, D(), p); }
  static HWY_INLINE V load_n(const T* p, int64_t n) { return load_lanes<T>(p, n); }
  static HWY_INLINE void store_n(V v, T* p, int64_t n) { store_lanes<T>(v, p, n); }
  static HWY_INLINE Source source(V v) { return v; }
  static HWY_INLINE Factor factor(T x) { return hn::Set(D(), x); }
  // Another factor in each lane.
  static HWY_INLINE Factor factors(V x) { return x; }
  static HWY_INLINE T sum(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }
  static HWY_INLINE V sub_product(V acc, Source a, Factor f) { return hn::NegMulAdd(a, f, acc); }
  static HWY_INLINE V product(Source a, Factor f) { return hn::Mul(a, f); }
  static HWY_INLINE V sizes(V v) { return hn::Abs(v); }
};

template <class R>
struct Wide<std::complex<R>> {
  using T = std::complex<R>;
  using D = hn::ScalableTag<R>;
  using V = hn::Vec<D>;
  struct Source {
    V pairs, swapped;
  };
  struct Factor {
    V re, im;  // im: with the sign that it gets in each lane
  };
  static constexpr int64_t kCount = HWY_MAX_BYTES / sizeof(T);

  static HWY_INLINE V load(const T* p) { return hn::LoadU(D(), reinterpret_cast<const R*>(p)); }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(v, D(), reinterpret_cast<R*>(p)); }
  static HWY_INLINE V load_n(const T* p, int64_t n) { return load_lanes<R>(reinterpret_cast<const R*>(p), 2 * n); }
  static HWY_INLINE void store_n(V v, T* p, int64_t n) { store_lanes<R>(v, reinterpret_cast<R*>(p), 2 * n); }
  static HWY_INLINE Source source(V v) { return {v, hn::Reverse2(D(), v)}; }
  static HWY_INLINE Factor factor(T x) {
    const V im = hn::Set(D(), x.imag());
    return {hn::Set(D(), x.real()), hn::OddEven(im, hn::Neg(im))};
  }
  static HWY_INLINE Factor factors(V x) {
    const V im = hn::DupOdd(x);
    return {hn::DupEven(x), hn::OddEven(im, hn::Neg(im))};
  }
  static HWY_INLINE T sum(V v) {
    const D d;
    const V re = hn::OddEven(hn::Zero(d), v), im = hn::OddEven(v, hn::Zero(d));
    return T(hn::GetLane(hn::SumOfLanes(d, re)), hn::GetLane(hn::SumOfLanes(d, im)));
  }
  static HWY_INLINE V sub_product(V acc, const Source& a, const Factor& f) {
    return hn::NegMulAdd(a.swapped, f.im, hn::NegMulAdd(a.pairs, f.re, acc));
  }
  static HWY_INLINE V product(const Source& a, const Factor& f) {
    return hn::MulAdd(a.swapped, f.im, hn::Mul(a.pairs, f.re));
  }
  // In both lanes of a number.
  static HWY_INLINE V sizes(V v) {
    const V a = hn::Abs(v);
    return hn::Add(a, hn::Reverse2(D(), a));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::factor
HWY_AFTER_NAMESPACE();

#endif
