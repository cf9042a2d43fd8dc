#include "distributions/cpu/beta_gradient.h"

#include "tensor/core/parallel.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "distributions/cpu/beta_gradient.cc"
#include "hwy/foreach_target.h"
#include "tensor/cpu/math/math_gamma-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// A numerator or denominator of a continued fraction, the one before it, and their derivatives.
template <class V>
struct Convergents {
  V now, before, slope, slope_before;

  // now + d before, d a function of the parameter, too.
  HWY_INLINE void step(V d, V d_slope) {
    const V next = hn::MulAdd(d, before, now);
    const V next_slope = hn::MulAdd(d, slope_before, hn::MulAdd(d_slope, before, slope));
    before = now, now = next, slope_before = slope, slope = next_slope;
  }
  HWY_INLINE void scale(V s) {
    now = hn::Mul(now, s), before = hn::Mul(before, s), slope = hn::Mul(slope, s);
    slope_before = hn::Mul(slope_before, s);
  }
};

// The continued fraction of a B(a, b) I_x(a, b) / (x^a (1 - x)^b) (NIST DLMF 8.17.22), x not above its mean, and the
// derivative of its logarithm in a where that is `of_a`, else in b.
template <class D, class V, class M>
HWY_INLINE V Fraction(D d, V a, V b, V x, M of_a, double enough, V& slope) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0), by_a = hn::IfThenElseZero(of_a, one), by_b = hn::Sub(one, by_a);
  const V sum = hn::Add(a, b);
  Convergents<V> above{one, zero, zero, zero}, below{one, one, zero, zero};
  const V inverse = hn::Div(one, hn::Add(a, one)), first = hn::Neg(hn::Mul(hn::Mul(sum, x), inverse));
  const V first_slope = hn::Neg(hn::Mul(hn::Mul(x, inverse), hn::NegMulAdd(hn::Mul(sum, by_a), inverse, one)));
  above.step(first, first_slope), below.step(first, first_slope);
  V value = zero;
  slope = zero;
  for (int i = 1; i < 20000; ++i) {
    const V m = hn::Set(d, static_cast<double>(i)), q = hn::Add(a, hn::Add(m, m)), p = hn::Sub(q, one),
            r = hn::Add(q, one);
    const V pq = hn::Mul(p, q), t = hn::Div(one, hn::Mul(pq, r)), over_q = hn::Mul(hn::Mul(p, r), t);
    const V over_p = hn::Mul(hn::Mul(q, r), t), over_r = hn::Mul(pq, t);
    const V mx = hn::Mul(hn::Mul(m, x), hn::Mul(over_p, over_q)), even = hn::Mul(mx, hn::Sub(b, m));
    const V even_slope = hn::NegMulAdd(hn::Mul(even, by_a), hn::Add(over_p, over_q), hn::Mul(mx, by_b));
    above.step(even, even_slope), below.step(even, even_slope);
    const V left = hn::Add(a, m), right = hn::Add(sum, m), factor = hn::Neg(hn::Mul(x, hn::Mul(over_q, over_r)));
    const V odd = hn::Mul(factor, hn::Mul(left, right));
    const V odd_slope =
        hn::NegMulAdd(hn::Mul(odd, by_a), hn::Add(over_q, over_r), hn::Mul(factor, hn::MulAdd(by_a, right, left)));
    above.step(odd, odd_slope), below.step(odd, odd_slope);
    const V scale = hn::Div(one, below.now);
    above.scale(scale), below.scale(scale);
    const V next = above.now, next_slope = hn::Div(hn::NegMulAdd(next, below.slope, above.slope), next);
    const V moved = hn::Abs(hn::Sub(next, value)), turned = hn::Abs(hn::Sub(next_slope, slope));
    value = next, slope = next_slope;
    const V limit = hn::Set(d, enough);
    const auto far = hn::Or(hn::Gt(moved, hn::Mul(limit, hn::Abs(value))),
                            hn::Gt(turned, hn::Mul(limit, hn::Add(one, hn::Abs(slope)))));
    if (hn::AllFalse(d, far)) break;
  }
  return value;
}

// -(dI/da) / (dI/dx) / (1 - x) of the distribution function I; the density cancels against the factor before the
// fraction. Above the mean by the other end, 1 - I_(1-x)(b, a).
template <class D, class V>
HWY_INLINE V BetaGradient(D d, V x, V a, V b, double enough) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0), two = hn::Set(d, 2.0);
  const auto positive = hn::And(hn::Gt(a, zero), hn::Gt(b, zero));
  const auto regular = hn::And(positive, hn::And(hn::Gt(x, zero), hn::Lt(x, one)));
  const V a0 = hn::IfThenElse(regular, a, one), b0 = hn::IfThenElse(regular, b, one),
          x0 = hn::IfThenElse(regular, x, hn::Set(d, 0.5));
  const V sum = hn::Add(a0, b0);
  const auto low = hn::Le(x0, hn::Div(hn::Add(a0, one), hn::Add(sum, two)));
  const V near = hn::IfThenElse(low, a0, b0), other = hn::IfThenElse(low, b0, a0);
  V slope;
  const V f = Fraction(d, near, other, hn::IfThenElse(low, x0, hn::Sub(one, x0)), low, enough, slope);
  const V gammas = hn::Sub(math::DigammaOf<false>(d, sum), math::DigammaOf<false>(d, a0)), inverse = hn::Div(one, near);
  const V logs = hn::Sub(hn::Add(hn::Add(math::Log(d, x0), gammas), slope), hn::IfThenElseZero(low, inverse));
  const V size = hn::Mul(hn::Mul(x0, inverse), hn::Mul(f, logs));
  const V r = hn::IfThenElse(low, hn::Neg(size), size);
  const auto end = hn::And(positive, hn::Or(hn::Eq(x, zero), hn::Eq(x, one)));  // nothing moves there
  return hn::IfThenElse(regular, r, hn::IfThenElse(end, zero, hn::NaN(d)));
}

}  // namespace

void BetaGradients(int64_t n, double* out, const double* x, const double* a, const double* total, double enough) {
  const auto at = [&](auto d, int64_t i) HWY_ATTR {
    const auto first = hn::LoadU(d, a + i);
    const auto second = hn::Sub(hn::LoadU(d, total + i), first);
    hn::StoreU(BetaGradient(d, hn::LoadU(d, x + i), first, second, enough), d, out + i);
  };
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) at(d, i);
  for (; i < n; ++i) at(hn::CappedTag<double, 1>(), i);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {

TESSERA_SIMD_TABLE(BetaGradients);

void beta_gradient(int64_t n, double* out, const double* x, const double* a, const double* total, double enough) {
  parallel_for(n, 64, [&](int64_t begin, int64_t end) {
    TESSERA_SIMD(BetaGradients)(end - begin, out + begin, x + begin, a + begin, total + begin, enough);
  });
}

}  // namespace tessera::cpu
#endif
