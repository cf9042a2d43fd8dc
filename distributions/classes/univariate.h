// Distributions of numbers: each family is an entry of a table, and a class that names its parameters.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "distributions/classes/distribution.h"

namespace tessera::distributions {

struct Parameter {
  const char* name;
  const Constraint* constraint;
};

// What a family does with its parameters p[0], p[1] ...; null where it has no formula.
struct Family {
  const char* name;
  std::span<const Parameter> parameters;
  const Constraint* support;
  bool discrete, reparametrized;
  Tensor (*log_prob)(const Tensor& value, const Tensor* p);
  // The parameters have been expanded to the shape of the result.
  Tensor (*draw)(const Tensor* p, const Generator& generator);
  Tensor (*mean)(const Tensor* p) = nullptr;
  Tensor (*variance)(const Tensor* p) = nullptr;
  Tensor (*mode)(const Tensor* p) = nullptr;
  Tensor (*entropy)(const Tensor* p) = nullptr;
  Tensor (*cdf)(const Tensor& value, const Tensor* p) = nullptr;
  Tensor (*icdf)(const Tensor& probability, const Tensor* p) = nullptr;
  Tensor (*kl)(const Tensor* p, const Tensor* q) = nullptr;
  // Where the support depends on the parameters: whether a value of `support` is in it.
  Tensor (*inside)(const Tensor& value, const Tensor* p) = nullptr;
};

class Univariate : public Distribution {
 public:
  std::string name() const override { return family_->name; }
  bool has_rsample() const override { return family_->reparametrized; }
  bool is_discrete() const override { return family_->discrete; }
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor mode() const override;
  Tensor enumerate_support(bool expand = true) const override;
  std::shared_ptr<Distribution> expand(IntList batch_shape) const override;

  const Family& family() const { return *family_; }
  // Broadcast to batch_shape, in the order of the family's table.
  const std::vector<Tensor>& parameters() const { return parameters_; }

 protected:
  Univariate(const Family& family, std::initializer_list<Tensor> parameters, bool validate);
  const Tensor& parameter(size_t i) const { return parameters_[i]; }

  Tensor draw(const IntVector& sample_shape, const Generator& generator) const override;
  Tensor log_prob_of(const Tensor& value) const override;
  Tensor cdf_of(const Tensor& value) const override;
  Tensor icdf_of(const Tensor& probability) const override;
  void check_value(const Tensor& value) const override;

 private:
  const Family* family_;
  std::vector<Tensor> parameters_;
};

// Probabilities, or logits log(p / (1 - p)), of distributions that take either.
struct Probs {
  Tensor value;
};
struct Logits {
  Tensor value;
};

#define TESSERA_TWO_PARAMETERS(Name, first, second)                                           \
  class Name : public Univariate {                                                            \
   public:                                                                                    \
    Name(const Tensor& first, const Tensor& second, bool validate = default_validate_args()); \
    const Tensor& first() const { return parameter(0); }                                      \
    const Tensor& second() const { return parameter(1); }                                     \
  };
#define TESSERA_ONE_PARAMETER(Name, first)                                       \
  class Name : public Univariate {                                               \
   public:                                                                       \
    explicit Name(const Tensor& first, bool validate = default_validate_args()); \
    const Tensor& first() const { return parameter(0); }                         \
  };
TESSERA_TWO_PARAMETERS(Normal, loc, scale)
TESSERA_TWO_PARAMETERS(LogNormal, loc, scale)
TESSERA_TWO_PARAMETERS(Laplace, loc, scale)
TESSERA_TWO_PARAMETERS(Cauchy, loc, scale)
TESSERA_TWO_PARAMETERS(Gumbel, loc, scale)
TESSERA_ONE_PARAMETER(HalfNormal, scale)
TESSERA_ONE_PARAMETER(HalfCauchy, scale)
TESSERA_ONE_PARAMETER(Exponential, rate)
TESSERA_ONE_PARAMETER(Poisson, rate)
TESSERA_TWO_PARAMETERS(Gamma, concentration, rate)
TESSERA_TWO_PARAMETERS(InverseGamma, concentration, rate)
TESSERA_TWO_PARAMETERS(Beta, concentration1, concentration0)
TESSERA_TWO_PARAMETERS(Kumaraswamy, concentration1, concentration0)
TESSERA_TWO_PARAMETERS(FisherSnedecor, df1, df2)
TESSERA_TWO_PARAMETERS(Pareto, scale, alpha)
TESSERA_TWO_PARAMETERS(Weibull, scale, concentration)
// Angles in radians; draws lie in [-pi, pi). variance: the circular one.
TESSERA_TWO_PARAMETERS(VonMises, loc, concentration)
#undef TESSERA_TWO_PARAMETERS
#undef TESSERA_ONE_PARAMETER

// Gamma numbers of concentration df / 2 and rate 1 / 2.
class Chi2 : public Gamma {
 public:
  explicit Chi2(const Tensor& df, bool validate = default_validate_args());
  Tensor df() const;
};
class StudentT : public Univariate {
 public:
  StudentT(const Tensor& df, const Tensor& loc, const Tensor& scale, bool validate = default_validate_args());
};
// Excesses over loc: up to loc - scale / concentration where concentration is negative.
class GeneralizedPareto : public Univariate {
 public:
  GeneralizedPareto(const Tensor& loc, const Tensor& scale, const Tensor& concentration,
                    bool validate = default_validate_args());
};
// Of [low, high).
class Uniform : public Univariate {
 public:
  Uniform(const Tensor& low, const Tensor& high, bool validate = default_validate_args());
  const Tensor& low() const { return parameter(0); }
  const Tensor& high() const { return parameter(1); }
};

// Their parameters are logits, whatever they are made from.
class Bernoulli : public Univariate {
 public:
  explicit Bernoulli(const Probs& probs, bool validate = default_validate_args());
  explicit Bernoulli(const Logits& logits, bool validate = default_validate_args());
  const Tensor& logits() const { return parameter(0); }
  Tensor probs() const;
  Tensor enumerate_support(bool expand = true) const override;
};
class ContinuousBernoulli : public Univariate {
 public:
  explicit ContinuousBernoulli(const Probs& probs, bool validate = default_validate_args());
  explicit ContinuousBernoulli(const Logits& logits, bool validate = default_validate_args());
};
class Binomial : public Univariate {
 public:
  Binomial(const Tensor& total_count, const Probs& probs, bool validate = default_validate_args());
  Binomial(const Tensor& total_count, const Logits& logits, bool validate = default_validate_args());
};
class NegativeBinomial : public Univariate {
 public:
  NegativeBinomial(const Tensor& total_count, const Probs& probs, bool validate = default_validate_args());
  NegativeBinomial(const Tensor& total_count, const Logits& logits, bool validate = default_validate_args());
};
// The log odds of RelaxedBernoulli: logistic noise around logits, divided by temperature.
class LogitRelaxedBernoulli : public Univariate {
 public:
  LogitRelaxedBernoulli(const Tensor& temperature, const Probs& probs, bool validate = default_validate_args());
  LogitRelaxedBernoulli(const Tensor& temperature, const Logits& logits, bool validate = default_validate_args());
};
// Failures before the first success.
class Geometric : public Univariate {
 public:
  explicit Geometric(const Probs& probs, bool validate = default_validate_args());
};

}  // namespace tessera::distributions
