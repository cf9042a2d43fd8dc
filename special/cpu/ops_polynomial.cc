// Orthogonal polynomials by their recurrences over the order, which is a vector, too (NIST DLMF 18.9.1).
#include <cmath>
#include <limits>
#include <numbers>

#include "special/cpu/ops.h"
#include "tensor/cpu/math/math_scalar.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "special/cpu/ops_polynomial.cc"
#include "hwy/foreach_target.h"
#include "special/cpu/pieces-inl.h"

// clang-format off
#define TESSERA_OPS(X) \
  X(ChebyshevT, 2, 0) X(ChebyshevU, 2, 0) X(ChebyshevV, 2, 0) X(ChebyshevW, 2, 0) X(ShiftedChebyshevT, 2, 0) \
  X(ShiftedChebyshevU, 2, 0) X(ShiftedChebyshevV, 2, 0) X(ShiftedChebyshevW, 2, 0) X(HermiteH, 2, 0) \
  X(HermiteHe, 2, 0) X(LaguerreL, 2, 0) X(LegendreP, 2, 0)
// clang-format on

#ifndef TESSERA_SPECIAL_POLYNOMIALS_
#define TESSERA_SPECIAL_POLYNOMIALS_
namespace tessera::cpu {
enum class Family { kT, kU, kV, kW, kH, kHe, kL, kP };
constexpr bool is_chebyshev(Family f) { return f <= Family::kW; }

// Orders above these take a closed or an asymptotic form instead of the recurrence, whose time grows with the order.
// Hermite polynomials of such orders are beyond the range of double.
constexpr double kLongRecurrence = 65536, kLongChebyshev = 64;

double chebyshev_of_order(Family family, double x, double n);
double laguerre_of_order(double x, double n);
double legendre_of_order(double x, double n);
}  // namespace tessera::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace special {

// The polynomials of orders 1 and k + 1, from those of k - 1 and k.
template <Family kFamily, class D, class V>
HWY_INLINE V FirstOrder(D d, V x, V two_x) {
  const V one = hn::Set(d, 1.0);
  if constexpr (kFamily == Family::kT || kFamily == Family::kHe || kFamily == Family::kP) return x;
  if constexpr (kFamily == Family::kU || kFamily == Family::kH) return two_x;
  if constexpr (kFamily == Family::kV) return hn::Sub(two_x, one);
  if constexpr (kFamily == Family::kW) return hn::Add(two_x, one);
  if constexpr (kFamily == Family::kL) return hn::Sub(one, x);
}
template <Family kFamily, class D, class V>
HWY_INLINE V NextOrder(D d, int k, V x, V two_x, V before, V now) {
  const double n = k;
  if constexpr (is_chebyshev(kFamily)) return hn::MulSub(two_x, now, before);
  if constexpr (kFamily == Family::kH) return hn::MulSub(two_x, now, hn::Mul(hn::Set(d, 2 * n), before));
  if constexpr (kFamily == Family::kHe) return hn::MulSub(x, now, hn::Mul(hn::Set(d, n), before));
  const V inverse = hn::Set(d, 1 / (n + 1)), old = hn::Mul(hn::Set(d, n), before);
  if constexpr (kFamily == Family::kL)
    return hn::Mul(hn::MulSub(hn::Sub(hn::Set(d, 2 * n + 1), x), now, old), inverse);
  else
    return hn::Mul(hn::MulSub(hn::Mul(hn::Set(d, 2 * n + 1), x), now, old), inverse);
}

// Lanes beyond `limit` are left undefined.
template <Family kFamily, class D, class V>
HWY_INLINE V ByRecurrence(D d, V x, V order, double limit) {
  const V one = hn::Set(d, 1.0), two_x = hn::Add(x, x);
  V before = one, now = FirstOrder<kFamily>(d, x, two_x);
  const V wanted = hn::IfThenElseZero(hn::Le(order, hn::Set(d, limit)), order);
  const int last = static_cast<int>(hn::GetLane(hn::MaxOfLanes(d, wanted))),
            always = static_cast<int>(hn::GetLane(hn::MinOfLanes(d, wanted)));
  int k = 1;
  for (; k < always; ++k) {
    const V next = NextOrder<kFamily>(d, k, x, two_x, before, now);
    before = now, now = next;
    if (k % 256 == 0 && hn::AllTrue(d, hn::IsNaN(now))) return now;
  }
  for (; k < last; ++k) {
    const auto more = hn::Gt(wanted, hn::Set(d, static_cast<double>(k)));
    const V next = NextOrder<kFamily>(d, k, x, two_x, before, now);
    before = now, now = hn::IfThenElse(more, next, now);
    if (k % 256 == 0 && hn::AllTrue(d, hn::Or(hn::Not(more), hn::IsNaN(now)))) break;
  }
  return hn::IfThenElse(hn::Eq(wanted, hn::Zero(d)), one, now);
}

