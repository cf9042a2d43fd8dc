#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linalg/cpu/columns.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "linalg/cpu/columns.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::columns {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#undef TESSERA_COLUMNS_UNROLL

// Vectors of numbers T as vectors of their parts: complex numbers lie as pairs (re, im).
template <class T>
struct Lanes {
  using R = Real<T>;
  using D = hn::ScalableTag<R>;
  using V = hn::Vec<D>;

  static HWY_INLINE int64_t step() { return static_cast<int64_t>(hn::Lanes(D())); }
  static HWY_INLINE V load(const T* x, int64_t i) { return hn::LoadU(D(), reinterpret_cast<const R*>(x) + i); }
  static HWY_INLINE void store(V v, T* x, int64_t i) { hn::StoreU(v, D(), reinterpret_cast<R*>(x) + i); }
  static HWY_INLINE V swapped(V v) { return hn::Reverse2(D(), v); }
};

// Calls part(i, load, store) for the vectors of n numbers, the last of which may be shorter: lanes without an element
// read 0 and are not written.
template <class T, class F>
HWY_INLINE void for_vectors(int64_t n, F&& part) {
  using L = Lanes<T>;
  using V = typename L::V;
  using R = typename L::R;
  const int64_t all = n * kParts<T>, step = L::step();
  int64_t i = 0;
  for (; i + step <= all; i += step)
    part(
        i, [](const T* x, int64_t at) HWY_ATTR { return L::load(x, at); },
        [](V v, T* x, int64_t at) HWY_ATTR { L::store(v, x, at); });
  if (i == all) return;
  const typename L::D d;
#if HWY_TARGET <= HWY_AVX2
  const auto rest = hn::FirstN(d, static_cast<size_t>(all - i));
  part(
      i,
      [rest, d](const T* x, int64_t at)
          HWY_ATTR { return hn::MaskedLoad(rest, d, reinterpret_cast<const R*>(x) + at); },
      [rest, d](V v, T* x, int64_t at) HWY_ATTR { hn::BlendedStore(v, rest, d, reinterpret_cast<R*>(x) + at); });
#else  // whose masked loads read all lanes, from aligned addresses
  const size_t rest = static_cast<size_t>(all - i) * sizeof(R);
  part(
      i,
      [rest, d](const T* x, int64_t at) HWY_ATTR {
        HWY_ALIGN R lanes[HWY_MAX_BYTES / sizeof(R)] = {};
        std::memcpy(lanes, reinterpret_cast<const R*>(x) + at, rest);
        return hn::Load(d, lanes);
      },
      [rest, d](V v, T* x, int64_t at) HWY_ATTR {
        HWY_ALIGN R lanes[HWY_MAX_BYTES / sizeof(R)];
        hn::Store(v, d, lanes);
        std::memcpy(reinterpret_cast<R*>(x) + at, lanes, rest);
      });
#endif
}

// Calls part(number of columns, first of them): for kMostColumns, while there are so many, for two if `pairs`, and for
// one.
#if HWY_TARGET <= HWY_AVX2
inline constexpr int kMostColumns = 4;
#define TESSERA_COLUMNS_UNROLL TESSERA_UNROLL
#else  // with less code
inline constexpr int kMostColumns = 2;
#define TESSERA_COLUMNS_UNROLL
#endif
template <bool pairs = false, class F>
HWY_INLINE void by_columns(int64_t n, F&& part) {
  int64_t j = 0;
  for (; j + kMostColumns <= n; j += kMostColumns) part(std::integral_constant<int, kMostColumns>(), j);
  if constexpr (pairs && kMostColumns > 2)
    if (j + 2 <= n) part(std::integral_constant<int, 2>(), j), j += 2;
  for (; j < n; ++j) part(std::integral_constant<int, 1>(), j);
}

// A number that vectors are multiplied by: x s = x re(s) + swapped(x) (-im(s), im(s)).
template <class T>
struct Factor {
  using L = Lanes<T>;
  using V = typename L::V;
  V re, im;

