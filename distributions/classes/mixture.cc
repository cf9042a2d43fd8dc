#include "distributions/classes/mixture.h"

#include <algorithm>

#include "distributions/classes/vector_functions.h"
#include "tensor/ops/api.h"

namespace tessera::distributions {
namespace {

IntVector batch_of_mixture(const Distribution& components) {
  const IntVector& batch = components.batch_shape();
  TESSERA_CHECK_VALUE(!batch.empty(),
                      "`component_distribution.batch_shape` must end in the number of components, but is empty");
  return IntVector(batch.begin(), batch.end() - 1);
}
Tensor with_ones(const Tensor& x, size_t count) {
  return reshape(x, joined(to_vector(x.sizes()), IntVector(count, 1)));
}

}  // namespace

MixtureSameFamily::MixtureSameFamily(const Categorical& mixture, std::shared_ptr<const Distribution> components,
                                     bool validate)
    : Distribution(batch_of_mixture(*components), components->event_shape(), validate),
      mixture_(mixture),
      components_(std::move(components)) {
  const IntVector& weights = mixture_.batch_shape();
  for (size_t i = 1; i <= std::min(weights.size(), batch_shape_.size()); ++i) {
    const int64_t one = weights[weights.size() - i], other = batch_shape_[batch_shape_.size() - i];
    TESSERA_CHECK_VALUE(one == 1 || other == 1 || one == other,
                        "`mixture_distribution.batch_shape` is not compatible with "
                        "`component_distribution.batch_shape`: ",
                        one, " and ", other, " in dimension ", -static_cast<int64_t>(i));
  }
  TESSERA_CHECK_VALUE(mixture_.logits().sizes().back() == components_->batch_shape().back(),
                      "`mixture_distribution component` (", mixture_.logits().sizes().back(),
                      ") does not equal `component_distribution.batch_shape[-1]` (", components_->batch_shape().back(),
                      ")");
}
Tensor MixtureSameFamily::expected(const Tensor& values) const {
  return sum(with_ones(mixture_.probs(), event_shape_.size()) * values, IntVector{at()});
}
Tensor MixtureSameFamily::mean() const { return expected(components_->mean()); }
Tensor MixtureSameFamily::variance() const {
  const Tensor apart = components_->mean() - unsqueeze(mean(), at());
  return expected(components_->variance()) + expected(square(apart));
}
Tensor MixtureSameFamily::cdf_of(const Tensor& value) const {
  return sum(components_->cdf(unsqueeze(value, at())) * mixture_.probs(), IntVector{-1});
}
Tensor MixtureSameFamily::log_prob_of(const Tensor& value) const {
  return logsumexp(components_->log_prob(unsqueeze(value, at())) + mixture_.logits(), IntVector{-1});
}
Tensor MixtureSameFamily::draw(const IntVector& sample_shape, const Generator& generator) const {
  const Tensor chosen = mixture_.sample(sample_shape, generator), drawn = components_->sample(sample_shape, generator);
  IntVector sizes = to_vector(drawn.sizes());
  sizes[static_cast<size_t>(drawn.dim() + at())] = 1;
  const Tensor index = tessera::expand(with_ones(chosen, 1 + event_shape_.size()), sizes);
  return squeeze(gather(drawn, at(), index), at());
}
std::shared_ptr<Distribution> MixtureSameFamily::expand(IntList batch_shape) const {
  const auto weights = mixture_.expand(batch_shape);
  const auto components =
      components_->expand(joined(to_vector(batch_shape), IntVector{components_->batch_shape().back()}));
  return std::make_shared<MixtureSameFamily>(static_cast<const Categorical&>(*weights), components, validate_);
}

}  // namespace tessera::distributions
