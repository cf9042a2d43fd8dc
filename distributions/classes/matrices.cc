#include "distributions/classes/matrices.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "distributions/classes/family_functions.h"
#include "distributions/classes/vector_functions.h"
#include "linalg/all_ops.h"
#include "tensor/ops/promotion.h"

namespace tessera::distributions {
namespace {

constexpr double kPi = std::numbers::pi;

Tensor identity_like(const Tensor& x, int64_t n) { return eye(n, x.dtype(), std::nullopt, x.device()); }
Tensor range_like(const Tensor& x, int64_t from, int64_t to) {
  return arange(from, to, x.dtype(), std::nullopt, x.device());
}
Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }
Tensor trace_of_square(const Tensor& x) { return sum(square(x), IntVector{-2, -1}); }
Tensor as_matrices(const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); }
// Of each matrix, whether it is symmetric, up to rounding, and has a Cholesky factor.
Tensor are_positive_definite(const Tensor& x) {
  const Tensor apart = abs(x - transposed(x)), allowed = abs(x) * 1e-5 + 1e-6;
  const Tensor symmetric = all(all(le(apart, allowed), -1), -1);
  return logical_and(symmetric, eq(std::get<1>(linalg_cholesky_ex(x)), 0));
}

}  // namespace

LowRankMultivariateNormal::LowRankMultivariateNormal(const Tensor& loc, const Tensor& cov_factor,
                                                     const Tensor& cov_diag, bool validate)
    : Distribution({}, to_vector(with_dimensions(loc, 1, "loc").sizes().last(1)), validate) {
  with_dimensions(cov_factor, 2, "cov_factor");
  with_dimensions(cov_diag, 1, "cov_diag");
  const int64_t n = event_shape_[0], rank = cov_factor.sizes().back();
  TESSERA_CHECK_VALUE(cov_factor.sizes().end()[-2] == n, "cov_factor must be a batch of matrices with shape ", n,
                      " x m");
  TESSERA_CHECK_VALUE(cov_diag.sizes().back() == n, "cov_diag must be a batch of vectors with shape (", n, ",)");
  if (validate) {
    check_parameter("LowRankMultivariateNormal", "loc", loc, kReal);
    check_parameter("LowRankMultivariateNormal", "cov_factor", cov_factor, kReal);
    check_parameter("LowRankMultivariateNormal", "cov_diag", cov_diag, kPositive);
  }
  const Tensor row = select(loc, -1, 0), corner = select(select(cov_factor, -1, 0), -1, 0);
  const Tensor first = select(cov_diag, -1, 0);
  batch_shape_ = broadcast_shapes({&row, &corner, &first});
  loc_ = tessera::expand(loc, full_shape({}));
  cov_factor_ = tessera::expand(cov_factor, joined(full_shape({}), IntVector{rank}));
  cov_diag_ = tessera::expand(cov_diag, full_shape({}));
  capacitance_tril_ = linalg_cholesky(identity_like(loc, rank) + matmul(weighted(), cov_factor_));
}
Tensor LowRankMultivariateNormal::weighted() const { return transposed(cov_factor_) / unsqueeze(cov_diag_, -2); }
Tensor LowRankMultivariateNormal::variance() const { return sum(square(cov_factor_), IntVector{-1}) + cov_diag_; }
Tensor LowRankMultivariateNormal::covariance_matrix() const {
  return matmul(cov_factor_, transposed(cov_factor_)) + diag_embed(cov_diag_);
}
// D^(1/2) chol(I + D^(-1/2) W W^T D^(-1/2)): better conditioned than the covariance itself.
Tensor LowRankMultivariateNormal::scale_tril() const {
  const Tensor roots = unsqueeze(sqrt(cov_diag_), -1), scaled = cov_factor_ / roots;
  return roots * linalg_cholesky(identity_like(loc_, event_shape_[0]) + matmul(scaled, transposed(scaled)));
}
Tensor LowRankMultivariateNormal::precision_matrix() const {
  const Tensor inner = solve_lower(capacitance_tril_, weighted());
  return diag_embed(reciprocal(cov_diag_)) - matmul(transposed(inner), inner);
}
Tensor LowRankMultivariateNormal::root() const {
  const std::array<Tensor, 2> both{cov_factor_, diag_embed(sqrt(cov_diag_))};
  return cat(both, -1);
}
Tensor LowRankMultivariateNormal::log_det() const {
  return half_log_det(capacitance_tril_) * 2 + sum(log(cov_diag_), IntVector{-1});
}
Tensor LowRankMultivariateNormal::squares(const Tensor& columns) const {
  const Tensor plain = sum(square(columns) / unsqueeze(cov_diag_, -1), IntVector{-2, -1});
  return plain - trace_of_square(solve_lower(capacitance_tril_, matmul(weighted(), columns)));
}
Tensor LowRankMultivariateNormal::entropy() const {
  return (log_det() + static_cast<double>(event_shape_[0]) * (1 + std::log(2 * kPi))) * 0.5;
}
Tensor LowRankMultivariateNormal::draw(const IntVector& sample_shape, const Generator& generator) const {
  const IntVector shape = full_shape(sample_shape);
  IntVector of_rank = shape;
  of_rank.back() = cov_factor_.sizes().back();
  const Tensor of_factor = new_empty(loc_.detach(), of_rank).normal_(0, 1, generator);
  const Tensor of_diag = new_empty(loc_.detach(), shape).normal_(0, 1, generator);
  return loc_ + squeeze(matmul(cov_factor_, unsqueeze(of_factor, -1)), -1) + sqrt(cov_diag_) * of_diag;
}
Tensor LowRankMultivariateNormal::log_prob_of(const Tensor& value) const {
  const double n = static_cast<double>(event_shape_[0]);
  return (log_det() + squares(unsqueeze(value - loc_, -1)) + n * std::log(2 * kPi)) * -0.5;
}
void LowRankMultivariateNormal::check_value(const Tensor& value) const {
  check_shape(value);
  check_support(name(), value, kReal);
}
std::shared_ptr<Distribution> LowRankMultivariateNormal::expand(IntList batch_shape) const {
  auto copy = std::make_shared<LowRankMultivariateNormal>(*this);
  copy->batch_shape_ = to_vector(batch_shape);
  const IntVector full = copy->full_shape({}), ranks = to_vector(capacitance_tril_.sizes().last(2));
  copy->loc_ = tessera::expand(loc_, full);
  copy->cov_factor_ = tessera::expand(cov_factor_, joined(full, cov_factor_.sizes().last(1)));
  copy->cov_diag_ = tessera::expand(cov_diag_, full);
  copy->capacitance_tril_ = tessera::expand(capacitance_tril_, joined(copy->batch_shape_, ranks));
  return copy;
}

