// Entropies, and divergences of two distributions of a family. Included inside foreach_target.h's passes.
#if defined(TESSERA_DISTRIBUTIONS_CPU_MEASURES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_DISTRIBUTIONS_CPU_MEASURES_INL_H_
#undef TESSERA_DISTRIBUTIONS_CPU_MEASURES_INL_H_
#else
#define TESSERA_DISTRIBUTIONS_CPU_MEASURES_INL_H_
#endif

#include "distributions/cpu/parts-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace distributions {

// A formula of parameters alone: Set computes the result.
template <class D>
struct Measure {
  using V = hn::Vec<D>;
  V r;
  HWY_INLINE V operator()(D) const { return r; }
};

template <class D>
struct GammaEntropyOf : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V a, V rate) { this->r = hn::Sub(GammaEntropy(d, a), LogOf(d, rate)); }
};
template <class D>
struct InverseGammaEntropyOf : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V a, V rate) {
    const V psi = Digamma(d, a);
    this->r = hn::Sub(hn::Add(GammaEntropy(d, a), LogOf(d, rate)), hn::Add(psi, psi));
  }
};
// log B(a, b) - (a - 1) psi(a) - (b - 1) psi(b) + (a + b - 2) psi(a + b), by entropies that do not cancel.
template <class D>
struct BetaEntropyOf : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V a, V b) {
    const V sum = hn::Add(a, b), both = hn::Add(GammaEntropy(d, a), GammaEntropy(d, b));
    this->r = hn::Sub(both, hn::Add(GammaEntropy(d, sum), Digamma(d, sum)));
  }
};
template <class D>
struct StudentTEntropyOf : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V df, V scale) {
    const V half = hn::Set(d, 0.5), h = hn::Mul(df, half), next = hn::Add(h, half);
    V slope = hn::Mul(next, hn::Sub(Digamma(d, next), Digamma(d, h)));
    const auto large = hn::Gt(df, hn::Set(d, 1e6));  // psi(h + 1/2) - psi(h) = 1 / (2 h) + 1 / (8 h^2) ...
    const V t = hn::Div(half, h);
    slope = hn::IfThenElse(large, hn::Mul(hn::Add(hn::Set(d, 1.0), t), hn::MulAdd(t, hn::Set(d, 0.25), half)), slope);
    const V logs = hn::MulAdd(half, LogOf(d, df), LogOf(d, scale));
    this->r = hn::Add(hn::Add(slope, logs), LogBeta(d, half, h));
  }
};
template <class D>
struct BernoulliEntropyOf : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V l) {
    const V a = hn::Abs(l), e = ExpOf(d, hn::Neg(a)), one = hn::Set(d, 1.0);
    this->r = hn::Add(Log1pOf(d, e), Weighted(d, hn::Div(e, hn::Add(one, e)), a));
  }
};
template <class D>
struct GeometricEntropyOf : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V p) {
    const V rest = hn::Sub(hn::Set(d, 1.0), p);
    this->r = hn::Neg(hn::Add(LogOf(d, p), Weighted(d, hn::Div(rest, p), Log1pOf(d, hn::Neg(p)))));
  }
};

// --- divergences of p from q

