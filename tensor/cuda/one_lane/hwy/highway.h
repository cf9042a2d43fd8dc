// Highway's operations on vectors of one number, as device functions: mathematics that is written for vectors
// (tensor/cpu/math, special/cpu) is compiled for devices, too, by finding this file in place of Highway's. It has what
// that mathematics uses. Numbers are double; masks are bool.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tensor/cuda/support/types.h"

// Tables lie in device memory.
#define TESSERA_TABLE static __device__ constexpr

#define HWY_SSE4 1
#define HWY_AVX2 2
#define HWY_AVX3 3
#define HWY_TARGET 4  // none of those
#define HWY_NAMESPACE N_ONE_LANE
#define HWY_BEFORE_NAMESPACE() static_assert(true)
#define HWY_AFTER_NAMESPACE() static_assert(true)
#define HWY_INLINE __device__ inline
#define HWY_NOINLINE __device__ __attribute__((noinline))
#define HWY_ATTR
#define HWY_ALIGN
#define HWY_LIKELY(condition) (condition)
#define HWY_UNLIKELY(condition) (condition)

namespace hwy::HWY_NAMESPACE {

// The tag of a vector.
template <class T_>
struct OneLane {
  using T = T_;
};
template <class D>
using TFromD = typename D::T;
template <class D>
using Vec = typename D::T;
template <class N, class D>
using Rebind = OneLane<N>;
template <class D>
using Half = D;
template <class D>
using RebindToUnsigned = OneLane<std::conditional_t<sizeof(TFromD<D>) == 8, uint64_t, uint32_t>>;
template <class D>
using RebindToSigned = OneLane<std::conditional_t<sizeof(TFromD<D>) == 8, int64_t, int32_t>>;
template <class T, size_t kLanes>
using CappedTag = OneLane<T>;
template <class T>
using ScalableTag = OneLane<T>;

template <class D>
__device__ constexpr size_t MaxLanes(D) {
  return 1;
}
template <class D>
__device__ constexpr size_t Lanes(D) {
  return 1;
}

template <class D>
HWY_INLINE Vec<D> Set(D, TFromD<D> x) {
  return x;
}
template <class D>
HWY_INLINE Vec<D> Zero(D) {
  return 0;
}
template <class D>
HWY_INLINE Vec<D> Inf(D) {
  return std::numeric_limits<TFromD<D>>::infinity();
}
template <class D>
HWY_INLINE Vec<D> NaN(D) {
  return std::numeric_limits<TFromD<D>>::quiet_NaN();
}
template <class D, class V>
HWY_INLINE Vec<D> BitCast(D, V x) {
  static_assert(sizeof(x) == sizeof(TFromD<D>));
  Vec<D> y;
  memcpy(&y, &x, sizeof y);
  return y;
}
template <class V>
HWY_INLINE V GetLane(V x) {
  return x;
}
template <class D, class V>
HWY_INLINE V MinOfLanes(D, V x) {
  return x;
}
template <class D, class V>
HWY_INLINE V MaxOfLanes(D, V x) {
  return x;
}

// Sums and products are rounded as they are written: sums of two numbers depend on it.
template <class V>
HWY_INLINE V Add(V a, V b) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<V, double>) return __dadd_rn(a, b);
#endif
  return a + b;
}
template <class V>
HWY_INLINE V Sub(V a, V b) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<V, double>) return __dsub_rn(a, b);
#endif
  return a - b;
}
template <class V>
HWY_INLINE V Mul(V a, V b) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<V, double>) return __dmul_rn(a, b);
#endif
  return a * b;
}
template <class V>
HWY_INLINE V Div(V a, V b) {
  return a / b;
}
template <class V>
HWY_INLINE V Neg(V a) {
  return -a;
}
template <class V>
HWY_INLINE V Abs(V a) {
  return std::abs(a);
}
template <class V>
HWY_INLINE V Sqrt(V a) {
  return std::sqrt(a);
}
template <class V>
HWY_INLINE V MulAdd(V a, V b, V c) {
  return std::fma(a, b, c);
}
template <class V>
HWY_INLINE V MulSub(V a, V b, V c) {
  return std::fma(a, b, -c);
}
template <class V>
HWY_INLINE V NegMulAdd(V a, V b, V c) {
  return std::fma(-a, b, c);
}
template <class V>
HWY_INLINE V Floor(V a) {
  return std::floor(a);
}
template <class V>
HWY_INLINE V Trunc(V a) {
  return std::trunc(a);
}
template <class V>
HWY_INLINE V Round(V a) {
  return std::rint(a);
}
// The second operand where one is nan, as x86 instructions.
template <class V>
HWY_INLINE V Min(V a, V b) {
  return a < b ? a : b;
}
template <class V>
HWY_INLINE V Max(V a, V b) {
  return a > b ? a : b;
}