template <Family kFamily, class D, class V>
HWY_NOINLINE V OfOrder(D d, V x, V n) {
  const V order = hn::Trunc(n), zero = hn::Zero(d);
  constexpr double kLimit = is_chebyshev(kFamily) ? kLongChebyshev : kLongRecurrence;
  const auto valid = hn::And(hn::Ge(order, zero), hn::Lt(order, hn::Set(d, 9223372036854775808.0)));
  V r = ByRecurrence<kFamily>(d, x, hn::IfThenElseZero(valid, order), kLimit);
  const auto rest = hn::And(valid, hn::Gt(order, hn::Set(d, kLimit)));
  if (HWY_UNLIKELY(!hn::AllFalse(d, rest))) {
    const V other = math::PerLane(d, x, hn::IfThenElse(rest, order, hn::Set(d, kLimit)), [](double v, double m) {
      if constexpr (is_chebyshev(kFamily)) return chebyshev_of_order(kFamily, v, m);
      if constexpr (kFamily == Family::kL) return laguerre_of_order(v, m);
      if constexpr (kFamily == Family::kP) return legendre_of_order(v, m);
      return std::numeric_limits<double>::quiet_NaN();
    });
    r = hn::IfThenElse(rest, other, r);
  }
  return hn::IfThenElseZero(valid, r);
}
template <Family kFamily, class D, class V>
HWY_INLINE V OfOrderShifted(D d, V x, V n) {
  return OfOrder<kFamily>(d, hn::MulSub(hn::Set(d, 2.0), x, hn::Set(d, 1.0)), n);
}

}  // namespace special

TESSERA_CORE(ChebyshevT, OfOrder<Family::kT>)
TESSERA_CORE(ChebyshevU, OfOrder<Family::kU>)
TESSERA_CORE(ChebyshevV, OfOrder<Family::kV>)
TESSERA_CORE(ChebyshevW, OfOrder<Family::kW>)
TESSERA_CORE(ShiftedChebyshevT, OfOrderShifted<Family::kT>)
TESSERA_CORE(ShiftedChebyshevU, OfOrderShifted<Family::kU>)
TESSERA_CORE(ShiftedChebyshevV, OfOrderShifted<Family::kV>)
TESSERA_CORE(ShiftedChebyshevW, OfOrderShifted<Family::kW>)
TESSERA_CORE(HermiteH, OfOrder<Family::kH>)
TESSERA_CORE(HermiteHe, OfOrder<Family::kHe>)
TESSERA_CORE(LaguerreL, OfOrder<Family::kL>)
TESSERA_CORE(LegendreP, OfOrder<Family::kP>)

TESSERA_OPS(TESSERA_DEFINE_KERNELS)

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace cpu {
TESSERA_OPS(TESSERA_CHOOSE)

// By angles (NIST DLMF 18.5.1 to 18.5.4); outside of [-1, 1] these are imaginary, and below -1 there is the symmetry of
// 18.6.1 (that of V and W exchanges them).
double chebyshev_of_order(Family family, double x, double n) {
  if (x != x) return x;
  const bool outside = std::fabs(x) > 1, odd = std::fmod(n, 2) != 0;
  double sign = 1;
  if (x < 0) {
    sign = odd ? -1 : 1;
    x = -x;
    if (family == Family::kV || family == Family::kW) family = family == Family::kV ? Family::kW : Family::kV;
  }
  const double angle = outside ? std::acosh(x) : std::acos(x);
  const auto sine = [&](double v) { return outside ? std::sinh(v) : std::sin(v); };
  const auto cosine = [&](double v) { return outside ? std::cosh(v) : std::cos(v); };
  if (x == 1) return sign * (family == Family::kU ? n + 1 : family == Family::kW ? 2 * n + 1 : 1);
  switch (family) {
    case Family::kT:
      return sign * cosine(n * angle);
    case Family::kU:
      return sign * (sine((n + 1) * angle) / sine(angle));
    case Family::kV:
      return sign * (cosine((n + 0.5) * angle) / cosine(angle / 2));
    default:
      return sign * (sine((n + 0.5) * angle) / sine(angle / 2));
  }
}

// The leading term of the uniform expansion in Bessel functions, DLMF 18.15.19 in its simplest form.
double laguerre_of_order(double x, double n) {
  if (x != x || x > 1400) return std::numeric_limits<double>::quiet_NaN();  // where the recurrence overflows
  const double argument = std::sqrt((4 * n + 2) * std::fabs(x));
  if (x >= 0) return std::exp(x / 2) * bessel_j0(argument);
  return argument > 700 ? std::numeric_limits<double>::infinity() : std::exp(x / 2) * scalar::i0(argument);
}

// Hilb's formula with its error of n^(-3/2) (G. Szego, Orthogonal Polynomials, 8.21).
double legendre_of_order(double x, double n) {
  const double a = std::fabs(x), sign = x < 0 && std::fmod(n, 2) != 0 ? -1 : 1;
  if (!(a <= 1)) return a > 1 ? sign * std::numeric_limits<double>::infinity() : x;
  if (a == 1) return sign;
  const double angle = std::acos(a);
  return sign * std::sqrt(angle / std::sin(angle)) * bessel_j0((n + 0.5) * angle);
}
}  // namespace cpu