template <class D>
struct NormalKl : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V p_loc, V p_scale, V q_loc, V q_scale) {
    const V q = hn::Div(p_scale, q_scale), ratio = hn::Mul(q, q), z = hn::Div(hn::Sub(p_loc, q_loc), q_scale);
    const V step = hn::Div(hn::Sub(p_scale, q_scale), q_scale), m = hn::MulAdd(step, step, hn::Add(step, step));
    this->r = hn::Mul(hn::Set(d, 0.5), hn::MulSub(z, z, LogMinus(d, ratio, m)));
  }
};
template <class D>
struct LaplaceKl : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V p_loc, V p_scale, V q_loc, V q_scale) {
    const V a = hn::Abs(hn::Sub(p_loc, q_loc)), ratio = hn::Div(p_scale, q_scale);
    const V m = hn::Div(hn::Sub(p_scale, q_scale), q_scale);
    const V moved = hn::MulAdd(ratio, Expm1Of(d, hn::Neg(hn::Div(a, p_scale))), hn::Div(a, q_scale));
    this->r = hn::Sub(moved, LogMinus(d, ratio, m));
  }
};
template <class D>
struct CauchyKl : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V p_loc, V p_scale, V q_loc, V q_scale) {
    const V s = hn::Sub(p_scale, q_scale), l = hn::Sub(p_loc, q_loc);
    const V over = hn::Div(hn::MulAdd(s, s, hn::Mul(l, l)), hn::Mul(hn::Set(d, 4.0), hn::Mul(p_scale, q_scale)));
    this->r = Log1pOf(d, over);
  }
};
template <class D>
struct GammaKl : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V p_a, V p_rate, V q_a, V q_rate) {
    const V m = hn::Div(hn::Sub(q_rate, p_rate), p_rate), ratio = hn::Div(q_rate, p_rate);
    // q_a (m - log ratio) + (p_a - q_a) m, and what is 0 where the concentrations agree.
    const V rates = hn::Sub(hn::Mul(hn::Sub(p_a, q_a), m), hn::Mul(q_a, LogMinus(d, ratio, m)));
    const V shapes = hn::MulAdd(hn::Sub(p_a, q_a), Digamma(d, p_a), hn::Sub(LogGamma(d, q_a), LogGamma(d, p_a)));
    this->r = hn::Add(rates, shapes);
  }
};
template <class D>
struct BetaKl : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V p1, V p0, V q1, V q0) {
    const V s1 = hn::Sub(p1, q1), s0 = hn::Sub(p0, q0);
    const V slopes = hn::NegMulAdd(hn::Add(s1, s0), Digamma(d, hn::Add(p1, p0)),
                                   hn::MulAdd(s1, Digamma(d, p1), hn::Mul(s0, Digamma(d, p0))));
    this->r = hn::Add(slopes, hn::Sub(LogBeta(d, q1, q0), LogBeta(d, p1, p0)));
  }
};
template <class D>
struct ExponentialKl : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V p, V q) { this->r = hn::Neg(LogMinus(d, hn::Div(q, p), hn::Div(hn::Sub(q, p), p))); }
};
template <class D>
struct PoissonKl : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V p, V q) {
    this->r = hn::IfThenElse(hn::Eq(p, hn::Zero(d)), q, hn::Neg(PowerTerm(d, p, q)));
  }
};
// p (log p - log q) + (1 - p) (log(1 - p) - log(1 - q)), logarithms of probabilities by softplus.
template <class D>
struct BernoulliKl : Measure<D> {
  using V = hn::Vec<D>;
  HWY_INLINE void Set(D d, V p, V q) {
    const V one = hn::Set(d, 1.0), e = ExpOf(d, hn::Neg(hn::Abs(p))), tail = hn::Div(e, hn::Add(one, e));
    const auto positive = hn::Gt(p, hn::Zero(d));
    const V yes = hn::IfThenElse(positive, hn::Sub(one, tail), tail),
            no = hn::IfThenElse(positive, tail, hn::Sub(one, tail));
    const V gained = hn::Sub(Softplus(d, hn::Neg(q)), Softplus(d, hn::Neg(p))),
            lost = hn::Sub(Softplus(d, q), Softplus(d, p));
    const V zero = hn::Zero(d);
    this->r = hn::Add(hn::IfThenZeroElse(hn::Eq(yes, zero), hn::Mul(yes, gained)),
                      hn::IfThenZeroElse(hn::Eq(no, zero), hn::Mul(no, lost)));
  }
};

}  // namespace distributions
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

// X(constant, formula, values, parameters, how float32 is computed): see kernels-inl.h.
// clang-format off
#define TESSERA_MEASURE_OPS(X) \
  X(gamma_entropy, GammaEntropyOf, 0, 2, DOUBLE) \
  X(inverse_gamma_entropy, InverseGammaEntropyOf, 0, 2, DOUBLE) \
  X(beta_entropy, BetaEntropyOf, 0, 2, DOUBLE) \
  X(student_t_entropy, StudentTEntropyOf, 0, 2, DOUBLE) \
  X(bernoulli_entropy, BernoulliEntropyOf, 0, 1, DOUBLE) \
  X(geometric_entropy, GeometricEntropyOf, 0, 1, DOUBLE) \
  X(normal_kl, NormalKl, 0, 4, DOUBLE) \
  X(laplace_kl, LaplaceKl, 0, 4, DOUBLE) \
  X(cauchy_kl, CauchyKl, 0, 4, DOUBLE) \
  X(gamma_kl, GammaKl, 0, 4, DOUBLE) \
  X(beta_kl, BetaKl, 0, 4, DOUBLE) \
  X(exponential_kl, ExponentialKl, 0, 2, DOUBLE) \
  X(poisson_kl, PoissonKl, 0, 2, DOUBLE) \
  X(bernoulli_kl, BernoulliKl, 0, 2, DOUBLE)
// clang-format on

#endif  // per-target include guard
