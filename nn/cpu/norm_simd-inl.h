// Loops over runs of floating elements for the normalisations, for one SIMD target (included inside foreach_target).
// Sums are taken in float64, so that they keep their accuracy. Results are computed in float64 for float64 and in
// float32 for the others, from statistics rounded once.
#if defined(TENSOR_CPU_NORM_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_NORM_SIMD_INL_H_
#undef TENSOR_CPU_NORM_SIMD_INL_H_
#else
#define TENSOR_CPU_NORM_SIMD_INL_H_
#endif

#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "tensor/cpu/support/request.h"
#include "tensor/cpu/support/simd_move.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
constexpr D d;
constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(double);

template <class T>
HWY_INLINE double to_double(T x) {
  return static_cast<double>(static_cast<Acc<T>>(x));
}
template <class T>
HWY_INLINE T from_double(double x) {
  return static_cast<T>(static_cast<Acc<T>>(x));
}

// Elements of T as vectors of the tag's type, float or double, and back.
template <class DTo>
HWY_INLINE hn::Vec<DTo> LoadAs(DTo to, const double* p) {
  return hn::LoadU(to, p);
}
template <class DTo>
HWY_INLINE hn::Vec<DTo> LoadAs(DTo to, const float* p) {
  if constexpr (sizeof(hn::TFromD<DTo>) == 4)
    return hn::LoadU(to, p);
  else
    return hn::PromoteTo(to, hn::LoadU(hn::Rebind<float, DTo>(), p));
}
template <class DTo>
HWY_INLINE hn::Vec<DTo> LoadAs(DTo to, const BFloat16* p) {
  if constexpr (sizeof(hn::TFromD<DTo>) == 8) {
    return hn::PromoteTo(to, LoadAs(hn::Rebind<float, DTo>(), p));
  } else {
    const hn::Rebind<uint16_t, DTo> dh;
    return hn::BitCast(to, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<DTo>(),
                                                           hn::LoadU(dh, reinterpret_cast<const uint16_t*>(p)))));
  }
}
template <class DTo>
HWY_INLINE hn::Vec<DTo> LoadAs(DTo to, const Half* p) {
  if constexpr (sizeof(hn::TFromD<DTo>) == 8) {
    return hn::PromoteTo(to, LoadAs(hn::Rebind<float, DTo>(), p));
  } else {
#if HWY_TARGET == HWY_SSE4  // Highway's emulation is slower than the scalar code
    HWY_ALIGN float tmp[hn::MaxLanes(to)];
    for (size_t i = 0; i < hn::MaxLanes(to); ++i) tmp[i] = p[i];
    return hn::Load(to, tmp);
#else
    const hn::Rebind<hwy::float16_t, DTo> dh;
    return hn::PromoteTo(to,
                         hn::BitCast(dh, hn::LoadU(hn::Rebind<uint16_t, DTo>(), reinterpret_cast<const uint16_t*>(p))));
#endif
  }
}
template <class T>
HWY_INLINE V LoadD(const T* p) {
  return LoadAs(d, p);
}

// What results are computed in.
template <class T>
using Arithmetic = std::conditional_t<std::is_same_v<T, double>, double, float>;
template <class T>
using DW = hn::ScalableTag<Arithmetic<T>>;
template <class T>
using VW = hn::Vec<DW<T>>;
template <class T>
constexpr int64_t kWide = HWY_LANES(Arithmetic<T>);

HWY_INLINE void StoreAs(VW<double> v, double* p) { hn::StoreU(v, d, p); }
HWY_INLINE void StoreAs(VW<float> v, float* p) { hn::StoreU(v, DW<float>(), p); }
HWY_INLINE void StoreAs(VW<float> v, BFloat16* p) {
  // To the nearest; a NaN keeps its upper bits and becomes quiet.
  const hn::RebindToUnsigned<DW<float>> du;
  const auto x = hn::BitCast(du, v), odd = hn::And(hn::ShiftRight<16>(x), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(x, hn::Set(du, 0x7fff)), odd);
  const auto bits =
      hn::ShiftRight<16>(hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), hn::Or(x, hn::Set(du, 0x400000)), rounded));
  const hn::Rebind<uint16_t, DW<float>> dh;
  hn::StoreU(hn::DemoteTo(dh, hn::BitCast(hn::RebindToSigned<DW<float>>(), bits)), dh, reinterpret_cast<uint16_t*>(p));
}
HWY_INLINE void StoreAs(VW<float> v, Half* p) {
  const DW<float> df32;
#if HWY_TARGET == HWY_SSE4
  HWY_ALIGN float tmp[kWide<float>];
  hn::Store(v, df32, tmp);
  for (int64_t i = 0; i < kWide<float>; ++i) p[i] = tmp[i];
#else
  v = hn::IfThenElse(hn::IsNaN(v), hn::CopySign(hn::NaN(df32), v), v);  // one NaN per sign
  const hn::Rebind<hwy::float16_t, DW<float>> dh;
  const hn::Rebind<uint16_t, DW<float>> du;
  hn::StoreU(hn::BitCast(du, hn::DemoteTo(dh, v)), du, reinterpret_cast<uint16_t*>(p));
#endif
}

