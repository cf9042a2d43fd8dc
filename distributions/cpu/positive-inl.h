// Distributions on the positive numbers and on the interval from 0 to 1. Included inside foreach_target.h's passes.
#if defined(TESSERA_DISTRIBUTIONS_CPU_POSITIVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_DISTRIBUTIONS_CPU_POSITIVE_INL_H_
#undef TESSERA_DISTRIBUTIONS_CPU_POSITIVE_INL_H_
#else
#define TESSERA_DISTRIBUTIONS_CPU_POSITIVE_INL_H_
#endif

#include "distributions/cpu/parts-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace distributions {

template <class D>
struct ExponentialLogProb {
  using V = hn::Vec<D>;
  V rate, log_rate;
  HWY_INLINE void Set(D d, V r) { rate = r, log_rate = LogOf(d, r); }
  HWY_INLINE V operator()(D d, V x) const {
    return Outside(d, hn::Lt(x, hn::Zero(d)), hn::NegMulAdd(rate, x, log_rate));
  }
};
template <class D>
struct ExponentialCdf {
  using V = hn::Vec<D>;
  V rate;
  HWY_INLINE void Set(D, V r) { rate = r; }
  HWY_INLINE V operator()(D d, V x) const {
    const V r = hn::Neg(Expm1Of(d, hn::Neg(hn::Mul(rate, x))));
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), r);
  }
};
template <class D>
struct ExponentialIcdf {
  using V = hn::Vec<D>;
  V rate;
  HWY_INLINE void Set(D, V r) { rate = r; }
  HWY_INLINE V operator()(D d, V p) const {
    const V r = hn::Div(hn::Neg(Log1pOf(d, hn::Neg(p))), rate);
    return hn::IfThenElse(hn::Lt(p, hn::Zero(d)), hn::NaN(d), r);
  }
};

// y^a e^-y / Gamma(a) / x with y = rate x, or rate / x for the inverse distribution. Large a by Stirling's series about
// the mode, where the logarithms would cancel.
template <class D, bool kInverse>
struct GammaFamily {
  using V = hn::Vec<D>;
  static constexpr double kLarge = kForFloat<D> ? 1e5 : 16.0;
  V power, concentration, rate, shift, half;
  bool some_large;
  HWY_INLINE void Set(D d, V a, V b) {
    const V one = hn::Set(d, 1.0), log_a = LogOf(d, a);
    concentration = a, rate = b;
    power = kInverse ? hn::Neg(hn::Add(a, one)) : hn::Sub(a, one);
    shift = hn::MulSub(a, LogOf(d, b), LogGamma(d, a));
    some_large = !hn::AllFalse(d, hn::Gt(a, hn::Set(d, kLarge)));
    half = hn::Sub(hn::MulSub(hn::Set(d, 0.5), log_a, hn::Set(d, kHalfLogTwoPi)), StirlingRest(d, a, log_a));
  }
  HWY_INLINE V operator()(D d, V x) const {
    const V zero = hn::Zero(d), log = LogOf(d, x), y = kInverse ? hn::Div(rate, x) : hn::Mul(rate, x);
    V r = hn::Add(Weighted(d, power, log), hn::Sub(shift, y));
    if (HWY_UNLIKELY(some_large)) {
      const auto stable = hn::And(hn::Gt(concentration, hn::Set(d, kLarge)), NearMode(d, concentration, y));
      r = hn::IfThenElse(stable, hn::Sub(hn::Add(PowerTerm(d, concentration, y), half), log), r);
    }
    auto outside = BeyondPositive(d, x);
    if constexpr (kInverse) outside = hn::Or(outside, hn::Eq(x, zero));
    return Outside(d, outside, r);
  }
};
template <class D>
struct GammaLogProb : GammaFamily<D, false> {};
template <class D>
struct InverseGammaLogProb : GammaFamily<D, true> {};

