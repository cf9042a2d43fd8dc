// Mixtures of distributions of one family.
#pragma once

#include "distributions/classes/vectors.h"

namespace tessera::distributions {

// The weights are a Categorical of batch_shape B and k classes, the components the last batch dimension of a
// distribution of batch_shape B + (k,).
class MixtureSameFamily : public Distribution {
 public:
  MixtureSameFamily(const Categorical& mixture, std::shared_ptr<const Distribution> components,
                    bool validate = default_validate_args());

  std::string name() const override { return "MixtureSameFamily"; }
  bool is_discrete() const override { return components_->is_discrete(); }
  const Categorical& mixture_distribution() const { return mixture_; }
  const Distribution& component_distribution() const { return *components_; }
  Tensor mean() const override;
  Tensor variance() const override;
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  // One of each component is drawn, of which one is taken.
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override;
  Tensor cdf_of(const Tensor& value) const override;
  void check_value(const Tensor& value) const override { check_shape(value); }

 private:
  // The dimension of components, counted from the end, in values and moments of components.
  int64_t at() const { return -1 - static_cast<int64_t>(event_shape_.size()); }
  // The sum over components of weights times values.
  Tensor expected(const Tensor& values) const;

  Categorical mixture_;
  std::shared_ptr<const Distribution> components_;
};

}  // namespace tessera::distributions