  explicit HWY_INLINE Factor(T x) {
    const typename L::D d;
    re = hn::Set(d, real_part(x));
    im = re;
    if constexpr (kIsComplex<T>) im = hn::OddEven(hn::Set(d, imag_part(x)), hn::Set(d, -imag_part(x)));
  }
  HWY_INLINE V add_to(V sum, V x) const {
    sum = hn::MulAdd(x, re, sum);
    if constexpr (kIsComplex<T>) sum = hn::MulAdd(L::swapped(x), im, sum);
    return sum;
  }
  HWY_INLINE V times(V x) const {
    if constexpr (kIsComplex<T>) return hn::MulAdd(L::swapped(x), im, hn::Mul(x, re));
    return hn::Mul(x, re);
  }
};

// sum conj(a) x, gathered lane by lane: a x has the real parts' terms, a swapped(x) those of the imaginary ones.
template <class T>
struct Inner {
  using L = Lanes<T>;
  using V = typename L::V;
  V re, im;

  HWY_INLINE Inner() : re(hn::Zero(typename L::D())), im(hn::Zero(typename L::D())) {}
  HWY_INLINE void add(V a, V x, V swapped_x) {
    re = hn::MulAdd(a, x, re);
    if constexpr (kIsComplex<T>) im = hn::MulAdd(a, swapped_x, im);
  }
  HWY_INLINE T sum() const {
    const typename L::D d;
    const Real<T> r = hn::GetLane(hn::SumOfLanes(d, re));
    if constexpr (kIsComplex<T>) return T(r, hn::GetLane(hn::SumOfLanes(d, hn::OddEven(hn::Neg(im), im))));
    return r;
  }
};

// Columns [j, j + K) against x.
template <class T, int K>
HWY_INLINE void dots_of(int64_t m, const T* a, int64_t ld, const T* x, T* y) {
  Inner<T> sums[K];
  for_vectors<T>(m, [&](int64_t i, auto load, auto) HWY_ATTR {
    const auto v = load(x, i), s = kIsComplex<T> ? Lanes<T>::swapped(v) : v;
    TESSERA_COLUMNS_UNROLL
    for (int c = 0; c < K; ++c) sums[c].add(load(a + c * ld, i), v, s);
  });
  TESSERA_COLUMNS_UNROLL
  for (int c = 0; c < K; ++c) y[c] = sums[c].sum();
}
template <class T>
void Dots(int64_t m, int64_t n, const T* a, int64_t ld, const T* x, T* y) {
  by_columns(n, [&](auto columns, int64_t j) HWY_ATTR { dots_of<T, columns>(m, a + j * ld, ld, x, y + j); });
}

template <class T, int K>
HWY_INLINE void combine_of(int64_t m, const T* a, int64_t ld, const T* x, T* y) {
  const Factor<T> f[4] = {Factor<T>(x[0]), Factor<T>(x[K > 1 ? 1 : 0]), Factor<T>(x[K > 2 ? 2 : 0]),
                          Factor<T>(x[K > 3 ? 3 : 0])};
  for_vectors<T>(m, [&](int64_t i, auto load, auto store) HWY_ATTR {
    auto v = load(y, i);
    TESSERA_COLUMNS_UNROLL
    for (int c = 0; c < K; ++c) v = f[c].add_to(v, load(a + c * ld, i));
    store(v, y, i);
  });
}
template <class T>
void Combine(int64_t m, int64_t n, const T* a, int64_t ld, const T* x, T* y) {
  by_columns(n, [&](auto columns, int64_t j) HWY_ATTR { combine_of<T, columns>(m, a + j * ld, ld, x + j, y); });
}

