// The classes of distributions: shapes, densities against closed forms, moments of samples, gradients, refusals.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "autograd/autograd.h"
#include "distributions/classes/testing.h"
#include "distributions/distributions.h"
#include "gtest/gtest.h"
#include "tensor/ops/api.h"

namespace tessera::distributions {
namespace {

std::vector<std::shared_ptr<Distribution>> univariate() {
  const Tensor a = number(1.7), b = number(2.4), loc = number(-0.6);
  return {std::make_shared<Normal>(loc, a),
          std::make_shared<LogNormal>(loc, number(0.4)),
          std::make_shared<Laplace>(loc, a),
          std::make_shared<Gumbel>(loc, a),
          std::make_shared<HalfNormal>(a),
          std::make_shared<Exponential>(a),
          std::make_shared<Gamma>(a, b),
          std::make_shared<InverseGamma>(number(6), b),
          std::make_shared<Beta>(a, b),
          std::make_shared<StudentT>(number(9), loc, a),
          std::make_shared<FisherSnedecor>(number(5), number(14)),
          std::make_shared<Chi2>(b),
          std::make_shared<Uniform>(loc, a),
          std::make_shared<Pareto>(a, number(7)),
          std::make_shared<Weibull>(a, b),
          std::make_shared<GeneralizedPareto>(loc, a, number(-0.3)),
          std::make_shared<GeneralizedPareto>(loc, a, number(0.1)),
          std::make_shared<ContinuousBernoulli>(Probs{number(0.3)}),
          std::make_shared<ContinuousBernoulli>(Probs{number(0.5002)}),
          std::make_shared<Bernoulli>(Probs{number(0.3)}),
          std::make_shared<Binomial>(number(7), Probs{number(0.3)}),
          std::make_shared<NegativeBinomial>(number(7), Probs{number(0.3)}),
          std::make_shared<Geometric>(Probs{number(0.3)}),
          std::make_shared<Poisson>(b)};
}

// The error of a mean of n samples is the standard deviation over sqrt(n); six of them happen once in 5e8 draws. That
// of the variance depends on the fourth moment, which the samples give.
TEST(Distributions, SamplesHaveTheMoments) {
  constexpr int64_t kCount = 40000;
  const Generator g = default_cpu_generator();
  g->manual_seed(11);
  for (const auto& d : univariate()) {
    const Tensor x = d->sample(IntVector{kCount}, g);
    const double mean = value_of(d->mean()), variance = value_of(d->variance());
    EXPECT_NEAR(value_of(tessera::mean(x)), mean, 6 * std::sqrt(variance / kCount)) << d->name();
    const Tensor squares = square(x - mean);
    const double fourth = value_of(tessera::mean(square(squares - tessera::mean(squares))));
    EXPECT_NEAR(value_of(tessera::mean(squares)), variance, 6 * std::sqrt(fourth / kCount)) << d->name();
    if (d->is_discrete()) continue;
    // The entropy is the mean of -log_prob.
    const Tensor logs = neg(d->log_prob(x));
    double entropy = 0;
    try {
      entropy = value_of(d->entropy());
    } catch (const NotImplementedError&) {
      EXPECT_EQ(d->name(), "FisherSnedecor");
      continue;
    }
    const double spread = value_of(tessera::mean(square(logs - entropy)));
    EXPECT_NEAR(value_of(tessera::mean(logs)), entropy, 6 * std::sqrt(spread / kCount) + 1e-12) << d->name();
  }
}

TEST(Distributions, QuantilesInvertTheDistributionFunction) {
  const Tensor p = numbers({1e-5, 0.2, 0.5, 0.77, 0.999});
  int checked = 0;
  for (const auto& d : univariate()) {
    if (d->name() == "Gamma" || d->name() == "InverseGamma" || d->is_discrete()) continue;
    try {
      const Tensor back = d->cdf(d->icdf(p));
      EXPECT_LT(value_of(max(abs(back - p))), 1e-12) << d->name();
      ++checked;
    } catch (const NotImplementedError&) {}
  }
  EXPECT_EQ(checked, 11);
}

TEST(Distributions, ShapesBroadcast) {
  const Normal d(numbers({0, 1, 2}), number(2));
  EXPECT_EQ(d.batch_shape(), IntVector{3});
  EXPECT_EQ(d.event_shape(), IntVector{});
  EXPECT_EQ(to_vector(d.sample(IntVector{4, 2}).sizes()), (IntVector{4, 2, 3}));
  EXPECT_EQ(to_vector(d.log_prob(number(0)).sizes()), IntVector{3});
  const auto larger = d.expand(IntVector{5, 3});
  EXPECT_EQ(larger->batch_shape(), (IntVector{5, 3}));
  EXPECT_EQ(to_vector(larger->log_prob(number(0)).sizes()), (IntVector{5, 3}));
  const Independent rows(std::make_shared<Normal>(d), 1);
  EXPECT_EQ(rows.batch_shape(), IntVector{});
  EXPECT_EQ(rows.event_shape(), IntVector{3});
  EXPECT_DOUBLE_EQ(value_of(rows.log_prob(numbers({1, 2, 3}))), value_of(sum(d.log_prob(numbers({1, 2, 3})))));
  EXPECT_DOUBLE_EQ(value_of(rows.entropy()), value_of(sum(d.entropy())));
}

TEST(Distributions, SamplesOfASeedAreTheSame) {
  const Generator g = default_cpu_generator();
  for (const auto& d : univariate()) {
    g->manual_seed(3);
    const Tensor first = d->sample(IntVector{5}, g);
    g->manual_seed(3);
    EXPECT_TRUE(equal(first, d->sample(IntVector{5}, g))) << d->name();
  }
}

TEST(Distributions, GradientsReachTheParameters) {
  for (const auto& make : std::vector<std::function<std::shared_ptr<Distribution>(const Tensor&)>>{
           [](const Tensor& t) { return std::make_shared<Normal>(number(0), t); },
           [](const Tensor& t) { return std::make_shared<Gamma>(t, number(2)); },
           [](const Tensor& t) { return std::make_shared<Beta>(t, number(2)); },
           [](const Tensor& t) { return std::make_shared<StudentT>(t, number(0), number(1)); },
           [](const Tensor& t) {
             return std::make_shared<Dirichlet>(stack(std::vector<Tensor>{t, t * 2}, -1));
           }}) {
    const Tensor t = number(1.3);
    t.requires_grad_();
    const auto d = make(t);
    EXPECT_FALSE(d->sample(IntVector{3}).requires_grad()) << d->name();
    const Tensor x = d->rsample(IntVector{3});
    ASSERT_TRUE(x.requires_grad()) << d->name();
    const Tensor first = d->event_shape().empty() ? x : select(x, -1, 0);
    const auto g = autograd::grad(std::vector<Tensor>{sum(first)}, std::vector<Tensor>{t});
    EXPECT_TRUE(std::isfinite(value_of(g[0])) && value_of(g[0]) != 0) << d->name();
    const auto density =
        autograd::grad(std::vector<Tensor>{sum(make(t)->log_prob(x.detach()))}, std::vector<Tensor>{t});
    EXPECT_TRUE(std::isfinite(value_of(density[0]))) << d->name();
  }
}

TEST(Distributions, WrongParametersAndValuesAreRefused) {
  EXPECT_EQ(message_of([] {
              Normal(number(0), numbers({1, -2}));
            }),
            "Expected parameter scale (Tensor of shape (2,)) of distribution Normal to satisfy the constraint "
            "GreaterThan(lower_bound=0.0), but found invalid values:\n[1, -2]");
  EXPECT_NE(message_of([] { Bernoulli(Probs{number(1.5)}); }).find("parameter probs"), std::string::npos);
  EXPECT_NE(message_of([] { Uniform(number(1), number(1)); }).find("not defined when low>= high"), std::string::npos);
  EXPECT_NE(message_of([] { Categorical(Probs{numbers({0.5, -0.5})}); }).find("Simplex()"), std::string::npos);
  EXPECT_NE(message_of([] { Normal(number(0), number(1)).log_prob(number(NAN)); }).find("within the support (Real())"),
            std::string::npos);
  EXPECT_NE(message_of([] { Uniform(number(0), number(1)).log_prob(number(2)); }).find("within the support"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              Normal(numbers({0, 1}), number(1)).log_prob(numbers({1, 2, 3}));
            }).find("not broadcastable"),
            std::string::npos);
  Normal(number(0), number(-1), /*validate=*/false);
  Distribution::set_default_validate_args(false);
  Normal(number(0), number(-1));
  Distribution::set_default_validate_args(true);
  EXPECT_THROW(Normal(number(0), number(-1)), ValueError);
  EXPECT_THROW(Bernoulli(Probs{number(0.5)}).rsample(), NotImplementedError);
  EXPECT_THROW(Normal(number(0), number(1)).enumerate_support(), NotImplementedError);
}

TEST(Distributions, Categorical) {
  const Tensor weights = numbers({1, 2, 5});
  const Categorical d{Probs{weights}};
  EXPECT_NEAR(value_of(d.log_prob(number(2))), std::log(5.0 / 8), 1e-15);
  EXPECT_EQ(d.mode().item<int64_t>(), 2);
  EXPECT_NEAR(value_of(d.entropy()), value_of(neg(sum(d.probs() * log(d.probs())))), 1e-15);
  EXPECT_EQ(to_vector(d.sample(IntVector{4, 2}).sizes()), (IntVector{4, 2}));
  EXPECT_EQ(to_vector(d.enumerate_support().sizes()), IntVector{3});
  const Tensor x = d.sample(IntVector{20000});
  EXPECT_NEAR(value_of(tessera::mean(to(eq(x, 2), DType::kFloat64))), 0.625, 6 * std::sqrt(0.625 * 0.375 / 20000));
  EXPECT_THROW(d.log_prob(number(3)), ValueError);
  const Categorical same{Logits{log(weights) + 7}};
  EXPECT_NEAR(value_of(kl_divergence(d, same)), 0, 1e-15);
}

TEST(Distributions, MultivariateNormalIsMadeThreeWays) {
  const Tensor loc = numbers({1, -2});
  const Tensor L = reshape(numbers({1.5, 0, -0.4, 0.8}), IntVector{2, 2});
  const MultivariateNormal a(loc, ScaleTril{L});
  const Tensor covariance = a.covariance_matrix();
  const MultivariateNormal b(loc, Covariance{covariance}), c(loc, Precision{a.precision_matrix()});
  const Tensor x = reshape(numbers({0.3, 1, 2, -1, 0, 0}), IntVector{3, 2});
  for (const MultivariateNormal* d : {&b, &c}) {
    EXPECT_LT(value_of(max(abs(d->scale_tril() - L))), 1e-14);
    EXPECT_LT(value_of(max(abs(d->log_prob(x) - a.log_prob(x)))), 1e-13);
  }
  // Of independent numbers it is the sum of their densities.
  const Tensor scales = numbers({0.5, 3});
  const MultivariateNormal diagonal(loc, ScaleTril{diag(scales)});
  const Independent apart(std::make_shared<Normal>(loc, scales), 1);
  EXPECT_LT(value_of(max(abs(diagonal.log_prob(x) - apart.log_prob(x)))), 1e-14);
  EXPECT_NEAR(value_of(diagonal.entropy()), value_of(apart.entropy()), 1e-14);
  const Independent other(std::make_shared<Normal>(loc * 2, scales * 1.5), 1);
  const MultivariateNormal other_diagonal(loc * 2, ScaleTril{diag(scales * 1.5)});
  EXPECT_NEAR(value_of(kl_divergence(diagonal, other_diagonal)), value_of(kl_divergence(apart, other)), 1e-14);
  EXPECT_THROW(MultivariateNormal(loc, Covariance{neg(covariance)}), ValueError);
  EXPECT_THROW(MultivariateNormal(loc, ScaleTril{transpose(L, 0, 1)}), ValueError);
  EXPECT_THROW(kl_divergence(a, apart), NotImplementedError);
}

TEST(Distributions, TransformsMoveDensities) {
  const auto base = std::make_shared<Normal>(number(0.3), number(0.8));
  const TransformedDistribution d(base, {std::make_shared<ExpTransform>()});
  const LogNormal same(number(0.3), number(0.8));
  const Tensor x = numbers({0.1, 1, 4});
  EXPECT_LT(value_of(max(abs(d.log_prob(x) - same.log_prob(x)))), 1e-14);
  EXPECT_LT(value_of(max(abs(d.cdf(x) - same.cdf(x)))), 1e-14);
  const TransformedDistribution falling(base,
                                        {std::make_shared<AffineTransform>(1, -2), std::make_shared<SigmoidTransform>(),
                                         std::make_shared<TanhTransform>(), std::make_shared<SoftplusTransform>()});
  const Tensor p = numbers({0.1, 0.5, 0.8});
  EXPECT_LT(value_of(max(abs(falling.cdf(falling.icdf(p)) - p))), 1e-12);
  // The density is the slope of the distribution function.
  const Tensor at = falling.icdf(p), step = number(1e-6);
  const Tensor slope = (falling.cdf(at + step) - falling.cdf(at - step)) / (step * 2);
  EXPECT_LT(value_of(max(abs(slope / exp(falling.log_prob(at)) - 1))), 1e-6);
}

TEST(Distributions, DivergencesAreMeansOfLogarithms) {
  constexpr int64_t kCount = 40000;
  const auto pairs = [](double a, double b) {
    return std::vector<std::shared_ptr<Distribution>>{std::make_shared<Normal>(number(a), number(b)),
                                                      std::make_shared<Laplace>(number(a), number(b)),
                                                      std::make_shared<Gamma>(number(a), number(b)),
                                                      std::make_shared<Beta>(number(a), number(b)),
                                                      std::make_shared<Exponential>(number(a)),
                                                      std::make_shared<Poisson>(number(a)),
                                                      std::make_shared<Bernoulli>(Logits{number(a)}),
                                                      std::make_shared<HalfNormal>(number(a)),
                                                      std::make_shared<InverseGamma>(number(a), number(b)),
                                                      std::make_shared<Geometric>(Probs{number(a / 4)}),
                                                      std::make_shared<Binomial>(number(6), Logits{number(a)}),
                                                      std::make_shared<Dirichlet>(numbers({a, b, 1})),
                                                      std::make_shared<Categorical>(Logits{numbers({a, b, 1})})};
  };
  const auto p = pairs(1.4, 2.1), q = pairs(0.9, 1.6);
  for (size_t i = 0; i < p.size(); ++i) {
    const Tensor x = p[i]->sample(IntVector{kCount}), logs = p[i]->log_prob(x) - q[i]->log_prob(x);
    const double divergence = value_of(kl_divergence(*p[i], *q[i]));
    const double spread = value_of(tessera::mean(square(logs - divergence)));
    EXPECT_NEAR(value_of(tessera::mean(logs)), divergence, 6 * std::sqrt(spread / kCount)) << p[i]->name();
  }
}

}  // namespace
}  // namespace tessera::distributions