template <class D>
struct BetaLogProb {
  using V = hn::Vec<D>;
  V a, b, shift;
  HWY_INLINE void Set(D d, V c1, V c0) {
    const V one = hn::Set(d, 1.0);
    a = hn::Sub(c1, one), b = hn::Sub(c0, one), shift = LogBeta(d, c1, c0);
  }
  HWY_INLINE V operator()(D d, V x) const {
    const V powers = hn::Add(Weighted(d, a, LogOf(d, x)), Weighted(d, b, Log1pOf(d, hn::Neg(x))));
    const auto outside = hn::Or(hn::Lt(x, hn::Zero(d)), hn::Gt(x, hn::Set(d, 1.0)));
    return Outside(d, outside, hn::Sub(powers, shift));
  }
};
// A number's part of a Dirichlet density.
template <class D>
struct DirichletTerms {
  using V = hn::Vec<D>;
  V power, shift;
  HWY_INLINE void Set(D d, V a) { power = hn::Sub(a, hn::Set(d, 1.0)), shift = LogGamma(d, a); }
  HWY_INLINE V operator()(D d, V x) const { return hn::Sub(Weighted(d, power, LogOf(d, x)), shift); }
};
template <class D>
struct KumaraswamyLogProb {
  using V = hn::Vec<D>;
  V a, a_less, b_less, shift;
  HWY_INLINE void Set(D d, V c1, V c0) {
    const V one = hn::Set(d, 1.0);
    a = c1, a_less = hn::Sub(c1, one), b_less = hn::Sub(c0, one), shift = hn::Add(LogOf(d, c1), LogOf(d, c0));
  }
  HWY_INLINE V operator()(D d, V x) const {
    const V log = LogOf(d, x), rest = LogOf(d, hn::Neg(Expm1Of(d, hn::Mul(a, log))));
    const V r = hn::Add(hn::Add(Weighted(d, a_less, log), Weighted(d, b_less, rest)), shift);
    return Outside(d, hn::Or(hn::Lt(x, hn::Zero(d)), hn::Gt(x, hn::Set(d, 1.0))), r);
  }
};
// With u = df1 x / df2: the power of u and that of 1 + u are joined at the side where both are large.
template <class D>
struct FisherSnedecorLogProb {
  using V = hn::Vec<D>;
  V c1, c2, ratio, log_ratio, shift;
  HWY_INLINE void Set(D d, V df1, V df2) {
    const V half = hn::Set(d, 0.5);
    c1 = hn::Mul(df1, half), c2 = hn::Mul(df2, half), ratio = hn::Div(df1, df2);
    log_ratio = hn::Sub(LogOf(d, df1), LogOf(d, df2)), shift = LogBeta(d, c1, c2);
  }
  HWY_INLINE V operator()(D d, V x) const {
    const V one = hn::Set(d, 1.0), u = hn::Mul(ratio, x), log = LogOf(d, x);
    const auto near = hn::Le(u, one);
    const V t = Log1pOf(d, hn::IfThenElse(near, u, hn::Div(one, u)));
    const V power = hn::IfThenElse(near, c1, hn::Neg(c2));
    const V r = hn::Add(hn::Mul(power, log_ratio), Weighted(d, hn::Sub(power, one), log));
    return Outside(d, hn::Lt(x, hn::Zero(d)), hn::Sub(hn::NegMulAdd(hn::Add(c1, c2), t, r), shift));
  }
};
template <class D>
struct ParetoLogProb {
  using V = hn::Vec<D>;
  V scale, log_scale, alpha, log_alpha;
  HWY_INLINE void Set(D d, V least, V power) {
    scale = least, log_scale = LogOf(d, least), alpha = power, log_alpha = LogOf(d, power);
  }
  HWY_INLINE V operator()(D d, V x) const {
    const V log = LogOf(d, x), r = hn::Sub(hn::MulAdd(alpha, hn::Sub(log_scale, log), log_alpha), log);
    return Outside(d, hn::Lt(x, scale), r);
  }
};
template <class D>
struct WeibullLogProb {
  using V = hn::Vec<D>;
  V log_scale, shape, power, shift;
  HWY_INLINE void Set(D d, V scale, V concentration) {
    log_scale = LogOf(d, scale), shape = concentration, power = hn::Sub(concentration, hn::Set(d, 1.0));
    shift = hn::Sub(LogOf(d, concentration), log_scale);
  }
  HWY_INLINE V operator()(D d, V x) const {
    const V log = hn::Sub(LogOf(d, x), log_scale);
    const V r = hn::Sub(hn::Add(Weighted(d, power, log), shift), ExpOf(d, hn::Mul(shape, log)));
    return Outside(d, BeyondPositive(d, x), r);
  }
};
template <class D>
struct WeibullCdf {
  using V = hn::Vec<D>;
  V log_scale, shape;
  HWY_INLINE void Set(D d, V scale, V concentration) { log_scale = LogOf(d, scale), shape = concentration; }
  HWY_INLINE V operator()(D d, V x) const {
    const V r = hn::Neg(Expm1Of(d, hn::Neg(ExpOf(d, hn::Mul(shape, hn::Sub(LogOf(d, x), log_scale))))));
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), r);
  }
};
template <class D>
struct WeibullIcdf {
  using V = hn::Vec<D>;
  V scale, inverse;
  HWY_INLINE void Set(D d, V width, V concentration) {
    scale = width, inverse = hn::Div(hn::Set(d, 1.0), concentration);
  }
  HWY_INLINE V operator()(D d, V p) const {
    const V log = LogOf(d, hn::Neg(Log1pOf(d, hn::Neg(p))));
    return hn::Mul(scale, ExpOf(d, hn::Mul(inverse, log)));
  }
};