template <class T, int K>
HWY_INLINE void rank_one_of(int64_t m, const T* x, const T* w, T* a, int64_t ld) {
  const Factor<T> f[4] = {Factor<T>(-w[0]), Factor<T>(-w[K > 1 ? 1 : 0]), Factor<T>(-w[K > 2 ? 2 : 0]),
                          Factor<T>(-w[K > 3 ? 3 : 0])};
  for_vectors<T>(m, [&](int64_t i, auto load, auto store) HWY_ATTR {
    const auto v = load(x, i);
    TESSERA_COLUMNS_UNROLL
    for (int c = 0; c < K; ++c) store(f[c].add_to(load(a + c * ld, i), v), a + c * ld, i);
  });
}
template <class T>
void RankOne(int64_t m, int64_t n, const T* x, const T* w, T* a, int64_t ld) {
  by_columns(n, [&](auto columns, int64_t j) HWY_ATTR { rank_one_of<T, columns>(m, x, w + j, a + j * ld, ld); });
}

template <class T, int K>
HWY_INLINE void rank_one_dots_of(int64_t m, const T* v, const T* w, T* a, int64_t ld, const T* x, T* y) {
  const Factor<T> f[4] = {Factor<T>(-w[0]), Factor<T>(-w[K > 1 ? 1 : 0]), Factor<T>(-w[K > 2 ? 2 : 0]),
                          Factor<T>(-w[K > 3 ? 3 : 0])};
  Inner<T> sums[K];
  for_vectors<T>(m, [&](int64_t i, auto load, auto store) HWY_ATTR {
    const auto by = load(v, i), against = load(x, i), s = kIsComplex<T> ? Lanes<T>::swapped(against) : against;
    TESSERA_COLUMNS_UNROLL
    for (int c = 0; c < K; ++c) {
      const auto now = f[c].add_to(load(a + c * ld, i), by);
      store(now, a + c * ld, i);
      sums[c].add(now, against, s);
    }
  });
  TESSERA_COLUMNS_UNROLL
  for (int c = 0; c < K; ++c) y[c] = sums[c].sum();
}
template <class T>
void RankOneDots(int64_t m, int64_t n, const T* v, const T* w, T* a, int64_t ld, const T* x, T* y) {
  by_columns<!kIsComplex<T>>(n, [&](auto columns, int64_t j)
                                    HWY_ATTR { rank_one_dots_of<T, columns>(m, v, w + j, a + j * ld, ld, x, y + j); });
}

template <class T>
void Scale(int64_t n, T factor, T* x) {
  const Factor<T> f(factor);
  for_vectors<T>(n, [&](int64_t i, auto load, auto store) HWY_ATTR { store(f.times(load(x, i)), x, i); });
}

template <class T>
Real<T> Squares(int64_t n, const T* x) {
  auto sum = hn::Zero(typename Lanes<T>::D());
  for_vectors<T>(n, [&](int64_t i, auto load, auto) HWY_ATTR {
    const auto v = load(x, i);
    sum = hn::MulAdd(v, v, sum);
  });
  return hn::GetLane(hn::SumOfLanes(typename Lanes<T>::D(), sum));
}

template <class T>
void Rotate(int64_t n, T* x, T* y, Real<T> c, T s) {
  const Factor<T> plus(s), minus(-conjugate(s));
  const auto cosine = hn::Set(typename Lanes<T>::D(), c);
  for_vectors<T>(n, [&](int64_t i, auto load, auto store) HWY_ATTR {
    const auto u = load(x, i), v = load(y, i);
    store(plus.add_to(hn::Mul(u, cosine), v), x, i);
    store(minus.add_to(hn::Mul(v, cosine), u), y, i);
  });
}

