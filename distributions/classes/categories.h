// Distributions over categories besides their numbers: one-hot vectors, counts, continuous relaxations.
#pragma once

#include "distributions/classes/composed.h"

namespace tessera::distributions {

// Vectors of as many numbers as there are categories.
class OverCategories : public Distribution {
 public:
  // Normalised.
  const Tensor& logits() const { return categories_.logits(); }
  Tensor probs() const { return categories_.probs(); }

 protected:
  OverCategories(Categorical categories, bool validate);
  int64_t count() const { return event_shape_[0]; }
  void expand_to(IntList batch_shape);

  Categorical categories_;
};

class OneHotCategorical : public OverCategories {
 public:
  explicit OneHotCategorical(const Probs& probs, bool validate = default_validate_args());
  explicit OneHotCategorical(const Logits& logits, bool validate = default_validate_args());

  std::string name() const override { return "OneHotCategorical"; }
  bool is_discrete() const override { return true; }
  Tensor entropy() const override { return categories_.entropy(); }
  Tensor mean() const override { return probs(); }
  Tensor mode() const override;
  Tensor variance() const override;
  Tensor enumerate_support(bool expand = true) const override;
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override;
  void check_value(const Tensor& value) const override;

 private:
  Tensor one_hot(const Tensor& numbers) const;
};

// Its draws have the gradients of the probabilities.
class OneHotCategoricalStraightThrough : public OneHotCategorical {
 public:
  using OneHotCategorical::OneHotCategorical;

  std::string name() const override { return "OneHotCategoricalStraightThrough"; }
  bool has_rsample() const override { return true; }
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
};

// How often each category is drawn in total_count draws.
class Multinomial : public OverCategories {
 public:
  Multinomial(int64_t total_count, const Probs& probs, bool validate = default_validate_args());
  Multinomial(int64_t total_count, const Logits& logits, bool validate = default_validate_args());

  std::string name() const override { return "Multinomial"; }
  bool is_discrete() const override { return true; }
  int64_t total_count() const { return total_count_; }
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override;
  void check_value(const Tensor& value) const override;

 private:
  int64_t total_count_;
};

// The logarithm of RelaxedOneHotCategorical: normalised Gumbel noise around logits, over temperature (of batch_shape,
// or one number).
class ExpRelaxedCategorical : public OverCategories {
 public:
  ExpRelaxedCategorical(const Tensor& temperature, const Probs& probs, bool validate = default_validate_args());
  ExpRelaxedCategorical(const Tensor& temperature, const Logits& logits, bool validate = default_validate_args());

  std::string name() const override { return "ExpRelaxedCategorical"; }
  bool has_rsample() const override { return true; }
  const Tensor& temperature() const { return temperature_; }
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override;
  void check_value(const Tensor& value) const override;

 private:
  Tensor temperature_;
};

// Numbers in (0, 1), and points of the simplex, that approach draws of Bernoulli and of OneHotCategorical as
// temperature goes to 0, with gradients to the parameters.
class RelaxedBernoulli : public TransformedDistribution {
 public:
  RelaxedBernoulli(const Tensor& temperature, const Probs& probs, bool validate = default_validate_args());
  RelaxedBernoulli(const Tensor& temperature, const Logits& logits, bool validate = default_validate_args());

  std::string name() const override { return "RelaxedBernoulli"; }
  const Tensor& temperature() const { return parameters()[0]; }
  const Tensor& logits() const { return parameters()[1]; }
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  void check_value(const Tensor& value) const override;

 private:
  const std::vector<Tensor>& parameters() const { return static_cast<const Univariate&>(base()).parameters(); }
};
class RelaxedOneHotCategorical : public TransformedDistribution {
 public:
  RelaxedOneHotCategorical(const Tensor& temperature, const Probs& probs, bool validate = default_validate_args());
  RelaxedOneHotCategorical(const Tensor& temperature, const Logits& logits, bool validate = default_validate_args());

  std::string name() const override { return "RelaxedOneHotCategorical"; }
  const Tensor& temperature() const { return relaxed().temperature(); }
  const Tensor& logits() const { return relaxed().logits(); }
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  void check_value(const Tensor& value) const override;

 private:
  const ExpRelaxedCategorical& relaxed() const { return static_cast<const ExpRelaxedCategorical&>(base()); }
};

}  // namespace tessera::distributions
