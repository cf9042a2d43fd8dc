// Distributions on the whole line, by location and scale, and their halves. Included inside foreach_target.h's passes,
// as all files of formulas; kernels-inl.h says what a formula is.
#if defined(TESSERA_DISTRIBUTIONS_CPU_LOCATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_DISTRIBUTIONS_CPU_LOCATION_INL_H_
#undef TESSERA_DISTRIBUTIONS_CPU_LOCATION_INL_H_
#else
#define TESSERA_DISTRIBUTIONS_CPU_LOCATION_INL_H_
#endif

#include "distributions/cpu/parts-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace distributions {

// z = (x - loc) / scale; log_scale where a density needs it.
template <class D, bool kLog = false>
struct LocationScale {
  using V = hn::Vec<D>;
  V loc, scale, log_scale;
  HWY_INLINE void Set(D d, V location, V width) {
    loc = location, scale = width;
    if constexpr (kLog) log_scale = LogOf(d, width);
  }
  HWY_INLINE V Standard(V x) const { return hn::Div(hn::Sub(x, loc), scale); }
  HWY_INLINE V Placed(V z) const { return hn::MulAdd(z, scale, loc); }
};
template <class D>
struct LogDensity : LocationScale<D, true> {};
// Half of a distribution that is symmetric about 0.
template <class D>
struct HalfLogDensity : LogDensity<D> {
  HWY_INLINE void Set(D d, hn::Vec<D> scale) { LogDensity<D>::Set(d, hn::Zero(d), scale); }
};

template <class D>
struct NormalLogProb : LogDensity<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const {
    const V z = this->Standard(x), shift = hn::Add(this->log_scale, Number(d, kHalfLogTwoPi));
    return hn::NegMulAdd(hn::Mul(z, z), Number(d, 0.5), hn::Neg(shift));
  }
};
template <class D>
struct LogNormalLogProb : NormalLogProb<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const {
    const V y = LogOf(d, x), r = hn::Sub(NormalLogProb<D>::operator()(d, y), y);
    return Outside(d, hn::Or(hn::Le(x, hn::Zero(d)), hn::Eq(x, hn::Inf(d))), r);
  }
};
template <class D>
struct HalfNormalLogProb : HalfLogDensity<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const {
    const V z = hn::Div(x, this->scale), shift = hn::Add(this->log_scale, Number(d, kHalfLogTwoPi - kLogTwo));
    return Outside(d, hn::Lt(x, hn::Zero(d)), hn::NegMulAdd(hn::Mul(z, z), Number(d, 0.5), hn::Neg(shift)));
  }
};
template <class D>
struct LaplaceLogProb : LogDensity<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Neg(hn::Add(hn::Abs(this->Standard(x)), hn::Add(this->log_scale, Number(d, kLogTwo))));
  }
};
template <class D>
struct CauchyLogProb : LogDensity<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Neg(hn::Add(LogOnePlusSquare(d, this->Standard(x)), hn::Add(this->log_scale, Number(d, kLogPi))));
  }
};
template <class D>
struct HalfCauchyLogProb : HalfLogDensity<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const {
    const V shift = hn::Add(this->log_scale, Number(d, kLogPi - kLogTwo));
    const V r = hn::Neg(hn::Add(LogOnePlusSquare(d, hn::Div(x, this->scale)), shift));
    return Outside(d, hn::Lt(x, hn::Zero(d)), r);
  }
};
template <class D>
struct GumbelLogProb : LogDensity<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const {
    const V z = this->Standard(x), r = hn::Neg(hn::Add(hn::Add(z, ExpOf(d, hn::Neg(z))), this->log_scale));
    return Outside(d, hn::Eq(z, MinusInf(d)), r);
  }
};
template <class D>
struct UniformLogProb {
  using V = hn::Vec<D>;
  V low, high, r;
  HWY_INLINE void Set(D d, V from, V to) { low = from, high = to, r = hn::Neg(LogOf(d, hn::Sub(to, from))); }
  HWY_INLINE V operator()(D d, V x) const {
    const V known = hn::IfThenElse(hn::Eq(x, x), r, x);
    return hn::IfThenElse(hn::Eq(r, r), Outside(d, hn::Or(hn::Lt(x, low), hn::Ge(x, high)), known), r);
  }
};

// The constant is that of B(1/2, df / 2), which does not cancel; from 1e30 on the numbers are normal.
template <class D>
struct StudentTLogProb {
  using V = hn::Vec<D>;
  LocationScale<D> place;
  V half, inverse_root, shift;  // (df + 1) / 2, 1 / sqrt(df)
  HWY_INLINE void Set(D d, V df, V loc, V scale) {
    place.Set(d, loc, scale);
    df = hn::IfThenElse(hn::Gt(df, hn::Set(d, 1e30)), hn::Set(d, 1e30), df);
    const V h = hn::Set(d, 0.5), half_df = hn::Mul(df, h);
    half = hn::Add(half_df, h);
    inverse_root = hn::Div(hn::Set(d, 1.0), hn::Sqrt(df));
    shift = hn::Add(hn::Add(LogOf(d, scale), LogBeta(d, h, half_df)), hn::Mul(h, LogOf(d, df)));
  }
  HWY_INLINE V operator()(D d, V x) const {
    const V log = LogOnePlusSquare(d, hn::Mul(place.Standard(x), inverse_root));
    return hn::Neg(hn::MulAdd(half, log, shift));
  }
};
template <class D>
struct VonMisesLogProb {
  using V = hn::Vec<D>;
  V loc, concentration, shift;
  HWY_INLINE void Set(D d, V location, V kappa) {
    loc = location, concentration = kappa;
    shift = hn::Add(LogOf(d, ScaledBesselI0(d, kappa)), hn::Set(d, 2 * kHalfLogTwoPi));
  }
  // cos t - 1 = -2 sin(t / 2)^2.
  HWY_INLINE V operator()(D d, V x) const {
    const V sine = math::SinShifted<0>(d, hn::Mul(hn::Sub(x, loc), hn::Set(d, 0.5)));
    return hn::Sub(hn::Mul(hn::Mul(concentration, hn::Set(d, -2.0)), hn::Mul(sine, sine)), shift);
  }
};