namespace pw {
using namespace cpu;

constinit const PointwiseOp chebyshev_polynomial_t = OpBuilder<2>("chebyshev_polynomial_t_cpu")
                                                         .with(DType::kFloat32, ChebyshevTF32)
                                                         .with(DType::kFloat64, ChebyshevTF64)
                                                         .int_to_float();
constinit const PointwiseOp chebyshev_polynomial_u = OpBuilder<2>("chebyshev_polynomial_u_cpu")
                                                         .with(DType::kFloat32, ChebyshevUF32)
                                                         .with(DType::kFloat64, ChebyshevUF64)
                                                         .int_to_float();
constinit const PointwiseOp chebyshev_polynomial_v = OpBuilder<2>("chebyshev_polynomial_v_cpu")
                                                         .with(DType::kFloat32, ChebyshevVF32)
                                                         .with(DType::kFloat64, ChebyshevVF64)
                                                         .int_to_float();
constinit const PointwiseOp chebyshev_polynomial_w = OpBuilder<2>("chebyshev_polynomial_w_cpu")
                                                         .with(DType::kFloat32, ChebyshevWF32)
                                                         .with(DType::kFloat64, ChebyshevWF64)
                                                         .int_to_float();
constinit const PointwiseOp shifted_chebyshev_polynomial_t = OpBuilder<2>("shifted_chebyshev_polynomial_t_cpu")
                                                                 .with(DType::kFloat32, ShiftedChebyshevTF32)
                                                                 .with(DType::kFloat64, ShiftedChebyshevTF64)
                                                                 .int_to_float();
constinit const PointwiseOp shifted_chebyshev_polynomial_u = OpBuilder<2>("shifted_chebyshev_polynomial_u_cpu")
                                                                 .with(DType::kFloat32, ShiftedChebyshevUF32)
                                                                 .with(DType::kFloat64, ShiftedChebyshevUF64)
                                                                 .int_to_float();
constinit const PointwiseOp shifted_chebyshev_polynomial_v = OpBuilder<2>("shifted_chebyshev_polynomial_v_cpu")
                                                                 .with(DType::kFloat32, ShiftedChebyshevVF32)
                                                                 .with(DType::kFloat64, ShiftedChebyshevVF64)
                                                                 .int_to_float();
constinit const PointwiseOp shifted_chebyshev_polynomial_w = OpBuilder<2>("shifted_chebyshev_polynomial_w_cpu")
                                                                 .with(DType::kFloat32, ShiftedChebyshevWF32)
                                                                 .with(DType::kFloat64, ShiftedChebyshevWF64)
                                                                 .int_to_float();
constinit const PointwiseOp hermite_polynomial_h = OpBuilder<2>("hermite_polynomial_h_cpu")
                                                       .with(DType::kFloat32, HermiteHF32)
                                                       .with(DType::kFloat64, HermiteHF64)
                                                       .int_to_float();
constinit const PointwiseOp hermite_polynomial_he = OpBuilder<2>("hermite_polynomial_he_cpu")
                                                        .with(DType::kFloat32, HermiteHeF32)
                                                        .with(DType::kFloat64, HermiteHeF64)
                                                        .int_to_float();
constinit const PointwiseOp laguerre_polynomial_l = OpBuilder<2>("laguerre_polynomial_l_cpu")
                                                        .with(DType::kFloat32, LaguerreLF32)
                                                        .with(DType::kFloat64, LaguerreLF64)
                                                        .int_to_float();
constinit const PointwiseOp legendre_polynomial_p = OpBuilder<2>("legendre_polynomial_p_cpu")
                                                        .with(DType::kFloat32, LegendrePF32)
                                                        .with(DType::kFloat64, LegendrePF64)
                                                        .int_to_float();

}  // namespace pw
}  // namespace tessera
#endif