Wishart::Wishart(const Tensor& df, const Tensor& scale_tril, bool validate, int)
    : Distribution({}, to_vector(scale_tril.sizes().last(2)), validate) {
  TESSERA_CHECK_VALUE(event_shape_[0] == event_shape_[1], "Wishart: expected square matrices, but got ",
                      event_shape_[0], " rows and ", event_shape_[1], " columns");
  TESSERA_CHECK_VALUE(!any(le(df, n() - 1)).item<bool>(),
                      "Value of df expected to be greater than ndim - 1 = ", n() - 1, ", but the least is ",
                      min(df).item<double>(), ".");
  const Tensor corner = select(select(scale_tril, -1, 0), -1, 0);
  batch_shape_ = broadcast_shapes({&df, &corner});
  df_ = tessera::expand(df, batch_shape_);
  scale_tril_ = tessera::expand(scale_tril, full_shape({}));
}
Wishart::Wishart(const Tensor& df, const Covariance& covariance, bool validate)
    : Wishart(df, scale_tril_of("Wishart", covariance, validate), validate, 0) {}
Wishart::Wishart(const Tensor& df, const Precision& precision, bool validate)
    : Wishart(df, scale_tril_of("Wishart", precision, validate), validate, 0) {}
Wishart::Wishart(const Tensor& df, const ScaleTril& scale_tril, bool validate)
    : Wishart(df, scale_tril_of("Wishart", scale_tril, validate), validate, 0) {}
