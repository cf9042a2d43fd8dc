// Distributions of whole numbers, and those made of them. Included inside foreach_target.h's passes.
#if defined(TESSERA_DISTRIBUTIONS_CPU_DISCRETE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_DISTRIBUTIONS_CPU_DISCRETE_INL_H_
#undef TESSERA_DISTRIBUTIONS_CPU_DISCRETE_INL_H_
#else
#define TESSERA_DISTRIBUTIONS_CPU_DISCRETE_INL_H_
#endif

#include "distributions/cpu/parts-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace distributions {

// What logits say: successes weigh min(l, 0), failures min(-l, 0), and log(1 + e^-|l|) is taken from both.
template <class D>
struct Logits {
  using V = hn::Vec<D>;
  V success, failure, rest;
  HWY_INLINE void Set(D d, V l) {
    const V zero = hn::Zero(d);
    success = hn::Min(zero, l), failure = hn::Min(zero, hn::Neg(l));
    rest = Log1pOf(d, ExpOf(d, hn::Neg(hn::Abs(l))));
  }
  HWY_INLINE V Sum(D d, V successes, V failures) const {
    const V weights = hn::Add(Weighted(d, successes, success), Weighted(d, failures, failure));
    return hn::NegMulAdd(hn::Add(successes, failures), rest, weights);
  }
};
template <class D>
struct BernoulliLogProb : Logits<D> {
  using V = hn::Vec<D>;
  HWY_INLINE V operator()(D d, V x) const { return this->Sum(d, x, hn::Sub(Number(d, 1.0), x)); }
};
// x l - log((e^l - 1) / l).
template <class D>
struct ContinuousBernoulliLogProb {
  using V = hn::Vec<D>;
  V logits, shift, positive;
  HWY_INLINE void Set(D d, V l) {
    const V a = hn::Abs(l), zero = hn::Zero(d), one = hn::Set(d, 1.0);
    const V quotient = hn::Div(hn::Neg(Expm1Of(d, hn::Neg(a))), a);
    logits = l, positive = hn::IfThenElseZero(hn::Gt(l, zero), one);
    shift = hn::IfThenZeroElse(hn::Eq(a, zero), LogOf(d, quotient));
  }
  HWY_INLINE V operator()(D d, V x) const {
    const V r = hn::Sub(Weighted(d, hn::Sub(x, positive), logits), shift);
    return Outside(d, hn::Or(hn::Lt(x, hn::Zero(d)), hn::Gt(x, hn::Set(d, 1.0))), r);
  }
};
// (e^(l x) - 1) / (e^l - 1), by powers that are not positive.
template <class D>
struct ContinuousBernoulliCdf {
  using V = hn::Vec<D>;
  V logits, minus, whole;  // -|l|, 1 - e^-|l|
  HWY_INLINE void Set(D d, V l) { logits = l, minus = hn::Neg(hn::Abs(l)), whole = hn::Neg(Expm1Of(d, minus)); }
  HWY_INLINE V operator()(D d, V x) const {
    const V zero = hn::Zero(d), one = hn::Set(d, 1.0), inside = hn::Max(zero, hn::Min(one, x));
    V r = hn::Div(hn::Neg(Expm1Of(d, hn::Mul(minus, inside))), whole);
    const V grown = hn::Mul(r, ExpOf(d, hn::Mul(logits, hn::Sub(inside, one))));
    r = hn::IfThenElse(hn::Gt(logits, zero), grown, r);
    r = hn::IfThenElse(hn::Eq(whole, zero), inside, r);
    return hn::IfThenElse(hn::Eq(x, x), r, x);
  }
};
// log(1 + p (e^l - 1)) / l for positive l; for others that of -l and 1 - p, from the other end, where it would cancel.
template <class D>
struct ContinuousBernoulliIcdf {
  using V = hn::Vec<D>;
  V logits, size, grown, shrunk;  // |l|, e^|l| - 1, e^-|l| - 1
  HWY_INLINE void Set(D d, V l) {
    logits = l, size = hn::Abs(l);
    grown = Expm1Of(d, size), shrunk = Expm1Of(d, hn::Neg(size));
  }
  HWY_INLINE V OfPositive(D d, V p) const {
    V log = Log1pOf(d, hn::Mul(p, grown));
    const auto large = hn::Gt(size, hn::Set(d, 700.0));
    if (HWY_UNLIKELY(!hn::AllFalse(d, large))) {
      const V far = hn::Max(hn::Zero(d), hn::Add(size, LogOf(d, p)));  // 1 and what the other part adds are nothing
      log = hn::IfThenElse(large, far, log);
    }
    return hn::Div(log, size);
  }
  HWY_INLINE V operator()(D d, V p) const {
    const V zero = hn::Zero(d), one = hn::Set(d, 1.0), rest = hn::Sub(one, p);
    const auto positive = hn::Gt(logits, zero), low = hn::Lt(p, rest);
    const V near = hn::Div(Log1pOf(d, hn::Mul(p, shrunk)), hn::Neg(size));
    const V end = OfPositive(d, hn::IfThenElse(positive, p, rest));
    const V r = hn::IfThenElse(positive, end, hn::IfThenElse(low, near, hn::Sub(one, end)));
    const auto inside = hn::And(hn::Ge(p, zero), hn::Le(p, one));
    return hn::IfThenElse(inside, hn::IfThenElse(hn::Eq(size, zero), p, r), hn::NaN(d));
  }
};
template <class D>
struct GeometricLogProb {
  using V = hn::Vec<D>;
  V log, log_rest;
  HWY_INLINE void Set(D d, V p) { log = LogOf(d, p), log_rest = Log1pOf(d, hn::Neg(p)); }
  HWY_INLINE V operator()(D d, V x) const {
    return Outside(d, hn::Lt(x, hn::Zero(d)), hn::Add(Weighted(d, x, log_rest), log));
  }
};
template <class D>
struct BinomialLogProb {
  using V = hn::Vec<D>;
  V count, log_count;
  Logits<D> logits;
  HWY_INLINE void Set(D d, V n, V l) {
    logits.Set(d, l);
    count = n, log_count = Log1pOf(d, n);
  }
  // C(n, x) = 1 / ((n + 1) B(x + 1, n - x + 1)).
  HWY_INLINE V operator()(D d, V x) const {
    const V one = hn::Set(d, 1.0), zero = hn::Zero(d), failures = hn::Sub(count, x);
    V ways = hn::Neg(hn::Add(log_count, LogBeta(d, hn::Add(x, one), hn::Add(failures, one))));
    ways = hn::IfThenZeroElse(hn::Or(hn::Eq(x, zero), hn::Eq(failures, zero)), ways);
    const V r = hn::Add(ways, logits.Sum(d, x, failures));
    return Outside(d, hn::Or(hn::Lt(x, zero), hn::Lt(failures, zero)), r);
  }
};
// x successes before a number of failures: Gamma(n + x) / (x! Gamma(n)) = 1 / ((n + x) B(n, x + 1)).
template <class D>
struct NegativeBinomialLogProb {
  using V = hn::Vec<D>;
  V count;
  Logits<D> logits;
  HWY_INLINE void Set(D d, V n, V l) {
    logits.Set(d, l);
    count = n;
  }
  HWY_INLINE V operator()(D d, V x) const {
    const V one = hn::Set(d, 1.0), zero = hn::Zero(d);
    V ways = hn::Neg(hn::Add(LogOf(d, hn::Add(count, x)), LogBeta(d, count, hn::Add(x, one))));
    ways = hn::IfThenZeroElse(hn::Eq(x, zero), ways);
    return Outside(d, hn::Lt(x, zero), hn::Add(ways, logits.Sum(d, x, count)));
  }
};
template <class D>
struct PoissonLogProb {
  using V = hn::Vec<D>;
  static constexpr double kLarge = kForFloat<D> ? 1e5 : 16.0;
  V rate, log_rate;
  HWY_INLINE void Set(D d, V r) { rate = r, log_rate = LogOf(d, r); }
  HWY_INLINE V operator()(D d, V x) const {
    const V zero = hn::Zero(d);
    V r = hn::Sub(Weighted(d, x, log_rate), hn::Add(rate, LogGamma(d, hn::Add(x, hn::Set(d, 1.0)))));
    const auto large = hn::And(hn::Gt(x, hn::Set(d, kLarge)), NearMode(d, x, rate));
    if (HWY_UNLIKELY(!hn::AllFalse(d, large))) {
      const V y = hn::IfThenElse(large, x, hn::Set(d, 1.0)), log = LogOf(d, y);
      const V shift = hn::Add(hn::MulAdd(hn::Set(d, 0.5), log, hn::Set(d, kHalfLogTwoPi)), StirlingRest(d, y, log));
      r = hn::IfThenElse(large, hn::Sub(PowerTerm(d, y, rate), shift), r);
    }
    return Outside(d, BeyondPositive(d, x), r);
  }
};
// log temperature - |t| - 2 log(1 + e^-|t|), t = logits - temperature x.
template <class D>
struct LogitRelaxedBernoulliLogProb {
  using V = hn::Vec<D>;
  V temperature, logits, log_temperature;
  HWY_INLINE void Set(D d, V t, V l) { temperature = t, logits = l, log_temperature = LogOf(d, t); }
  HWY_INLINE V operator()(D d, V x) const {
    const V a = hn::Abs(hn::NegMulAdd(temperature, x, logits)), rest = Log1pOf(d, ExpOf(d, hn::Neg(a)));
    return hn::Sub(hn::Sub(log_temperature, a), hn::Add(rest, rest));
  }
};

}  // namespace distributions
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

// X(constant, formula, values, parameters, how float32 is computed): see kernels-inl.h.
// clang-format off
#define TESSERA_DISCRETE_OPS(X) \
  X(bernoulli_log_prob, BernoulliLogProb, 1, 1, DOUBLE) \
  X(continuous_bernoulli_log_prob, ContinuousBernoulliLogProb, 1, 1, DOUBLE) \
  X(continuous_bernoulli_cdf, ContinuousBernoulliCdf, 1, 1, DOUBLE) \
  X(continuous_bernoulli_icdf, ContinuousBernoulliIcdf, 1, 1, DOUBLE) \
  X(geometric_log_prob, GeometricLogProb, 1, 1, DOUBLE) \
  X(binomial_log_prob, BinomialLogProb, 1, 2, DOUBLE) \
  X(negative_binomial_log_prob, NegativeBinomialLogProb, 1, 2, DOUBLE) \
  X(poisson_log_prob, PoissonLogProb, 1, 1, DOUBLE) \
  X(logit_relaxed_bernoulli_log_prob, LogitRelaxedBernoulliLogProb, 1, 2, DOUBLE)
// clang-format on

#endif  // per-target include guard
