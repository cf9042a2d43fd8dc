#include "distributions/formulas.h"

#include <initializer_list>

namespace tessera::autograd::formulas {
namespace {

Tensor trigamma(const Tensor& x) { return polygamma(1, x); }

// c[0] + c[1] x + ..., by Horner's rule.
Tensor polynomial(const Tensor& x, std::initializer_list<double> c) {
  Tensor r = full_like(x, Scalar(*(c.end() - 1)));
  for (const double* next = c.end() - 1; next-- != c.begin();) r = r * x + *next;
  return r;
}
// `series` of x where |x| is below the limit, else `plain` of x, each of numbers that it can take.
template <class Series, class Plain>
Tensor near_and_far(const Tensor& x, double limit, Series series, Plain plain) {
  const Tensor near = lt(abs(x), limit);
  return where(near, series(masked_fill(x, logical_not(near), 0)), plain(masked_fill(x, near, 1)));
}

const IntVector kLast{-1};
// How each Dirichlet number moves with its concentration before all are scaled to the sum 1 again.
Tensor own_movement(const Tensor& concentration, const Tensor& sample) {
  return _dirichlet_grad(sample, concentration, expand_as(sum(concentration, kLast, true), concentration));
}

}  // namespace

Tensor log_logistic(const Tensor& x) { return neg(logaddexp(neg(x), zeros_like(x))); }

Tensor cauchy_scale_backward(const Tensor& grad, const Tensor& distance, const Tensor& scale) {
  const Tensor d = square(distance), s = square(scale);
  return grad * (d - s) / (scale * (d + s));
}

Tensor kumaraswamy_excess(const Tensor& value, const Tensor& a, const Tensor& b) {
  return (b - 1) / expm1(a * log(value)) * pow(value, a);
}

Tensor student_t_slope(const Tensor& value, const Tensor& df, const Tensor& loc, const Tensor& scale) {
  const Tensor z = (value - loc) / scale;
  return (df + 1) * z / (df + square(z));
}
Tensor student_t_df_slope(const Tensor& value, const Tensor& df, const Tensor& loc, const Tensor& scale) {
  const Tensor square_z = square((value - loc) / scale);
  const Tensor gammas = digamma((df + 1) / 2) - digamma(df / 2) - 1 / df;
  return (gammas - log1p(square_z / df) + (df + 1) * square_z / (df * (df + square_z))) / 2;
}
Tensor student_t_entropy_slope(const Tensor& df) {
  return (df + 1) * (trigamma((df + 1) / 2) - trigamma(df / 2)) / 4 + 0.5 / df;
}

Tensor fisher_value_slope(const Tensor& value, const Tensor& df1, const Tensor& df2) {
  return (df1 / 2 - 1) / value - (df1 + df2) / 2 * df1 / (df2 + df1 * value);
}
Tensor fisher_df1_slope(const Tensor& value, const Tensor& df1, const Tensor& df2) {
  const Tensor scaled = df1 * value, logs = log(scaled) - log(df2 + scaled);
  const Tensor gammas = digamma((df1 + df2) / 2) - digamma(df1 / 2);
  return (gammas + logs + 1 - (df1 + df2) * value / (df2 + scaled)) / 2;
}
Tensor fisher_df2_slope(const Tensor& value, const Tensor& df1, const Tensor& df2) {
  const Tensor scaled = df1 * value, gammas = digamma((df1 + df2) / 2) - digamma(df2 / 2);
  return (gammas - log1p(scaled / df2) - df1 / df2 + (df1 + df2) * scaled / (df2 * (df2 + scaled))) / 2;
}

Tensor pareto_stretch(const Tensor& value, const Tensor& loc, const Tensor& scale, const Tensor& concentration) {
  return scale + concentration * (value - loc);
}
Tensor pareto_depth(const Tensor& value, const Tensor& loc, const Tensor& scale, const Tensor& concentration) {
  const Tensor z = (value - loc) / scale, t = concentration * z;
  return z * near_and_far(
                 t, 0.01,
                 [](const Tensor& x) {
                   return polynomial(x, {1, -1. / 2, 1. / 3, -1. / 4, 1. / 5, -1. / 6, 1. / 7, -1. / 8});
                 },
                 [](const Tensor& x) { return log1p(x) / x; });
}
// z^2 times (1 / (1 + t) - log(1 + t) / t) / t.
Tensor pareto_depth_slope(const Tensor& value, const Tensor& loc, const Tensor& scale, const Tensor& concentration) {
  const Tensor z = (value - loc) / scale, t = concentration * z;
  return square(z) * near_and_far(
                         t, 0.01,
                         [](const Tensor& x) {
                           return polynomial(x, {-1. / 2, 2. / 3, -3. / 4, 4. / 5, -5. / 6, 6. / 7, -7. / 8, 8. / 9});
                         },
                         [](const Tensor& x) { return (1 / (x + 1) - log1p(x) / x) / x; });
}

Tensor continuous_bernoulli_mean(const Tensor& logits) {
  return near_and_far(
      logits, 0.3,
      [](const Tensor& x) {
        return x * polynomial(square(x), {1. / 12, -1. / 720, 1. / 30240, -1. / 1209600, 1. / 47900160}) + 0.5;
      },
      [](const Tensor& x) { return -1 / expm1(neg(x)) - 1 / x; });
}
Tensor continuous_bernoulli_cdf_slope(const Tensor& value, const Tensor& logits) {
  const Tensor shift = value * continuous_bernoulli_mean(logits * value) - continuous_bernoulli_mean(logits);
  return _dist_continuous_bernoulli_cdf(value, logits) * shift;
}

Tensor beta_entropy_slope(const Tensor& a, const Tensor& b) {
  const Tensor sum = a + b;
  return (sum - 2) * trigamma(sum) - (a - 1) * trigamma(a);
}
Tensor beta_kl_p_slope(const Tensor& p, const Tensor& p_other, const Tensor& q, const Tensor& q_other) {
  const Tensor sum = p + p_other;
  return (p - q) * trigamma(p) + (q + q_other - sum) * trigamma(sum);
}
Tensor beta_kl_q_slope(const Tensor& p, const Tensor& p_other, const Tensor& q, const Tensor& q_other) {
  return digamma(q) - digamma(p) + digamma(p + p_other) - digamma(q + q_other);
}

Tensor sample_dirichlet_backward(const Tensor& grad, const Tensor& concentration, const Tensor& sample) {
  return own_movement(concentration, sample) * (grad - sum(sample * grad, kLast, true));
}
Tensor sample_dirichlet_forward(const Tensor& tangent, const Tensor& concentration, const Tensor& sample) {
  const Tensor moved = own_movement(concentration, sample) * tangent;
  return moved - sample * sum(moved, kLast, true);
}

}  // namespace tessera::autograd::formulas