Tensor Wishart::covariance_matrix() const { return matmul(scale_tril_, transposed(scale_tril_)); }
Tensor Wishart::precision_matrix() const { return cholesky_inverse(scale_tril_); }
Tensor Wishart::mean() const { return as_matrices(df_) * covariance_matrix(); }
Tensor Wishart::mode() const {
  const Tensor less = df_ - (n() + 1);
  return as_matrices(masked_fill(less, le(less, 0), std::numeric_limits<double>::quiet_NaN())) * covariance_matrix();
}
Tensor Wishart::variance() const {
  const Tensor covariance = covariance_matrix(), variances = diagonal(covariance, 0, -2, -1);
  return as_matrices(df_) * (square(covariance) + unsqueeze(variances, -1) * unsqueeze(variances, -2));
}
Tensor Wishart::log_normaliser() const {
  const double n = static_cast<double>(this->n());
  return df_ * (half_log_det(scale_tril_) + 0.5 * n * std::numbers::ln2) + mvlgamma(df_ * 0.5, this->n());
}
Tensor Wishart::expected_log_det() const {
  const Tensor halves = (unsqueeze(df_, -1) - range_like(df_, 0, n())) * 0.5;
  return sum(digamma(halves), IntVector{-1}) + half_log_det(scale_tril_) * 2 +
         static_cast<double>(n()) * std::numbers::ln2;
}
Tensor Wishart::entropy() const {
  return log_normaliser() - (df_ - (n() + 1)) * expected_log_det() * 0.5 + df_ * (0.5 * static_cast<double>(n()));
}
Tensor Wishart::expected_log_prob(const Wishart& other) const {
  TESSERA_CHECK_VALUE(n() == other.n(), "Wishart: expected matrices of ", n(), " rows, but got ", other.n());
  const Tensor trace = other.df_ * trace_of_square(solve_lower(scale_tril_, other.scale_tril_));
  return (df_ - (n() + 1)) * other.expected_log_det() * 0.5 - trace * 0.5 - log_normaliser();
}
// Bartlett's decomposition: chi on the diagonal, normal below.
Tensor Wishart::draw_once(const IntVector& shape, const Generator& generator) const {
  const IntVector batch(shape.begin(), shape.end() - 2);
  const Tensor df = tessera::expand(unsqueeze(df_, -1) - range_like(df_, 0, n()), joined(batch, IntVector{n()}));
  const Tensor chi = sqrt(gamma_numbers(df * 0.5, full_like(df, 0.5), generator));
  const Tensor places = tril_indices(n(), n(), -1, DType::kInt64, std::nullopt, df_.device());
  const Tensor index = select(places, 0, 0) * n() + select(places, 0, 1);
  const IntVector below_shape = joined(batch, index.sizes());
  const Tensor noise = new_empty(df_.detach(), below_shape).normal_(0, 1, generator);
  const Tensor flat = new_zeros(df_.detach(), joined(batch, IntVector{n() * n()}));
  const Tensor below = reshape(scatter(flat, -1, tessera::expand(index, below_shape), noise), shape);
  const Tensor root = matmul(scale_tril_, diag_embed(chi) + below);
  return matmul(root, transposed(root));
}
// What rounding made singular is drawn again, three times at most.
Tensor Wishart::draw(const IntVector& sample_shape, const Generator& generator) const {
  const IntVector shape = full_shape(sample_shape);
  Tensor drawn = draw_once(shape, generator);
  for (int tries = 0; tries < 3; ++tries) {
    const Tensor fine = are_positive_definite(drawn.detach());
    if (all(fine).item<bool>()) break;
    drawn = where(as_matrices(fine), drawn, draw_once(shape, generator));
  }
  return drawn;
}
Tensor Wishart::log_prob_of(const Tensor& value) const {
  const Tensor root = linalg_cholesky(value), trace = trace_of_square(solve_lower(scale_tril_, root));
  return (df_ - (n() + 1)) * half_log_det(root) - trace * 0.5 - log_normaliser();
}
void Wishart::check_value(const Tensor& value) const {
  check_shape(value);
  if (!all(are_positive_definite(value)).item<bool>()) refuse_value(name(), value, "PositiveDefinite()");
}
std::shared_ptr<Distribution> Wishart::expand(IntList batch_shape) const {
  auto copy = std::make_shared<Wishart>(*this);
  copy->batch_shape_ = to_vector(batch_shape);
  copy->df_ = tessera::expand(df_, batch_shape);
  copy->scale_tril_ = tessera::expand(scale_tril_, copy->full_shape({}));
  return copy;
}