// Elements from `at` on: a vector of them, or the first `count`.
template <class T>
struct WholeOf {
  int64_t at;
  template <class U>
  HWY_INLINE VW<T> operator()(const U* p) const {
    return LoadAs(DW<T>(), p + at);
  }
};
template <class T>
struct FirstOf {
  int64_t at, count;
  template <class U>
  HWY_INLINE VW<T> operator()(const U* p) const {
#if HWY_TARGET != HWY_SSE4
    if constexpr (std::is_same_v<U, Arithmetic<T>>)
      return hn::MaskedLoad(hn::FirstN(DW<T>(), static_cast<size_t>(count)), DW<T>(), p + at);
#endif
    HWY_ALIGN U buffer[kWide<T>] = {};
    std::memcpy(static_cast<void*>(buffer), p + at, static_cast<size_t>(count) * sizeof(U));
    return LoadAs(DW<T>(), buffer);
  }
};

// Whether so many results go past the caches.
template <class T>
bool run_streams(int64_t count) {
  return sizeof(T) >= 4 && 2 * count * static_cast<int64_t>(sizeof(T)) >= kStreamBytes;
}

// y[0..n) = f(load), where load(p) gives the elements of p at the same place. `stream`: float and double go past the
// caches, with a fence to follow.
template <class T, class F>
HWY_INLINE void fill_run(T* y, int64_t n, bool stream, F&& f) {
  constexpr bool kMayStream = sizeof(T) >= 4;
  const auto part = [&](int64_t at, int64_t count) HWY_ATTR {
    const auto v = f(FirstOf<T>{at, count});
#if HWY_TARGET != HWY_SSE4
    if constexpr (std::is_same_v<T, Arithmetic<T>>)
      return hn::BlendedStore(v, hn::FirstN(DW<T>(), static_cast<size_t>(count)), DW<T>(), y + at);
#endif
    HWY_ALIGN T buffer[kWide<T>];
    StoreAs(v, buffer);
    std::memcpy(static_cast<void*>(y + at), buffer, static_cast<size_t>(count) * sizeof(T));
  };
  int64_t i =
      kMayStream && stream ? static_cast<int64_t>(-reinterpret_cast<uintptr_t>(y) / sizeof(T) & (kWide<T> - 1)) : 0;
  for (int64_t at = 0, count = HWY_MIN(i, n);
       ;) {  // what lies before the first vector, then what is left after the last
    if (count > 0) part(at, count);
    if (at + count >= n) return;
    for (; i + kWide<T> <= n; i += kWide<T>) {
      const auto v = f(WholeOf<T>{i});
      if constexpr (kMayStream) {
        if (stream) {
          hn::Stream(v, DW<T>(), y + i);
          continue;
        }
      }
      StoreAs(v, y + i);
    }
    at = i;
    count = n - i;
  }
}

HWY_INLINE double total(V v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

template <class T>
double run_sum(const T* x, int64_t n) {
  V a = hn::Zero(d), b = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    a = hn::Add(a, LoadD(x + i));
    b = hn::Add(b, LoadD(x + i + kLanes));
  }
  double sum = total(hn::Add(a, b));
  for (; i < n; ++i) sum += to_double(x[i]);
  return sum;
}