// K vectors of rows at once: two columns stay in registers while the reflections go over them.
template <class T, int K, class Load, class Store>
HWY_INLINE void reflect_rows(int64_t at, T* x, int64_t ld, const Reflections3<T>& q, const Load& load,
                             const Store& store) {
  using V = typename Lanes<T>::V;
  const int64_t step = Lanes<T>::step();
  T* column = x + q.first * ld;
  V a[K], b[K];
  TESSERA_COLUMNS_UNROLL
  for (int v = 0; v < K; ++v) {
    a[v] = load(column, at + v * step);
    b[v] = load(column + ld, at + v * step);
  }
  const T* f = q.factors;
  for (int64_t i = 0; i < q.count; ++i, f += 5, column += ld) {
    const Factor<T> f0(f[0]), f1(f[1]), f2(-f[2]), f3(-f[3]), f4(-f[4]);
    TESSERA_COLUMNS_UNROLL
    for (int v = 0; v < K; ++v) {
      const V c = load(column + 2 * ld, at + v * step), sum = f1.add_to(f0.add_to(a[v], b[v]), c);
      store(f2.add_to(a[v], sum), column, at + v * step);
      a[v] = f3.add_to(b[v], sum);
      b[v] = f4.add_to(c, sum);
    }
  }
  if (q.pair) {
    const Factor<T> f0(f[0]), f2(-f[2]), f3(-f[3]);
    TESSERA_COLUMNS_UNROLL
    for (int v = 0; v < K; ++v) {
      const V sum = f0.add_to(a[v], b[v]);
      a[v] = f2.add_to(a[v], sum);
      b[v] = f3.add_to(b[v], sum);
    }
  }
  TESSERA_COLUMNS_UNROLL
  for (int v = 0; v < K; ++v) {
    store(a[v], column, at + v * step);
    store(b[v], column + ld, at + v * step);
  }
}
template <class T>
void Reflect(int64_t n, T* x, int64_t ld, const Reflections3<T>* sequences, int64_t count) {
  using L = Lanes<T>;
  using V = typename L::V;
  constexpr int64_t kVectors = 4;
  const int64_t wide = kVectors * L::step() / kParts<T>, rows = n / wide * wide;
  const auto load = [](const T* from, int64_t at) HWY_ATTR { return L::load(from, at); };
  const auto store = [](V v, T* to, int64_t at) HWY_ATTR { L::store(v, to, at); };
  for (int64_t r = 0; r < rows; r += wide)
    for (int64_t s = 0; s < count; ++s) reflect_rows<T, kVectors>(r * kParts<T>, x, ld, sequences[s], load, store);
  for_vectors<T>(n - rows, [&](int64_t at, auto some, auto back) HWY_ATTR {
    for (int64_t s = 0; s < count; ++s) reflect_rows<T, 1>(at, x + rows, ld, sequences[s], some, back);
  });
}

template <class T>
const Kernels<T>& kernels_of() {
  static constexpr Kernels<T> kTable = {Dots<T>,  Combine<T>, RankOne<T>, RankOneDots<T>,
                                        Scale<T>, Squares<T>, Rotate<T>,  Reflect<T>};
  return kTable;
}
const Kernels<float>& KernelsF32() { return kernels_of<float>(); }
const Kernels<double>& KernelsF64() { return kernels_of<double>(); }
const Kernels<std::complex<float>>& KernelsC64() { return kernels_of<std::complex<float>>(); }
const Kernels<std::complex<double>>& KernelsC128() { return kernels_of<std::complex<double>>(); }

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::columns
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::columns {
TESSERA_SIMD_TABLE(KernelsF32);
TESSERA_SIMD_TABLE(KernelsF64);
TESSERA_SIMD_TABLE(KernelsC64);
TESSERA_SIMD_TABLE(KernelsC128);
template <>
const Kernels<float>& kernels<float>() {
  return TESSERA_SIMD(KernelsF32)();
}
template <>
const Kernels<double>& kernels<double>() {
  return TESSERA_SIMD(KernelsF64)();
}
template <>
const Kernels<std::complex<float>>& kernels<std::complex<float>>() {
  return TESSERA_SIMD(KernelsC64)();
}
template <>
const Kernels<std::complex<double>>& kernels<std::complex<double>>() {
  return TESSERA_SIMD(KernelsC128)();
}
}  // namespace tessera::cpu::columns
#endif
