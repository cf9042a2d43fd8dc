// Probability distributions: what all of them have.
#pragma once

#include <memory>
#include <string>

#include "tensor/core/generator/generator.h"
#include "tensor/core/tensor.h"

namespace tessera::distributions {

// Numbers that a parameter or a value may be: between low and high. kind: see _dist_all_within.
struct Constraint {
  const char* text;  // as messages name it
  double low, high;
  int kind;

  bool check(const Tensor& value) const;
};
extern const Constraint kReal, kPositive, kNonNegative, kUnitInterval, kBoolean, kWhole;

// A distribution of numbers, or of vectors (event_shape), one for each place of batch_shape.
//
// Results have the dtype of the parameters. Errors: Error("ValueError") where parameters or values do not satisfy their
// constraints (unless validation is off), Error("NotImplementedError") for what a distribution has no formula for.
class Distribution {
 public:
  virtual ~Distribution() = default;

  const IntVector& batch_shape() const { return batch_shape_; }
  const IntVector& event_shape() const { return event_shape_; }
  virtual std::string name() const = 0;
  // Whether rsample is there, through which gradients reach the parameters.
  virtual bool has_rsample() const { return false; }
  virtual bool is_discrete() const { return false; }

  // Of shape sample_shape + batch_shape + event_shape; drawn from `generator`, or from the default one of the device.
  Tensor sample(IntList sample_shape = {}, const Generator& generator = {}) const;
  Tensor rsample(IntList sample_shape = {}, const Generator& generator = {}) const;

  // The logarithm of the density, or of the probability, of value (shape: broadcast with batch_shape + event_shape): of
  // shape sample_shape + batch_shape.
  Tensor log_prob(const Tensor& value) const;
  Tensor cdf(const Tensor& value) const;
  Tensor icdf(const Tensor& probability) const;
  Tensor perplexity() const;
  Tensor stddev() const;
  virtual Tensor entropy() const;
  virtual Tensor mean() const;
  virtual Tensor variance() const;
  virtual Tensor mode() const;
  // All values of a discrete distribution with finitely many, in a new first dimension; expand: for all places of the
  // batch.
  virtual Tensor enumerate_support(bool expand = true) const;
  // The same for a larger batch, which batch_shape broadcasts to.
  virtual std::shared_ptr<Distribution> expand(IntList batch_shape) const = 0;

  // What distributions do that are not told: true until it is changed.
  static void set_default_validate_args(bool validate);
  static bool default_validate_args();

 protected:
  Distribution(IntVector batch_shape, IntVector event_shape, bool validate)
      : batch_shape_(std::move(batch_shape)), event_shape_(std::move(event_shape)), validate_(validate) {}

  virtual Tensor draw(const IntVector& sample_shape, const Generator& generator) const = 0;
  virtual Tensor log_prob_of(const Tensor& value) const = 0;
  virtual Tensor cdf_of(const Tensor& value) const;
  virtual Tensor icdf_of(const Tensor& probability) const;
  // Throws where value is outside of the support, or its shape does not fit.
  virtual void check_value(const Tensor& value) const = 0;

  IntVector full_shape(const IntVector& sample_shape) const;
  void check_shape(const Tensor& value) const;
  [[noreturn]] void not_there(const char* what) const;

  IntVector batch_shape_, event_shape_;
  bool validate_;
};

// Throws the documented ValueError where a parameter does not satisfy its constraint.
void check_parameter(const char* distribution, const char* parameter, const Tensor& value,
                     const Constraint& constraint);
[[noreturn]] void refuse_parameter(const char* distribution, const char* parameter, const Tensor& value,
                                   const char* constraint);
void check_support(const std::string& distribution, const Tensor& value, const Constraint& support);
[[noreturn]] void refuse_value(const std::string& distribution, const Tensor& value, const char* support);

}  // namespace tessera::distributions
