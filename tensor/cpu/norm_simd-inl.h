// Loops over runs of floating elements for the normalisations, for one SIMD target (included inside foreach_target). All arithmetic is in float64:
// sums keep their accuracy, and results are rounded once.
#if defined(TENSOR_CPU_NORM_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_NORM_SIMD_INL_H_
#undef TENSOR_CPU_NORM_SIMD_INL_H_
#else
#define TENSOR_CPU_NORM_SIMD_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;
constexpr D d;
constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(double);
using DF = hn::Rebind<float, D>;
constexpr DF df;

template <class T>
HWY_INLINE double to_double(T x) {
  return static_cast<double>(static_cast<Acc<T>>(x));
}
template <class T>
HWY_INLINE T from_double(double x) {
  return static_cast<T>(static_cast<Acc<T>>(x));
}

HWY_INLINE V LoadD(const double* p) { return hn::LoadU(d, p); }
HWY_INLINE V LoadD(const float* p) { return hn::PromoteTo(d, hn::LoadU(df, p)); }
HWY_INLINE V LoadD(const BFloat16* p) {
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<uint16_t, D> dh;
  return hn::PromoteTo(d, hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(di, hn::LoadU(dh, reinterpret_cast<const uint16_t*>(p))))));
}
HWY_INLINE V LoadD(const Half* p) {
  HWY_ALIGN float tmp[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) tmp[i] = p[i];
  return hn::PromoteTo(d, hn::Load(df, tmp));
}
HWY_INLINE void StoreD(V v, double* p) { hn::StoreU(v, d, p); }
HWY_INLINE void StoreD(V v, float* p) { hn::StoreU(hn::DemoteTo(df, v), df, p); }
template <class T>
HWY_INLINE void StoreD(V v, T* p) {
  HWY_ALIGN float tmp[kLanes];
  hn::Store(hn::DemoteTo(df, v), df, tmp);
  for (int64_t i = 0; i < kLanes; ++i) p[i] = static_cast<T>(tmp[i]);
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

// y = (x - mean) scale + shift
template <class T>
void run_affine(const T* x, int64_t n, double mean, double scale, double shift, T* y) {
  const V m = hn::Set(d, mean), a = hn::Set(d, scale), b = hn::Set(d, shift);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StoreD(hn::MulAdd(hn::Sub(LoadD(x + i), m), a, b), y + i);
  for (; i < n; ++i) y[i] = from_double<T>((to_double(x[i]) - mean) * scale + shift);
}

// dx = dy a + (x - mean) b + c: the gradient of every normalisation, for one mean and weight.
template <class T>
void run_gradient(const T* dy, const T* x, int64_t n, double mean, double a, double b, double c, T* dx) {
  const V vm = hn::Set(d, mean), va = hn::Set(d, a), vb = hn::Set(d, b), vc = hn::Set(d, c);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StoreD(hn::MulAdd(LoadD(dy + i), va, hn::MulAdd(hn::Sub(LoadD(x + i), vm), vb, vc)), dx + i);
  for (; i < n; ++i) dx[i] = from_double<T>(to_double(dy[i]) * a + ((to_double(x[i]) - mean) * b + c));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
