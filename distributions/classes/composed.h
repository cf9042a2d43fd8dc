// Distributions made of others: batches as vectors, images under transforms.
#pragma once

#include <memory>
#include <vector>

#include "distributions/classes/vectors.h"

namespace tessera::distributions {

// The last dimensions of a distribution's batch as dimensions of its events: log_prob is their sum.
class Independent : public Distribution {
 public:
  Independent(std::shared_ptr<const Distribution> base, int64_t reinterpreted_batch_ndims,
              bool validate = default_validate_args());

  std::string name() const override { return "Independent(" + base_->name() + ")"; }
  bool has_rsample() const override { return base_->has_rsample(); }
  bool is_discrete() const override { return base_->is_discrete(); }
  const Distribution& base() const { return *base_; }
  int64_t reinterpreted_batch_ndims() const { return count_; }
  // Sums over the joined dimensions.
  Tensor summed(const Tensor& x) const;
  Tensor entropy() const override { return summed(base_->entropy()); }
  Tensor mean() const override { return base_->mean(); }
  Tensor mode() const override { return base_->mode(); }
  Tensor variance() const override { return base_->variance(); }
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override { return summed(base_->log_prob(value)); }
  void check_value(const Tensor& value) const override { check_shape(value); }

 private:
  std::shared_ptr<const Distribution> base_;
  int64_t count_;
};

// A map of numbers with an inverse.
class Transform {
 public:
  virtual ~Transform() = default;
  virtual Tensor operator()(const Tensor& x) const = 0;
  virtual Tensor inverse(const Tensor& y) const = 0;
  // log |dy / dx|.
  virtual Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const = 0;
  virtual bool increasing() const { return true; }
  // Whether the other one is the same map.
  virtual bool same_as(const Transform& other) const;
};
class AffineTransform : public Transform {
 public:
  AffineTransform(double loc, double scale) : loc_(loc), scale_(scale) {}
  Tensor operator()(const Tensor& x) const override;
  Tensor inverse(const Tensor& y) const override;
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override;
  bool increasing() const override { return scale_ > 0; }
  bool same_as(const Transform& other) const override;

 private:
  double loc_, scale_;
};
#define TESSERA_TRANSFORM(Name)                                                   \
  class Name : public Transform {                                                 \
   public:                                                                        \
    Tensor operator()(const Tensor& x) const override;                            \
    Tensor inverse(const Tensor& y) const override;                               \
    Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override; \
  };
TESSERA_TRANSFORM(ExpTransform)
TESSERA_TRANSFORM(SigmoidTransform)
TESSERA_TRANSFORM(TanhTransform)
TESSERA_TRANSFORM(SoftplusTransform)
#undef TESSERA_TRANSFORM

// What numbers of a distribution become under transforms, the first one applied first.
class TransformedDistribution : public Distribution {
 public:
  TransformedDistribution(std::shared_ptr<const Distribution> base,
                          std::vector<std::shared_ptr<const Transform>> transforms,
                          bool validate = default_validate_args());

  std::string name() const override { return "TransformedDistribution(" + base_->name() + ")"; }
  bool has_rsample() const override { return base_->has_rsample(); }
  const Distribution& base() const { return *base_; }
  // Whether both are made by the same transforms in the same order.
  bool same_transforms(const TransformedDistribution& other) const;
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

 protected:
  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override;
  Tensor cdf_of(const Tensor& value) const override;
  Tensor icdf_of(const Tensor& probability) const override;
  void check_value(const Tensor& value) const override { check_shape(value); }

 private:
  bool increasing() const;

  std::shared_ptr<const Distribution> base_;
  std::vector<std::shared_ptr<const Transform>> transforms_;
};

}  // namespace tessera::distributions