// sum (x - mean)^2
template <class T>
double run_squares(const T* x, int64_t n, double mean) {
  const V m = hn::Set(d, mean);
  V a = hn::Zero(d), b = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const V u = hn::Sub(LoadD(x + i), m), v = hn::Sub(LoadD(x + i + kLanes), m);
    a = hn::MulAdd(u, u, a);
    b = hn::MulAdd(v, v, b);
  }
  double sum = total(hn::Add(a, b));
  for (; i < n; ++i) sum += (to_double(x[i]) - mean) * (to_double(x[i]) - mean);
  return sum;
}

// sum dy and sum dy (x - mean)
struct Moments {
  double grad, product;
};
template <class T>
Moments run_moments(const T* dy, const T* x, int64_t n, double mean) {
  const V m = hn::Set(d, mean);
  V a = hn::Zero(d), b = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    request_ahead(dy + i, kRequestFarAhead);
    request_ahead(x + i, kRequestFarAhead);
    const V g = LoadD(dy + i);
    a = hn::Add(a, g);
    b = hn::MulAdd(g, hn::Sub(LoadD(x + i), m), b);
  }
  Moments s{total(a), total(b)};
  for (; i < n; ++i) {
    s.grad += to_double(dy[i]);
    s.product += to_double(dy[i]) * (to_double(x[i]) - mean);
  }
  return s;
}

// Mean and sum of squared deviations of a run.
struct Spread {
  double mean, squares;
};
// Whether a mean was so far from where deviations were measured, for its spread, that digits were lost. False for NaN
// too.
inline bool spread_holds(double shifted_sum, double shift, double squares) {
  return shifted_sum * shift <= 65536 * squares;
}

// In one pass, by deviations from the first element, where the elements have fewer digits than the sums.
template <class T>
Spread run_spread(const T* x, int64_t n) {
  if (sizeof(T) < 8 && n > 0) {
    const double first = to_double(x[0]);
    const V f = hn::Set(d, first);
    V s0 = hn::Zero(d), s1 = s0, q0 = s0, q1 = s0;
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      request_ahead(x + i, kRequestFarAhead);
      const V u = hn::Sub(LoadD(x + i), f), v = hn::Sub(LoadD(x + i + kLanes), f);
      s0 = hn::Add(s0, u);
      s1 = hn::Add(s1, v);
      q0 = hn::MulAdd(u, u, q0);
      q1 = hn::MulAdd(v, v, q1);
    }
    if (i + kLanes <= n) {
      const V u = hn::Sub(LoadD(x + i), f);
      s0 = hn::Add(s0, u);
      q0 = hn::MulAdd(u, u, q0);
      i += kLanes;
    }
    double sum = total(hn::Add(s0, s1)), squares = total(hn::Add(q0, q1));
    for (; i < n; ++i) {
      const double u = to_double(x[i]) - first;
      sum += u;
      squares += u * u;
    }
    const double shift = sum / static_cast<double>(n), rest = squares - sum * shift;
    if (spread_holds(sum, shift, rest)) return {first + shift, rest > 0 ? rest : 0};
  }
  const double mean = run_sum(x, n) / static_cast<double>(n);
  return {mean, run_squares(x, n, mean)};
}

// y = (x - mean) scale + shift
template <class T>
void run_affine(const T* x, int64_t n, double mean, double scale, double shift, T* y, bool stream) {
  using A = Arithmetic<T>;
  const DW<T> dw;
  const auto m = hn::Set(dw, static_cast<A>(mean)), a = hn::Set(dw, static_cast<A>(scale)),
             b = hn::Set(dw, static_cast<A>(shift));
  fill_run(y, n, stream, [&](auto load) HWY_ATTR { return hn::MulAdd(hn::Sub(load(x), m), a, b); });
}

// dx = dy a + (x - mean) b + c: the gradient of every normalisation, for one mean and weight.
template <class T>
void run_gradient(const T* dy, const T* x, int64_t n, double mean, double a, double b, double c, T* dx) {
  using A = Arithmetic<T>;
  const DW<T> dw;
  const auto vm = hn::Set(dw, static_cast<A>(mean)), va = hn::Set(dw, static_cast<A>(a)),
             vb = hn::Set(dw, static_cast<A>(b)), vc = hn::Set(dw, static_cast<A>(c));
  fill_run(dx, n, false,
           [&](auto load) HWY_ATTR { return hn::MulAdd(load(dy), va, hn::MulAdd(hn::Sub(load(x), vm), vb, vc)); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
