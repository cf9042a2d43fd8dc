// Distributions of matrices, and of normal vectors whose covariance is a product of thin matrices and a diagonal.
#pragma once

#include "distributions/classes/vectors.h"

namespace tessera::distributions {

// Normal vectors with the covariance cov_factor @ cov_factor^T + diag(cov_diag): cov_factor (..., n, m) with m much
// less than n. Densities are computed from matrices (m, m), by Woodbury's identity.
class LowRankMultivariateNormal : public Distribution {
 public:
  LowRankMultivariateNormal(const Tensor& loc, const Tensor& cov_factor, const Tensor& cov_diag,
                            bool validate = default_validate_args());

  std::string name() const override { return "LowRankMultivariateNormal"; }
  bool has_rsample() const override { return true; }
  const Tensor& loc() const { return loc_; }
  const Tensor& cov_factor() const { return cov_factor_; }
  const Tensor& cov_diag() const { return cov_diag_; }
  Tensor covariance_matrix() const;
  Tensor precision_matrix() const;
  Tensor scale_tril() const;
  Tensor entropy() const override;
  Tensor mean() const override { return loc_; }
  Tensor mode() const override { return loc_; }
  Tensor variance() const override;
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

  // R of n rows with covariance R R^T.
  Tensor root() const;
  // The logarithm of the covariance's determinant.
  Tensor log_det() const;
  // The trace of C^T covariance^-1 C, for matrices C (..., n, k).
  Tensor squares(const Tensor& columns) const;

 protected:
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override;
  void check_value(const Tensor& value) const override;

 private:
  // cov_factor^T diag(cov_diag)^-1.
  Tensor weighted() const;

  Tensor loc_, cov_factor_, cov_diag_, capacitance_tril_;
};

// Positive definite matrices (n, n): sums of x x^T over df normal vectors; df: more than n - 1, not necessarily whole.
class Wishart : public Distribution {
 public:
  Wishart(const Tensor& df, const Covariance& covariance, bool validate = default_validate_args());
  Wishart(const Tensor& df, const Precision& precision, bool validate = default_validate_args());
  Wishart(const Tensor& df, const ScaleTril& scale_tril, bool validate = default_validate_args());

  std::string name() const override { return "Wishart"; }
  bool has_rsample() const override { return true; }
  const Tensor& df() const { return df_; }
  const Tensor& scale_tril() const { return scale_tril_; }
  Tensor covariance_matrix() const;
  Tensor precision_matrix() const;
  Tensor entropy() const override;
  Tensor mean() const override;
  // nan where df <= n + 1.
  Tensor mode() const override;
  Tensor variance() const override;
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

  // The mean of log_prob over matrices of another Wishart distribution.
  Tensor expected_log_prob(const Wishart& other) const;

 protected:
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override;
  void check_value(const Tensor& value) const override;

 private:
  Wishart(const Tensor& df, const Tensor& scale_tril, bool validate, int);
  int64_t n() const { return event_shape_[0]; }
  Tensor draw_once(const IntVector& shape, const Generator& generator) const;
  Tensor log_normaliser() const;
  // The mean of log det X.
  Tensor expected_log_det() const;

  Tensor df_, scale_tril_;
};

// Cholesky factors (dim, dim) of correlation matrices C, with a density of C proportional to
// det(C) ** (concentration - 1): uniform for 1. Draws are made by the onion method.
class LKJCholesky : public Distribution {
 public:
  LKJCholesky(int64_t dim, const Tensor& concentration, bool validate = default_validate_args());

  std::string name() const override { return "LKJCholesky"; }
  const Tensor& concentration() const { return concentration_; }
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override;
  void check_value(const Tensor& value) const override;

 private:
  int64_t dim() const { return event_shape_[0]; }

  Tensor concentration_;
};

}  // namespace tessera::distributions
