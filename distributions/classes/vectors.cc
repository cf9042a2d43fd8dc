#include "distributions/classes/vectors.h"

#include "distributions/all_ops.h"
#include "distributions/classes/vector_functions.h"
#include "linalg/all_ops.h"
#include "tensor/ops/api.h"
#include "tensor/ops/promotion.h"

namespace tessera::distributions {
IntVector without_last(const Tensor& x, size_t count) {
  return IntVector(x.sizes().begin(), x.sizes().end() - static_cast<std::ptrdiff_t>(count));
}
IntVector joined(IntVector first, IntList second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}
const Tensor& with_dimensions(const Tensor& x, int64_t least, const char* what) {
  TESSERA_CHECK_VALUE(x.is_floating_point() && x.dim() >= least, "`", what, "` parameter must be at least ",
                      least == 1 ? "one" : "two", "-dimensional, of floating numbers, but it has ", x.dim(),
                      " dimensions of ", type_name_of(x.dtype()));
  return x;
}

void check_shares(const char* distribution, const Tensor& probs) {
  if (!(kNonNegative.check(probs) && all(gt(sum(probs, IntVector{-1}), 0)).item<bool>()))
    refuse_parameter(distribution, "probs", probs, "Simplex()");
}

namespace {

Tensor normalised(const Tensor& logits) { return logits - logsumexp(logits, IntVector{-1}, true); }
Tensor log_of_shares(const Probs& probs, bool validate) {
  const Tensor& p = with_dimensions(probs.value, 1, "probs");
  if (validate) check_shares("Categorical", p);
  const double epsilon = p.dtype() == DType::kFloat64 ? std::numeric_limits<double>::epsilon()
                                                      : static_cast<double>(std::numeric_limits<float>::epsilon());
  return log(clamp(p / sum(p, IntVector{-1}, true), epsilon, 1 - epsilon));
}

}  // namespace

Categorical::Categorical(const Probs& probs, bool validate)
    : Distribution(without_last(with_dimensions(probs.value, 1, "probs"), 1), {}, validate),
      logits_(log_of_shares(probs, validate)) {}
Categorical::Categorical(const Logits& logits, bool validate)
    : Distribution(without_last(with_dimensions(logits.value, 1, "logits"), 1), {}, validate),
      logits_(normalised(logits.value)) {
  if (validate) check_parameter("Categorical", "logits", logits.value, kReal);
}
Tensor Categorical::probs() const { return softmax(logits_, -1); }
Tensor Categorical::entropy() const { return _dist_categorical_entropy(logits_); }
Tensor Categorical::mode() const { return argmax(logits_, -1); }
Tensor Categorical::draw(const IntVector& sample_shape, const Generator& generator) const {
  int64_t count = 1;
  for (const int64_t n : sample_shape) count *= n;
  const Tensor rows = reshape(probs(), IntVector{-1, logits_.sizes().back()});
  return reshape(transpose(multinomial(rows, count, true, generator), 0, 1), full_shape(sample_shape));
}
Tensor Categorical::log_prob_of(const Tensor& value) const { return _dist_categorical_log_prob(value, logits_); }
void Categorical::check_value(const Tensor& value) const {
  check_shape(value);
  const Constraint classes{"IntegerInterval(lower_bound=0, upper_bound=number of classes - 1)", 0,
                           static_cast<double>(logits_.sizes().back() - 1), 4};
  check_support(name(), value, classes);
}
Tensor Categorical::enumerate_support(bool expand) const {
  const int64_t n = logits_.sizes().back();
  IntVector shape{n};
  shape.insert(shape.end(), batch_shape_.size(), 1);
  const Tensor values = reshape(arange(n, DType::kInt64, std::nullopt, logits_.device()), shape);
  return expand ? tessera::expand(values, joined({n}, batch_shape_)) : values;
}
std::shared_ptr<Distribution> Categorical::expand(IntList batch_shape) const {
  auto copy = std::make_shared<Categorical>(*this);
  copy->batch_shape_ = to_vector(batch_shape);
  copy->logits_ = tessera::expand(logits_, joined(to_vector(batch_shape), logits_.sizes().last(1)));
  return copy;
}

Dirichlet::Dirichlet(const Tensor& concentration, bool validate)
    : Distribution(without_last(with_dimensions(concentration, 1, "concentration"), 1),
                   to_vector(concentration.sizes().last(1)), validate),
      concentration_(concentration) {
  if (validate) check_parameter("Dirichlet", "concentration", concentration, kPositive);
}
Tensor Dirichlet::draw(const IntVector& sample_shape, const Generator& generator) const {
  return _sample_dirichlet(tessera::expand(concentration_, full_shape(sample_shape)), generator);
}
Tensor Dirichlet::log_prob_of(const Tensor& value) const { return _dist_dirichlet_log_prob(value, concentration_); }
Tensor Dirichlet::entropy() const { return _dist_dirichlet_entropy(concentration_); }
Tensor Dirichlet::mean() const { return concentration_ / sum(concentration_, IntVector{-1}, true); }
Tensor Dirichlet::variance() const {
  const Tensor total = sum(concentration_, IntVector{-1}, true);
  return concentration_ * (total - concentration_) / (square(total) * (total + 1));
}
void Dirichlet::check_value(const Tensor& value) const {
  check_shape(value);
  check_support(name(), value, kUnitInterval);
  if (!all(lt(abs(sum(value, IntVector{-1}) - 1), 1e-6)).item<bool>()) refuse_value(name(), value, "Simplex()");
}
std::shared_ptr<Distribution> Dirichlet::expand(IntList batch_shape) const {
  auto copy = std::make_shared<Dirichlet>(*this);
  copy->batch_shape_ = to_vector(batch_shape);
  copy->concentration_ = tessera::expand(concentration_, joined(to_vector(batch_shape), event_shape_));
  return copy;
}

Tensor solve_lower(const Tensor& factor, const Tensor& columns) {
  const Tensor row = select(factor, -1, 0), other = select(columns, -1, 0);
  const IntVector full = broadcast_shapes({&row, &other});
  return linalg_solve_triangular(tessera::expand(factor, joined(full, factor.sizes().last(1))),
                                 tessera::expand(columns, joined(full, columns.sizes().last(1))), /*upper=*/false);
}
Tensor half_log_det(const Tensor& factor) { return sum(log(diagonal(factor, 0, -2, -1)), IntVector{-1}); }

namespace {

Tensor factor_of(const char* distribution, const char* parameter, const Tensor& matrix, bool validate) {
  with_dimensions(matrix, 2, parameter);
  const auto [factor, info] = linalg_cholesky_ex(matrix);
  if (validate && !all(eq(info, 0)).item<bool>())
    refuse_parameter(distribution, parameter, matrix, "PositiveDefinite()");
  return factor;
}

}  // namespace

Tensor scale_tril_of(const char* distribution, const Covariance& covariance, bool validate) {
  return factor_of(distribution, "covariance_matrix", covariance.value, validate);
}
// L of a precision matrix P: with the factor of P read from its end, whose inverse is triangular the same way.
Tensor scale_tril_of(const char* distribution, const Precision& precision, bool validate) {
  const IntVector both{-2, -1};
  const Tensor factor = factor_of(distribution, "precision_matrix", precision.value, validate);
  const Tensor reversed = linalg_cholesky(flip(precision.value, both));
  const Tensor inverse = transpose(flip(reversed, both), -2, -1);
  return solve_lower(inverse, eye(factor.sizes().back(), factor.dtype(), std::nullopt, factor.device()));
}
Tensor scale_tril_of(const char* distribution, const ScaleTril& scale_tril, bool validate) {
  const Tensor& L = with_dimensions(scale_tril.value, 2, "scale_tril");
  if (validate && !(all(eq(L, tril(L))).item<bool>() && kPositive.check(diagonal(L, 0, -2, -1))))
    refuse_parameter(distribution, "scale_tril", L, "LowerCholesky()");
  return L;
}

MultivariateNormal::MultivariateNormal(const Tensor& loc, const Tensor& scale_tril, bool validate, int)
    : Distribution({}, to_vector(with_dimensions(loc, 1, "loc").sizes().last(1)), validate) {
  with_dimensions(scale_tril, 2, "scale_tril");
  const int64_t n = event_shape_[0];
  TESSERA_CHECK_VALUE(scale_tril.sizes().end()[-1] == n && scale_tril.sizes().end()[-2] == n,
                      "MultivariateNormal: expected matrices of ", n, " rows and columns, as loc has, but got ",
                      scale_tril.sizes().end()[-2], " and ", scale_tril.sizes().end()[-1]);
  const Tensor row = select(scale_tril, -1, 0);
  const IntVector full = broadcast_shapes({&loc, &row});
  batch_shape_ = IntVector(full.begin(), full.end() - 1);
  loc_ = tessera::expand(loc, full);
  scale_tril_ = tessera::expand(scale_tril, joined(full, IntVector{n}));
  if (validate) check_parameter("MultivariateNormal", "loc", loc, kReal);
}
MultivariateNormal::MultivariateNormal(const Tensor& loc, const Covariance& covariance, bool validate)
    : MultivariateNormal(loc, scale_tril_of("MultivariateNormal", covariance, validate), validate, 0) {}
MultivariateNormal::MultivariateNormal(const Tensor& loc, const Precision& precision, bool validate)
    : MultivariateNormal(loc, scale_tril_of("MultivariateNormal", precision, validate), validate, 0) {}
MultivariateNormal::MultivariateNormal(const Tensor& loc, const ScaleTril& scale_tril, bool validate)
    : MultivariateNormal(loc, scale_tril_of("MultivariateNormal", scale_tril, validate), validate, 0) {}
Tensor MultivariateNormal::covariance_matrix() const { return matmul(scale_tril_, transpose(scale_tril_, -2, -1)); }
Tensor MultivariateNormal::precision_matrix() const { return cholesky_inverse(scale_tril_); }
Tensor MultivariateNormal::variance() const { return sum(square(scale_tril_), IntVector{-1}); }
Tensor MultivariateNormal::entropy() const {
  const double n = static_cast<double>(event_shape_[0]);
  return half_log_det(scale_tril_) + n * 1.4189385332046727;
}
Tensor MultivariateNormal::draw(const IntVector& sample_shape, const Generator& generator) const {
  const Tensor noise = new_empty(loc_.detach(), full_shape(sample_shape)).normal_(0, 1, generator);
  return loc_ + squeeze(matmul(scale_tril_, unsqueeze(noise, -1)), -1);
}
Tensor MultivariateNormal::log_prob_of(const Tensor& value) const {
  return _dist_multivariate_normal_log_prob(value, loc_, scale_tril_);
}
void MultivariateNormal::check_value(const Tensor& value) const {
  check_shape(value);
  check_support(name(), value, kReal);
}
std::shared_ptr<Distribution> MultivariateNormal::expand(IntList batch_shape) const {
  auto copy = std::make_shared<MultivariateNormal>(*this);
  copy->batch_shape_ = to_vector(batch_shape);
  const IntVector full = joined(to_vector(batch_shape), event_shape_);
  copy->loc_ = tessera::expand(loc_, full);
  copy->scale_tril_ = tessera::expand(scale_tril_, joined(full, event_shape_));
  return copy;
}

}  // namespace tessera::distributions