// log(1 + k y) / k, the quantile of the exponential distribution that a generalised Pareto number y stands for; y
// itself where k y is nothing.
template <class D>
struct GeneralizedPareto {
  using V = hn::Vec<D>;
  V loc, scale, k;
  HWY_INLINE void Set(D, V location, V width, V concentration) { loc = location, scale = width, k = concentration; }
  HWY_INLINE V Standard(V x) const { return hn::Div(hn::Sub(x, loc), scale); }
  HWY_INLINE V Depth(D d, V y) const {
    const V t = hn::Mul(k, y);
    const auto straight = hn::Or(hn::Lt(hn::Abs(t), hn::Set(d, 1e-290)), hn::Eq(k, hn::Zero(d)));
    return hn::IfThenElse(straight, y, hn::Div(Log1pOf(d, t), k));
  }
};
// Beyond the end that a negative k gives, the logarithm is nan.
template <class D>
struct GeneralizedParetoLogProb : GeneralizedPareto<D> {
  using V = hn::Vec<D>;
  V log_scale;
  HWY_INLINE void Set(D d, V location, V width, V concentration) {
    GeneralizedPareto<D>::Set(d, location, width, concentration);
    log_scale = LogOf(d, width);
  }
  HWY_INLINE V operator()(D d, V x) const {
    const V zero = hn::Zero(d), minus_one = hn::Set(d, -1.0), y = this->Standard(x), t = hn::Mul(this->k, y);
    const V power = hn::Sub(minus_one, this->k), r = hn::Sub(Weighted(d, power, this->Depth(d, y)), log_scale);
    const auto beyond = hn::Or(hn::Lt(y, zero), hn::Or(hn::Lt(t, minus_one), hn::Eq(y, hn::Inf(d))));
    return Outside(d, beyond, r);
  }
};
template <class D>
struct GeneralizedParetoCdf : GeneralizedPareto<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const {
    const V zero = hn::Zero(d), one = hn::Set(d, 1.0), y = this->Standard(x);
    const auto above = hn::Or(hn::Lt(hn::Mul(this->k, y), hn::Neg(one)), hn::Eq(y, hn::Inf(d)));
    const V r = hn::IfThenElse(above, one, hn::Neg(Expm1Of(d, hn::Neg(this->Depth(d, y)))));
    return hn::IfThenZeroElse(hn::Lt(y, zero), r);
  }
};
template <class D>
struct GeneralizedParetoIcdf : GeneralizedPareto<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V p) const {
    const V zero = hn::Zero(d), e = hn::Neg(Log1pOf(d, hn::Neg(p))), t = hn::Mul(this->k, e);
    const auto straight = hn::Or(hn::Lt(hn::Abs(t), hn::Set(d, 1e-290)), hn::Eq(this->k, zero));
    const V y = hn::IfThenElse(straight, e, hn::Div(Expm1Of(d, t), this->k));
    return hn::MulAdd(this->scale, hn::IfThenElse(hn::Lt(p, zero), hn::NaN(d), y), this->loc);
  }
};

}  // namespace distributions
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

// X(constant, formula, values, parameters, how float32 is computed): see kernels-inl.h.
// clang-format off
#define TESSERA_POSITIVE_OPS(X) \
  X(exponential_log_prob, ExponentialLogProb, 1, 1, SINGLE) \
  X(exponential_cdf, ExponentialCdf, 1, 1, SINGLE) \
  X(exponential_icdf, ExponentialIcdf, 1, 1, SINGLE) \
  X(gamma_log_prob, GammaLogProb, 1, 2, DOUBLE) \
  X(inverse_gamma_log_prob, InverseGammaLogProb, 1, 2, DOUBLE) \
  X(beta_log_prob, BetaLogProb, 1, 2, DOUBLE) \
  X(dirichlet_terms, DirichletTerms, 1, 1, DOUBLE) \
  X(kumaraswamy_log_prob, KumaraswamyLogProb, 1, 2, DOUBLE) \
  X(fisher_snedecor_log_prob, FisherSnedecorLogProb, 1, 2, DOUBLE) \
  X(pareto_log_prob, ParetoLogProb, 1, 2, DOUBLE) \
  X(weibull_log_prob, WeibullLogProb, 1, 2, DOUBLE) \
  X(weibull_cdf, WeibullCdf, 1, 2, DOUBLE) \
  X(weibull_icdf, WeibullIcdf, 1, 2, DOUBLE) \
  X(generalized_pareto_log_prob, GeneralizedParetoLogProb, 1, 3, DOUBLE) \
  X(generalized_pareto_cdf, GeneralizedParetoCdf, 1, 3, DOUBLE) \
  X(generalized_pareto_icdf, GeneralizedParetoIcdf, 1, 3, DOUBLE)
// clang-format on

#endif  // per-target include guard
