// Distributions over the last dimension, composed of operators.
#include <cstddef>

#include "distributions/vectors_kernels.h"
#include "distributions/all_ops.h"
#include "linalg/all_ops.h"
#include "tensor/ops/api.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {
namespace {

const IntVector kLast{-1};

Tensor last_sum(const Tensor& x) { return sum(x, kLast); }

// |scale_tril^-1 difference|^2 for difference (..., n) and scale_tril (..., n, n): dimensions of the former before
// those of the latter are columns of one system, so that no matrix is repeated.
Tensor squared_length(const Tensor& scale_tril, const Tensor& difference) {
  const size_t shared = static_cast<size_t>(scale_tril.dim() - 2);
  IntVector sizes = to_vector(difference.sizes());
  while (sizes.size() < shared + 1) sizes.insert(sizes.begin(), 1);
  const auto batch = sizes.end() - 1 - static_cast<std::ptrdiff_t>(shared);
  const IntVector outer(sizes.begin(), batch);
  int64_t columns = 1;
  for (const int64_t size : outer) columns *= size;
  IntVector flat(batch, sizes.end());
  flat.insert(flat.begin(), columns);
  const Tensor systems = movedim(reshape(difference, flat), 0, -1);
  const Tensor solved = linalg_solve_triangular(scale_tril, systems, /*upper=*/false, /*left=*/true, false);
  const Tensor lengths = movedim(sum(square(solved), IntVector{-2}), -1, 0);
  IntVector shape = to_vector(lengths.sizes());
  shape.erase(shape.begin());
  shape.insert(shape.begin(), outer.begin(), outer.end());
  return reshape(lengths, shape);
}
Tensor log_diagonal_sum(const Tensor& scale_tril) { return last_sum(log(diagonal(scale_tril, 0, -2, -1))); }

void check_real(const Tensor& x, const char* what) {
  TESSERA_CHECK(!x.is_complex(), what, ": expected real numbers, but got ", type_name_of(x.dtype()));
}
void check_vectors(const Tensor& loc, const Tensor& scale_tril, const char* what) {
  check_real(loc, what);
  TESSERA_CHECK(loc.dim() >= 1 && scale_tril.dim() >= 2, what,
                ": expected loc with at least one dimension and scale_tril with at least two, but got ", loc.dim(),
                " and ", scale_tril.dim());
  const int64_t n = loc.sizes().back(), d = scale_tril.dim();
  TESSERA_CHECK(scale_tril.sizes()[d - 1] == n && scale_tril.sizes()[d - 2] == n, what, ": expected scale_tril of ", n,
                " rows and columns, as loc has, but got ", scale_tril.sizes()[d - 2], " and ",
                scale_tril.sizes()[d - 1]);
}
void check_last(const Tensor& x, const char* what) {
  check_real(x, what);
  TESSERA_CHECK(x.dim() >= 1, what,
                ": expected at least one dimension, over which the distribution goes, but got none");
}

}  // namespace

Tensor _dist_categorical_log_prob_composite(const Tensor& value, const Tensor& logits) {
  check_last(logits, "categorical_log_prob");
  const Tensor logs = log_softmax(logits, -1), first = select(logs, -1, 0);
  const IntVector shape = broadcast_shapes({&value, &first});
  IntVector rows = shape, picked = shape;
  rows.push_back(logits.sizes().back());
  picked.push_back(1);
  const Tensor index = expand(unsqueeze(to(value, DType::kInt64), -1), picked);
  return squeeze(gather(expand(logs, rows), -1, index), -1);
}
Tensor _dist_categorical_entropy_composite(const Tensor& logits) {
  check_last(logits, "categorical_entropy");
  const Tensor logs = log_softmax(logits, -1), finite = masked_fill(logs, isinf(logs), 0);
  return neg(last_sum(exp(logs) * finite));
}
Tensor _dist_categorical_kl_composite(const Tensor& p_logits, const Tensor& q_logits) {
  check_last(p_logits, "categorical_kl");
  check_last(q_logits, "categorical_kl");
  const Tensor p = log_softmax(p_logits, -1), q = log_softmax(q_logits, -1), probs = exp(p);
  return last_sum(probs * masked_fill(p - q, eq(probs, 0), 0));
}
Tensor _dist_multinomial_log_prob_composite(const Tensor& value, const Tensor& logits) {
  check_last(value, "multinomial_log_prob");
  check_last(logits, "multinomial_log_prob");
  const Tensor logs = log_softmax(logits, -1), none = logical_and(eq(value, 0), isinf(logs));
  const Tensor weights = last_sum(value * masked_fill(expand(logs, broadcast_shapes({&value, &logs})), none, 0));
  return weights + lgamma(last_sum(value) + 1) - last_sum(lgamma(value + 1));
}

Tensor _dist_dirichlet_log_prob_composite(const Tensor& value, const Tensor& concentration) {
  check_last(value, "dirichlet_log_prob");
  check_last(concentration, "dirichlet_log_prob");
  return last_sum(_dist_dirichlet_terms(value, concentration)) + lgamma(last_sum(concentration));
}
// With the entropies H of gamma numbers: sum H(a) - H(sum a) - (n - 1) digamma(sum a).
Tensor _dist_dirichlet_entropy_composite(const Tensor& concentration) {
  check_last(concentration, "dirichlet_entropy");
  const Tensor one = new_ones(concentration, IntVector{}), total = last_sum(concentration);
  const Tensor joined = _dist_gamma_entropy(total, one) + digamma(total) * Scalar(concentration.sizes().back() - 1);
  return last_sum(_dist_gamma_entropy(concentration, one)) - joined;
}
// Divergences of gamma numbers of rate 1, less that of their sums.
Tensor _dist_dirichlet_kl_composite(const Tensor& p_concentration, const Tensor& q_concentration) {
  check_last(p_concentration, "dirichlet_kl");
  check_last(q_concentration, "dirichlet_kl");
  const Tensor one = new_ones(p_concentration, IntVector{});
  const auto divergence = [&](const Tensor& p, const Tensor& q) { return _dist_gamma_kl(p, one, q, one); };
  return last_sum(divergence(p_concentration, q_concentration)) -
         divergence(last_sum(p_concentration), last_sum(q_concentration));
}

Tensor _dist_multivariate_normal_log_prob_composite(const Tensor& value, const Tensor& loc, const Tensor& scale_tril) {
  check_vectors(loc, scale_tril, "multivariate_normal_log_prob");
  const double n = static_cast<double>(loc.sizes().back());
  const Tensor constant = log_diagonal_sum(scale_tril) + n * 0.91893853320467274178;
  return squared_length(scale_tril, value - loc) * -0.5 - constant;
}
Tensor _dist_multivariate_normal_kl_composite(const Tensor& p_loc, const Tensor& p_scale_tril, const Tensor& q_loc,
                                              const Tensor& q_scale_tril) {
  check_vectors(p_loc, p_scale_tril, "multivariate_normal_kl");
  check_vectors(q_loc, q_scale_tril, "multivariate_normal_kl");
  const double n = static_cast<double>(p_loc.sizes().back());
  const Tensor logs = log_diagonal_sum(q_scale_tril) - log_diagonal_sum(p_scale_tril);
  const Tensor ratio = linalg_solve_triangular(q_scale_tril, p_scale_tril, false, true, false);
  const Tensor spread = sum(square(ratio), IntVector{-2, -1}), moved = squared_length(q_scale_tril, q_loc - p_loc);
  return logs + (spread + moved - n) * 0.5;
}

}  // namespace tessera::kernels
