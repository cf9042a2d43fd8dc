// Distributions of classes and of vectors.
#pragma once

#include "distributions/classes/univariate.h"

namespace tessera::distributions {

// One of n classes for each row of n probabilities, or of logits; both up to a factor, or a constant.
class Categorical : public Distribution {
 public:
  explicit Categorical(const Probs& probs, bool validate = default_validate_args());
  explicit Categorical(const Logits& logits, bool validate = default_validate_args());

  std::string name() const override { return "Categorical"; }
  bool is_discrete() const override { return true; }
  // Normalised.
  const Tensor& logits() const { return logits_; }
  Tensor probs() const;
  Tensor entropy() const override;
  Tensor mode() const override;
  Tensor enumerate_support(bool expand = true) const override;
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override;
  void check_value(const Tensor& value) const override;

 private:
  Tensor logits_;
};

// Positive numbers of the sum 1.
class Dirichlet : public Distribution {
 public:
  explicit Dirichlet(const Tensor& concentration, bool validate = default_validate_args());

  std::string name() const override { return "Dirichlet"; }
  bool has_rsample() const override { return true; }
  const Tensor& concentration() const { return concentration_; }
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override;
  void check_value(const Tensor& value) const override;

 private:
  Tensor concentration_;
};

// What a multivariate normal distribution is made from besides its mean: L L^T, its inverse, or L itself.
struct Covariance {
  Tensor value;
};
struct Precision {
  Tensor value;
};
struct ScaleTril {
  Tensor value;
};

class MultivariateNormal : public Distribution {
 public:
  MultivariateNormal(const Tensor& loc, const Covariance& covariance, bool validate = default_validate_args());
  MultivariateNormal(const Tensor& loc, const Precision& precision, bool validate = default_validate_args());
  MultivariateNormal(const Tensor& loc, const ScaleTril& scale_tril, bool validate = default_validate_args());

  std::string name() const override { return "MultivariateNormal"; }
  bool has_rsample() const override { return true; }
  const Tensor& loc() const { return loc_; }
  const Tensor& scale_tril() const { return scale_tril_; }
  Tensor covariance_matrix() const;
  Tensor precision_matrix() const;
  Tensor entropy() const override;
  Tensor mean() const override { return loc_; }
  Tensor mode() const override { return loc_; }
  Tensor variance() const override;
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override;
  void check_value(const Tensor& value) const override;

 private:
  MultivariateNormal(const Tensor& loc, const Tensor& scale_tril, bool validate, int);

  Tensor loc_, scale_tril_;
};

}  // namespace tessera::distributions
