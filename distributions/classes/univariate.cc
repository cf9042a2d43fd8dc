#include "distributions/classes/univariate.h"

#include "tensor/ops/api.h"
#include "tensor/ops/promotion.h"

namespace tessera::distributions {
namespace {

std::vector<Tensor> broadcast(std::initializer_list<Tensor> given) {
  const Tensor* p = given.begin();
  for (const Tensor& tensor : given)
    TESSERA_CHECK(tensor.is_floating_point(), "parameters of distributions are floating tensors, but got one of ",
                  type_name_of(tensor.dtype()));
  const Tensor &second = given.size() > 1 ? p[1] : p[0], &third = given.size() > 2 ? p[2] : p[0];
  const IntVector shape = broadcast_shapes({&p[0], &second, &third});
  std::vector<Tensor> all;
  for (const Tensor& tensor : given) all.push_back(tessera::expand(tensor, shape));
  return all;
}

}  // namespace

Univariate::Univariate(const Family& family, std::initializer_list<Tensor> parameters, bool validate)
    : Distribution({}, {}, validate), family_(&family), parameters_(broadcast(parameters)) {
  batch_shape_ = to_vector(parameters_[0].sizes());
  if (!validate) return;
  for (size_t i = 0; i < family.parameters.size(); ++i)
    check_parameter(family.name, family.parameters[i].name, parameters.begin()[i], *family.parameters[i].constraint);
}

Tensor Univariate::draw(const IntVector& sample_shape, const Generator& generator) const {
  const IntVector shape = full_shape(sample_shape);
  std::vector<Tensor> p;
  for (const Tensor& parameter : parameters_) p.push_back(tessera::expand(parameter, shape));
  return family_->draw(p.data(), generator);
}
Tensor Univariate::log_prob_of(const Tensor& value) const { return family_->log_prob(value, parameters_.data()); }
Tensor Univariate::cdf_of(const Tensor& value) const {
  return family_->cdf ? family_->cdf(value, parameters_.data()) : Distribution::cdf_of(value);
}
Tensor Univariate::icdf_of(const Tensor& probability) const {
  if (!family_->icdf) return Distribution::icdf_of(probability);
  if (validate_) check_support(name(), probability, kUnitInterval);
  return family_->icdf(probability, parameters_.data());
}
void Univariate::check_value(const Tensor& value) const {
  check_shape(value);
  check_support(name(), value, *family_->support);
  if (family_->inside && !all(family_->inside(value, parameters_.data())).item<bool>())
    refuse_value(name(), value, "of its parameters");
}

#define TESSERA_OF_FAMILY(what) \
  Tensor Univariate::what() const { return family_->what ? family_->what(parameters_.data()) : Distribution::what(); }
TESSERA_OF_FAMILY(entropy)
TESSERA_OF_FAMILY(mean)
TESSERA_OF_FAMILY(variance)
TESSERA_OF_FAMILY(mode)
#undef TESSERA_OF_FAMILY
Tensor Univariate::enumerate_support(bool expand) const { return Distribution::enumerate_support(expand); }

std::shared_ptr<Distribution> Univariate::expand(IntList batch_shape) const {
  auto copy = std::make_shared<Univariate>(*this);
  copy->batch_shape_ = to_vector(batch_shape);
  for (Tensor& p : copy->parameters_) p = tessera::expand(p, batch_shape);
  return copy;
}

}  // namespace tessera::distributions
