#include "distributions/classes/composed.h"

#include <algorithm>
#include <cmath>
#include <typeinfo>

#include "distributions/classes/family_functions.h"
#include "tensor/ops/api.h"

namespace tessera::distributions {
namespace {

IntVector part(const IntVector& shape, size_t from, size_t to) {
  return IntVector(shape.begin() + static_cast<std::ptrdiff_t>(from), shape.begin() + static_cast<std::ptrdiff_t>(to));
}
Tensor last_sums(const Tensor& x, int64_t count) {
  if (count == 0) return x;
  IntVector dims;
  for (int64_t i = 1; i <= count; ++i) dims.push_back(-i);
  return sum(x, dims);
}
Tensor softplus_of(const Tensor& x) { return logaddexp(x, zeros_like(x)); }

}  // namespace

Independent::Independent(std::shared_ptr<const Distribution> base, int64_t reinterpreted_batch_ndims, bool validate)
    : Distribution({}, {}, validate), base_(std::move(base)), count_(reinterpreted_batch_ndims) {
  const IntVector& batch = base_->batch_shape();
  TESSERA_CHECK_VALUE(count_ >= 0 && count_ <= static_cast<int64_t>(batch.size()),
                      "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual ", count_,
                      " vs ", batch.size());
  const size_t kept = batch.size() - static_cast<size_t>(count_);
  batch_shape_ = part(batch, 0, kept);
  event_shape_ = part(batch, kept, batch.size());
  event_shape_.insert(event_shape_.end(), base_->event_shape().begin(), base_->event_shape().end());
}
Tensor Independent::summed(const Tensor& x) const { return last_sums(x, count_); }
// Whether there is a gradient is decided by sample and rsample of this.
Tensor Independent::draw(const IntVector& sample_shape, const Generator& generator) const {
  return has_rsample() ? base_->rsample(sample_shape, generator) : base_->sample(sample_shape, generator);
}
std::shared_ptr<Distribution> Independent::expand(IntList batch_shape) const {
  IntVector full = to_vector(batch_shape);
  full.insert(full.end(), event_shape_.begin(), event_shape_.begin() + count_);
  return std::make_shared<Independent>(base_->expand(full), count_, validate_);
}

bool Transform::same_as(const Transform& other) const { return typeid(*this) == typeid(other); }
bool AffineTransform::same_as(const Transform& other) const {
  const auto* affine = dynamic_cast<const AffineTransform*>(&other);
  return affine && affine->loc_ == loc_ && affine->scale_ == scale_;
}
Tensor AffineTransform::operator()(const Tensor& x) const { return x * scale_ + loc_; }
Tensor AffineTransform::inverse(const Tensor& y) const { return (y - loc_) / scale_; }
Tensor AffineTransform::log_abs_det_jacobian(const Tensor& x, const Tensor&) const {
  return full_like(x, std::log(std::fabs(scale_)));
}
Tensor ExpTransform::operator()(const Tensor& x) const { return exp(x); }
Tensor ExpTransform::inverse(const Tensor& y) const { return log(y); }
Tensor ExpTransform::log_abs_det_jacobian(const Tensor& x, const Tensor&) const { return x; }
// Kept within (0, 1), where the inverse is finite.
Tensor SigmoidTransform::operator()(const Tensor& x) const { return clamp(sigmoid(x), tiny_of(x), 1 - epsilon_of(x)); }
Tensor SigmoidTransform::inverse(const Tensor& y) const {
  const Tensor inner = clamp(y, tiny_of(y), 1 - epsilon_of(y));
  return log(inner) - log1p(neg(inner));
}
Tensor SigmoidTransform::log_abs_det_jacobian(const Tensor& x, const Tensor&) const {
  return neg(softplus_of(x) + softplus_of(neg(x)));
}
Tensor TanhTransform::operator()(const Tensor& x) const { return tanh(x); }
Tensor TanhTransform::inverse(const Tensor& y) const { return atanh(y); }
Tensor TanhTransform::log_abs_det_jacobian(const Tensor& x, const Tensor&) const {
  return (0.69314718055994531 - x - softplus_of(x * -2)) * 2;
}
Tensor SoftplusTransform::operator()(const Tensor& x) const { return softplus_of(x); }
Tensor SoftplusTransform::inverse(const Tensor& y) const { return log(neg(expm1(neg(y)))) + y; }
Tensor SoftplusTransform::log_abs_det_jacobian(const Tensor& x, const Tensor&) const {
  return neg(softplus_of(neg(x)));
}

TransformedDistribution::TransformedDistribution(std::shared_ptr<const Distribution> base,
                                                 std::vector<std::shared_ptr<const Transform>> transforms,
                                                 bool validate)
    : Distribution(base->batch_shape(), base->event_shape(), validate),
      base_(std::move(base)),
      transforms_(std::move(transforms)) {}
Tensor TransformedDistribution::draw(const IntVector& sample_shape, const Generator& generator) const {
  Tensor x = has_rsample() ? base_->rsample(sample_shape, generator) : base_->sample(sample_shape, generator);
  for (const auto& transform : transforms_) x = (*transform)(x);
  return x;
}
Tensor TransformedDistribution::log_prob_of(const Tensor& value) const {
  const int64_t event = static_cast<int64_t>(event_shape_.size());
  Tensor y = value, logs;
  for (auto transform = transforms_.rbegin(); transform != transforms_.rend(); ++transform) {
    const Tensor x = (*transform)->inverse(y), one = last_sums((*transform)->log_abs_det_jacobian(x, y), event);
    logs = logs.defined() ? logs + one : one;
    y = x;
  }
  const Tensor density = base_->log_prob(y);
  return logs.defined() ? density - logs : density;
}
bool TransformedDistribution::same_transforms(const TransformedDistribution& other) const {
  return std::equal(transforms_.begin(), transforms_.end(), other.transforms_.begin(), other.transforms_.end(),
                    [](const auto& one, const auto& two) { return one->same_as(*two); });
}
bool TransformedDistribution::increasing() const {
  bool up = true;
  for (const auto& transform : transforms_) up = up == transform->increasing();
  return up;
}
Tensor TransformedDistribution::cdf_of(const Tensor& value) const {
  Tensor x = value;
  for (auto transform = transforms_.rbegin(); transform != transforms_.rend(); ++transform)
    x = (*transform)->inverse(x);
  const Tensor below = base_->cdf(x);
  return increasing() ? below : 1 - below;
}
Tensor TransformedDistribution::icdf_of(const Tensor& probability) const {
  Tensor x = base_->icdf(increasing() ? probability : 1 - probability);
  for (const auto& transform : transforms_) x = (*transform)(x);
  return x;
}
std::shared_ptr<Distribution> TransformedDistribution::expand(IntList batch_shape) const {
  return std::make_shared<TransformedDistribution>(base_->expand(batch_shape), transforms_, validate_);
}

}  // namespace tessera::distributions