template <class V>
HWY_INLINE bool Lt(V a, V b) {
  return a < b;
}
template <class V>
HWY_INLINE bool Le(V a, V b) {
  return a <= b;
}
template <class V>
HWY_INLINE bool Gt(V a, V b) {
  return a > b;
}
template <class V>
HWY_INLINE bool Ge(V a, V b) {
  return a >= b;
}
template <class V>
HWY_INLINE bool Eq(V a, V b) {
  return a == b;
}
template <class V>
HWY_INLINE bool IsNaN(V a) {
  return a != a;
}
template <class V>
HWY_INLINE bool IsInf(V a) {
  return std::abs(a) == std::numeric_limits<V>::infinity();
}
template <class V>
HWY_INLINE bool TestBit(V a, V bit) {
  return (a & bit) != 0;
}
template <class D>
HWY_INLINE bool AllTrue(D, bool m) {
  return m;
}
template <class D>
HWY_INLINE bool AllFalse(D, bool m) {
  return !m;
}
template <class D>
HWY_INLINE bool RebindMask(D, bool m) {
  return m;
}
HWY_INLINE bool Not(bool m) { return !m; }
template <class V>
HWY_INLINE V IfThenElse(bool m, V yes, V no) {
  return m ? yes : no;
}
template <class V>
HWY_INLINE V IfThenElseZero(bool m, V yes) {
  return m ? yes : V(0);
}
template <class V>
HWY_INLINE V IfThenZeroElse(bool m, V no) {
  return m ? V(0) : no;
}

// Of masks, integers, and the bits of floating point numbers.
namespace internal {
template <class V, class F>
HWY_INLINE V on_bits(V a, V b, F f) {
  if constexpr (std::is_floating_point_v<V>) {
    const RebindToUnsigned<OneLane<V>> du;
    return BitCast(OneLane<V>(), f(BitCast(du, a), BitCast(du, b)));
  } else {
    return static_cast<V>(f(a, b));
  }
}
}  // namespace internal
template <class V>
HWY_INLINE V And(V a, V b) {
  return internal::on_bits(a, b, [](auto x, auto y) { return x & y; });
}
template <class V>
HWY_INLINE V Or(V a, V b) {
  return internal::on_bits(a, b, [](auto x, auto y) { return x | y; });
}
template <class V>
HWY_INLINE V Xor(V a, V b) {
  return internal::on_bits(a, b, [](auto x, auto y) { return x ^ y; });
}
template <class V>
HWY_INLINE V AndNot(V a, V b) {  // not a, and b
  if constexpr (std::is_same_v<V, bool>)
    return !a && b;
  else
    return internal::on_bits(a, b, [](auto x, auto y) { return ~x & y; });
}
template <class D>
HWY_INLINE Vec<D> SignBit(D) {
  return Vec<D>(-0.0);
}
template <class V>
HWY_INLINE V CopySign(V a, V sign) {
  return std::copysign(a, sign);
}
template <int kBits, class V>
HWY_INLINE V ShiftLeft(V a) {
  return a << kBits;
}
template <int kBits, class V>
HWY_INLINE V ShiftRight(V a) {
  return a >> kBits;
}

template <class D, class V>
HWY_INLINE void Store(V x, D, V* to) {
  *to = x;
}
template <class D>
HWY_INLINE Vec<D> Load(D, const TFromD<D>* from) {
  return *from;
}
template <class D>
HWY_INLINE void StoreMaskBits(D, bool m, uint8_t* to) {
  *to = m;
}
template <class D, class I>
HWY_INLINE Vec<D> GatherIndex(D, const TFromD<D>* from, I index) {
  return from[index];
}

// Between float and double, in halves that are the whole.
template <class D, class V>
HWY_INLINE Vec<D> PromoteTo(D, V x) {
  return x;
}
template <class D, class V>
HWY_INLINE Vec<D> DemoteTo(D, V x) {
  return static_cast<Vec<D>>(x);
}
template <class D, class V>
HWY_INLINE V LowerHalf(D, V x) {
  return x;
}
template <class D, class V>
HWY_INLINE V UpperHalf(D, V x) {
  return x;
}
template <class D, class V>
HWY_INLINE V Combine(D, V, V low) {
  return low;
}

}  // namespace hwy::HWY_NAMESPACE
