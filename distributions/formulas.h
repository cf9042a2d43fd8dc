// Derivatives of the distributions' functions that are longer than a line, and what several of them share.
#pragma once

#include "distributions/all_ops.h"
#include "special/all_ops.h"
#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {

// log(1 / (1 + e^-x)).
Tensor log_logistic(const Tensor& x);
// Of -log(scale (1 + (distance / scale)^2)) in scale.
Tensor cauchy_scale_backward(const Tensor& grad, const Tensor& distance, const Tensor& scale);
// (1 - b) x^a / (1 - x^a).
Tensor kumaraswamy_excess(const Tensor& value, const Tensor& a, const Tensor& b);

// (df + 1) z / (df + z^2), z = (value - loc) / scale; and the derivatives in df.
Tensor student_t_slope(const Tensor& value, const Tensor& df, const Tensor& loc, const Tensor& scale);
Tensor student_t_df_slope(const Tensor& value, const Tensor& df, const Tensor& loc, const Tensor& scale);
Tensor student_t_entropy_slope(const Tensor& df);

Tensor fisher_value_slope(const Tensor& value, const Tensor& df1, const Tensor& df2);
Tensor fisher_df1_slope(const Tensor& value, const Tensor& df1, const Tensor& df2);
Tensor fisher_df2_slope(const Tensor& value, const Tensor& df1, const Tensor& df2);

// Of a generalised Pareto number: scale (1 + t), t = concentration (value - loc) / scale; log(1 + t) / concentration,
// the number of the exponential distribution at the same place; and how that moves with the concentration.
Tensor pareto_stretch(const Tensor& value, const Tensor& loc, const Tensor& scale, const Tensor& concentration);
Tensor pareto_depth(const Tensor& value, const Tensor& loc, const Tensor& scale, const Tensor& concentration);
Tensor pareto_depth_slope(const Tensor& value, const Tensor& loc, const Tensor& scale, const Tensor& concentration);

// 1 / (1 - e^-l) - 1 / l; and of the distribution function in l.
Tensor continuous_bernoulli_mean(const Tensor& logits);
Tensor continuous_bernoulli_cdf_slope(const Tensor& value, const Tensor& logits);

// In a; b is the other concentration.
Tensor beta_entropy_slope(const Tensor& a, const Tensor& b);
// In the first concentration of p, and that of q.
Tensor beta_kl_p_slope(const Tensor& p, const Tensor& p_other, const Tensor& q, const Tensor& q_other);
Tensor beta_kl_q_slope(const Tensor& p, const Tensor& p_other, const Tensor& q, const Tensor& q_other);

// Each number moves alone with its own concentration, and all are scaled to the sum 1 again.
Tensor sample_dirichlet_backward(const Tensor& grad, const Tensor& concentration, const Tensor& sample);
Tensor sample_dirichlet_forward(const Tensor& tangent, const Tensor& concentration, const Tensor& sample);

}  // namespace tessera::autograd::formulas