LKJCholesky::LKJCholesky(int64_t dim, const Tensor& concentration, bool validate)
    : Distribution(to_vector(concentration.sizes()), {dim, dim}, validate), concentration_(concentration) {
  TESSERA_CHECK_VALUE(dim >= 2, "Expected dim to be an integer greater than or equal to 2. Found dim=", dim, ".");
  if (validate) check_parameter("LKJCholesky", "concentration", concentration, kPositive);
}
// The square of each row's norm left of the diagonal is a beta number, its direction is uniform.
Tensor LKJCholesky::draw(const IntVector& sample_shape, const Generator& generator) const {
  const Tensor& eta = concentration_;
  const Tensor offset = clamp_min(range_like(eta, -1, dim() - 1), 0);
  const Tensor second = unsqueeze(eta + 0.5 * static_cast<double>(dim() - 2), -1) - offset * 0.5;
  const Tensor norms = unsqueeze(Beta(offset + 0.5, second, false).sample(sample_shape, generator), -1);
  const Tensor noise = tril(new_empty(norms, full_shape(sample_shape)).normal_(0, 1, generator), -1);
  // The first row has nothing left of the diagonal.
  const Tensor lengths = sqrt(sum(square(noise), IntVector{-1}, true));
  const Tensor below = sqrt(norms) * (noise / masked_fill(lengths, eq(lengths, 0), 1));
  const Tensor rest = clamp_min(1 - sum(square(below), IntVector{-1}), tiny_of(below));
  return below + diag_embed(sqrt(rest));
}
// det(C) is the product of squared diagonal elements, and the map from factors to matrices has the Jacobian
// prod_i L_ii^(dim - i).
Tensor LKJCholesky::log_prob_of(const Tensor& value) const {
  const double n = static_cast<double>(dim()), less = n - 1;
  const Tensor powers = unsqueeze(concentration_ - 1, -1) * 2 + (n - range_like(concentration_, 2, dim() + 1));
  const Tensor logs = log(narrow(diagonal(value, 0, -2, -1), -1, 1, dim() - 1));
  const Tensor alpha = concentration_ + 0.5 * less;
  const Tensor normaliser = mvlgamma(alpha - 0.5, dim() - 1) + 0.5 * less * std::log(kPi);
  return sum(powers * logs, IntVector{-1}) - normaliser + lgamma(alpha) * less;
}
void LKJCholesky::check_value(const Tensor& value) const {
  check_shape(value);
  const Tensor norms = sqrt(sum(square(value), IntVector{-1}));
  const bool unit = all(le(abs(norms - 1), 10 * static_cast<double>(dim()) * epsilon_of(value))).item<bool>();
  if (!unit || !all(eq(value, tril(value))).item<bool>() || !kPositive.check(diagonal(value, 0, -2, -1)))
    refuse_value(name(), value, "CorrCholesky()");
}
std::shared_ptr<Distribution> LKJCholesky::expand(IntList batch_shape) const {
  auto copy = std::make_shared<LKJCholesky>(*this);
  copy->batch_shape_ = to_vector(batch_shape);
  copy->concentration_ = tessera::expand(concentration_, batch_shape);
  return copy;
}

}  // namespace tessera::distributions