// --- distribution functions, and their inverses, which are nan outside of [0, 1]

template <class D>
struct NormalCdf : LocationScale<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const {
    const V z = hn::Mul(this->Standard(x), hn::Set(d, -0.70710678118654757));
    V r;
    if constexpr (kForFloat<D>)
      r = math::BriefErfc(d, z);
    else
      r = math::Erfc(d, z);
    return hn::IfThenElse(hn::Eq(z, z), hn::Mul(r, hn::Set(d, 0.5)), z);
  }
};
template <class D>
struct LaplaceCdf : LocationScale<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const {
    const V z = this->Standard(x), tail = hn::Mul(Number(d, 0.5), ExpOf(d, hn::Neg(hn::Abs(z))));
    return hn::IfThenElse(hn::Gt(z, hn::Zero(d)), hn::Sub(Number(d, 1.0), tail), tail);
  }
};
template <class D>
struct LaplaceIcdf : LocationScale<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V p) const {
    const V one = Number(d, 1.0), rest = hn::Sub(one, p);
    const auto low = hn::Lt(p, rest);
    const V tail = hn::IfThenElse(low, p, rest), log = LogOf(d, hn::Add(tail, tail));
    return this->Placed(hn::IfThenElse(low, log, hn::Neg(log)));
  }
};
template <class D>
struct CauchyCdf : LocationScale<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const {
    const V angle = math::Atan2(d, hn::Set(d, 1.0), hn::Neg(this->Standard(x)));
    return hn::Mul(angle, hn::Set(d, 1 / kPi));
  }
};
// tan(pi (p - 1/2)); next to the ends 1 / tan of the way to them, which is exact.
template <class D>
struct CauchyIcdf : LocationScale<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V p) const {
    const V one = hn::Set(d, 1.0), half = hn::Set(d, 0.5), zero = hn::Zero(d), rest = hn::Sub(one, p);
    const V tail = hn::Min(p, rest);
    const auto far = hn::Lt(tail, hn::Set(d, 0.25)), low = hn::Lt(p, half);
    const V t = math::Tan(d, hn::Mul(hn::IfThenElse(far, tail, hn::Sub(p, half)), hn::Set(d, kPi)));
    const V inverse = hn::Div(hn::IfThenElse(low, hn::Neg(one), one), t);
    const auto inside = hn::And(hn::Ge(p, zero), hn::Le(p, one));
    return this->Placed(hn::IfThenElse(inside, hn::IfThenElse(far, inverse, t), hn::NaN(d)));
  }
};
template <class D>
struct GumbelCdf : LocationScale<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const { return ExpOf(d, hn::Neg(ExpOf(d, hn::Neg(this->Standard(x))))); }
};
template <class D>
struct GumbelIcdf : LocationScale<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V p) const { return this->Placed(hn::Neg(LogOf(d, hn::Neg(LogOf(d, p))))); }
};

}  // namespace distributions
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

// X(constant, formula, values, parameters, how float32 is computed): see kernels-inl.h.
// clang-format off
#define TESSERA_LOCATION_OPS(X) \
  X(normal_log_prob, NormalLogProb, 1, 2, SINGLE) \
  X(log_normal_log_prob, LogNormalLogProb, 1, 2, DOUBLE) \
  X(half_normal_log_prob, HalfNormalLogProb, 1, 1, SINGLE) \
  X(laplace_log_prob, LaplaceLogProb, 1, 2, SINGLE) \
  X(cauchy_log_prob, CauchyLogProb, 1, 2, DOUBLE) \
  X(half_cauchy_log_prob, HalfCauchyLogProb, 1, 1, DOUBLE) \
  X(gumbel_log_prob, GumbelLogProb, 1, 2, DOUBLE) \
  X(uniform_log_prob, UniformLogProb, 1, 2, SINGLE) \
  X(student_t_log_prob, StudentTLogProb, 1, 3, DOUBLE) \
  X(von_mises_log_prob, VonMisesLogProb, 1, 2, DOUBLE) \
  X(normal_cdf, NormalCdf, 1, 2, DOUBLE) \
  X(laplace_cdf, LaplaceCdf, 1, 2, SINGLE) \
  X(laplace_icdf, LaplaceIcdf, 1, 2, SINGLE) \
  X(cauchy_cdf, CauchyCdf, 1, 2, DOUBLE) \
  X(cauchy_icdf, CauchyIcdf, 1, 2, DOUBLE) \
  X(gumbel_cdf, GumbelCdf, 1, 2, DOUBLE) \
  X(gumbel_icdf, GumbelIcdf, 1, 2, DOUBLE)
// clang-format on

#endif  // per-target include guard
