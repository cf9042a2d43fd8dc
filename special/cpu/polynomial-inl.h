// Orthogonal polynomials by their recurrences over the order, which is a vector, too (NIST DLMF 18.9.1). Included
// inside foreach_target.h's passes, and by device code (tensor/cuda/one_lane).
#if defined(TESSERA_SPECIAL_CPU_POLYNOMIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_SPECIAL_CPU_POLYNOMIAL_INL_H_
#undef TESSERA_SPECIAL_CPU_POLYNOMIAL_INL_H_
#else
#define TESSERA_SPECIAL_CPU_POLYNOMIAL_INL_H_
#endif

#include <limits>

#include "hwy/highway.h"
#include "special/cpu/bessel-inl.h"
#include "special/cpu/large_orders.h"
#include "special/cpu/pieces-inl.h"
#include "tensor/cpu/math/series.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace special {

// Of one number.
struct ScalarJ0 {
  HWY_NOINLINE double operator()(double x) const {
    const hn::CappedTag<double, 1> d;
    return hn::GetLane(BesselJ<0>(d, hn::Set(d, x)));
  }
};
struct ScalarI0 {
  HWY_NOINLINE double operator()(double x) const { return scalar::i0(x); }
};

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
    const V other =
        math::PerLane(d, x, hn::IfThenElse(rest, order, hn::Set(d, kLimit)), [](double v, double m) HWY_ATTR {
          if constexpr (is_chebyshev(kFamily)) return chebyshev_of_order(kFamily, v, m);
          if constexpr (kFamily == Family::kL) return laguerre_of_order(v, m, ScalarJ0(), ScalarI0());
          if constexpr (kFamily == Family::kP) return legendre_of_order(v, m, ScalarJ0());
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
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

// X(constant, functor, inputs, what it computes, dtypes): see kernels-inl.h.
// clang-format off
#define TESSERA_POLYNOMIAL_OPS(X) \
  X(chebyshev_polynomial_t, ChebyshevT, 2, OfOrder<cpu::Family::kT>, SINGLE_AND_DOUBLE) \
  X(chebyshev_polynomial_u, ChebyshevU, 2, OfOrder<cpu::Family::kU>, SINGLE_AND_DOUBLE) \
  X(chebyshev_polynomial_v, ChebyshevV, 2, OfOrder<cpu::Family::kV>, SINGLE_AND_DOUBLE) \
  X(chebyshev_polynomial_w, ChebyshevW, 2, OfOrder<cpu::Family::kW>, SINGLE_AND_DOUBLE) \
  X(shifted_chebyshev_polynomial_t, ShiftedChebyshevT, 2, OfOrderShifted<cpu::Family::kT>, SINGLE_AND_DOUBLE) \
  X(shifted_chebyshev_polynomial_u, ShiftedChebyshevU, 2, OfOrderShifted<cpu::Family::kU>, SINGLE_AND_DOUBLE) \
  X(shifted_chebyshev_polynomial_v, ShiftedChebyshevV, 2, OfOrderShifted<cpu::Family::kV>, SINGLE_AND_DOUBLE) \
  X(shifted_chebyshev_polynomial_w, ShiftedChebyshevW, 2, OfOrderShifted<cpu::Family::kW>, SINGLE_AND_DOUBLE) \
  X(hermite_polynomial_h, HermiteH, 2, OfOrder<cpu::Family::kH>, SINGLE_AND_DOUBLE) \
  X(hermite_polynomial_he, HermiteHe, 2, OfOrder<cpu::Family::kHe>, SINGLE_AND_DOUBLE) \
  X(laguerre_polynomial_l, LaguerreL, 2, OfOrder<cpu::Family::kL>, SINGLE_AND_DOUBLE) \
  X(legendre_polynomial_p, LegendreP, 2, OfOrder<cpu::Family::kP>, SINGLE_AND_DOUBLE)
// clang-format on

#endif  // per-target include guard
