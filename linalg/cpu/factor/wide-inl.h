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

// Sums of products are kept as Sums, which make a vector of numbers at the end: of complex numbers these are two, of
// what the real parts of factors give, and of what the imaginary ones give at the place of the other part. Factors are
// then numbers as they lie in memory, and nothing changes its place within a vector on the way.
template <class T>
struct Wide {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  using Sums = V;
  using Factor = V;  // a number for all lanes
  static constexpr int64_t kCount = HWY_MAX_BYTES / sizeof(T);

  static HWY_INLINE V load(const T* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(v, D(), p); }
  static HWY_INLINE V load_n(const T* p, int64_t n) { return load_lanes<T>(p, n); }
  static HWY_INLINE void store_n(V v, T* p, int64_t n) { store_lanes<T>(v, p, n); }
  static HWY_INLINE Factor factor(T x) { return hn::Set(D(), x); }
  // Another factor in each lane, for sums over all of them.
  static HWY_INLINE Factor factors(V x) { return x; }
  static HWY_INLINE Sums sums(V v) { return v; }
  static HWY_INLINE void subtract(Sums& s, V a, Factor f) { s = hn::NegMulAdd(a, f, s); }
  static HWY_INLINE V value(Sums s) { return s; }
  // Of all lanes, where factors differ.
  static HWY_INLINE T total(Sums s) { return hn::GetLane(hn::SumOfLanes(D(), s)); }
  static HWY_INLINE V product(V a, Factor f) { return hn::Mul(a, f); }
  static HWY_INLINE V sizes(V v) { return hn::Abs(v); }
};

// a - b in even lanes, a + b in odd ones.
template <class V>
HWY_INLINE V alternate(V a, V b) {
  return hn::Add(a, hn::OddEven(b, hn::Neg(b)));
}

template <class R>
struct Wide<std::complex<R>> {
  using T = std::complex<R>;
  using D = hn::ScalableTag<R>;
  using V = hn::Vec<D>;
  struct Sums {
    V straight, crossed;
  };
  struct Factor {
    V straight, crossed;
  };
  static constexpr int64_t kCount = HWY_MAX_BYTES / sizeof(T);

  static HWY_INLINE V load(const T* p) { return hn::LoadU(D(), reinterpret_cast<const R*>(p)); }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(v, D(), reinterpret_cast<R*>(p)); }
  static HWY_INLINE V load_n(const T* p, int64_t n) { return load_lanes<R>(reinterpret_cast<const R*>(p), 2 * n); }
  static HWY_INLINE void store_n(V v, T* p, int64_t n) { store_lanes<R>(v, reinterpret_cast<R*>(p), 2 * n); }
  static HWY_INLINE Factor factor(T x) { return {hn::Set(D(), x.real()), hn::Set(D(), x.imag())}; }
  static HWY_INLINE Factor factors(V x) { return {x, hn::Reverse2(D(), x)}; }
  static HWY_INLINE Sums sums(V v) { return {v, hn::Zero(D())}; }
  static HWY_INLINE void subtract(Sums& s, V a, const Factor& f) {
    s.straight = hn::NegMulAdd(a, f.straight, s.straight);
    s.crossed = hn::NegMulAdd(a, f.crossed, s.crossed);
  }
  static HWY_INLINE V value(const Sums& s) { return alternate(s.straight, hn::Reverse2(D(), s.crossed)); }
  static HWY_INLINE T total(const Sums& s) {
    const D d;
    const V signs = hn::OddEven(hn::Neg(s.straight), s.straight);
    return T(hn::GetLane(hn::SumOfLanes(d, signs)), hn::GetLane(hn::SumOfLanes(d, s.crossed)));
  }
  static HWY_INLINE V product(V a, const Factor& f) {
    return alternate(hn::Mul(a, f.straight), hn::Mul(hn::Reverse2(D(), a), f.crossed));
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
