// Divergences between families, against means of logarithms over samples and against one another.
#include <cmath>
#include <memory>
#include <vector>

#include "distributions/classes/testing.h"
#include "gtest/gtest.h"

namespace tessera::distributions {
namespace {

using One = std::shared_ptr<Distribution>;

struct Families {
  One normal = std::make_shared<Normal>(number(0.4), number(0.7)),
      laplace = std::make_shared<Laplace>(number(-0.3), number(0.9)),
      gumbel = std::make_shared<Gumbel>(number(0.2), number(1.1)),
      exponential = std::make_shared<Exponential>(number(2)), gamma = std::make_shared<Gamma>(number(2.5), number(1.5)),
      pareto = std::make_shared<Pareto>(number(1.2), number(6)),
      beta = std::make_shared<Beta>(number(1.7), number(2.4)),
      continuous = std::make_shared<ContinuousBernoulli>(Probs{number(0.3)}),
      uniform = std::make_shared<Uniform>(number(0.1), number(0.8)), chi2 = std::make_shared<Chi2>(number(5)),
      bernoulli = std::make_shared<Bernoulli>(Probs{number(0.3)}), poisson = std::make_shared<Poisson>(number(0.8)),
      binomial = std::make_shared<Binomial>(number(4), Probs{number(0.3)}),
      wider = std::make_shared<Uniform>(number(0), number(1)),
      lower = std::make_shared<Pareto>(number(0.05), number(2)),
      other_gumbel = std::make_shared<Gumbel>(number(-0.5), number(1.6));
};

// Six errors of the mean of n numbers.
void expect_mean_of_logarithms(const Distribution& p, const Distribution& q) {
  constexpr int64_t kCount = 40000;
  default_cpu_generator()->manual_seed(17);
  const Tensor x = p.sample(IntVector{kCount}), logs = p.log_prob(x) - q.log_prob(x);
  const double divergence = value_of(kl_divergence(p, q));
  const double spread = value_of(tessera::mean(square(logs - divergence)));
  EXPECT_NEAR(value_of(tessera::mean(logs)), divergence, 6 * std::sqrt(spread / kCount) + 1e-12)
      << p.name() << " " << q.name();
}

TEST(Divergences, BetweenFamiliesOfNumbers) {
  const Families f;
  const std::vector<std::pair<One, std::vector<One>>> pairs{
      {f.normal, {f.gumbel, f.laplace}},
      {f.laplace, {f.normal}},
      {f.gumbel, {f.other_gumbel, f.normal}},
      {f.exponential, {f.gamma, f.gumbel, f.normal, f.chi2}},
      {f.gamma, {f.exponential, f.gumbel, f.normal, f.chi2}},
      {f.pareto, {f.exponential, f.gamma, f.normal, f.lower}},
      {f.beta, {f.continuous, f.exponential, f.gamma, f.normal, f.wider}},
      {f.continuous, {f.exponential, f.normal, f.wider}},
      {f.uniform, {f.beta, f.continuous, f.exponential, f.gamma, f.gumbel, f.normal, f.lower, f.wider}},
      {f.bernoulli, {f.poisson}}};
  for (const auto& [p, others] : pairs)
    for (const One& q : others) expect_mean_of_logarithms(*p, *q);
  const ContinuousBernoulli other(Logits{number(0.01)});
  expect_mean_of_logarithms(*f.continuous, other);
}

TEST(Divergences, AreInfiniteWhereTheSupportIsNotWithin) {
  const Families f;
  const std::vector<std::pair<One, std::vector<One>>> pairs{
      {f.normal, {f.beta, f.continuous, f.exponential, f.gamma, f.pareto, f.uniform}},
      {f.laplace, {f.beta, f.continuous, f.exponential, f.gamma, f.pareto, f.uniform}},
      {f.gumbel, {f.beta, f.continuous, f.exponential, f.gamma, f.pareto, f.uniform}},
      {f.exponential, {f.beta, f.continuous, f.pareto, f.uniform}},
      {f.gamma, {f.beta, f.continuous, f.pareto, f.uniform}},
      {f.pareto, {f.beta, f.continuous, f.uniform}},
      {f.lower, {f.pareto}},
      {f.beta, {f.pareto, f.uniform}},
      {f.continuous, {f.pareto, f.uniform}},
      {f.uniform, {f.pareto}},
      {f.wider, {f.uniform}},
      {f.poisson, {f.bernoulli, f.binomial}}};
  for (const auto& [p, others] : pairs)
    for (const One& q : others) EXPECT_EQ(value_of(kl_divergence(*p, *q)), INFINITY) << p->name() << " " << q->name();
  // Of a batch, only where it is so.
  const Tensor some = kl_divergence(Uniform(numbers({0, -1}), number(1)), Exponential(number(2)));
  EXPECT_TRUE(std::isfinite(value_of(select(some, 0, 0))));
  EXPECT_EQ(value_of(select(some, 0, 1)), INFINITY);
}

TEST(Divergences, OthersAreRefused) {
  const Families f;
  EXPECT_THROW(kl_divergence(*f.laplace, *f.gumbel), NotImplementedError);
  EXPECT_THROW(kl_divergence(*f.exponential, *f.laplace), NotImplementedError);
  EXPECT_THROW(kl_divergence(*f.continuous, *f.beta), NotImplementedError);
  EXPECT_THROW(kl_divergence(*f.binomial, Binomial(number(5), Probs{number(0.3)})), NotImplementedError);
}

TEST(Divergences, OfNormalVectors) {
  const Tensor loc = numbers({1, -2, 0.5});
  const LowRankMultivariateNormal a(loc, matrix(3, {1, 0.5, -2}), numbers({0.5, 1, 2}));
  const LowRankMultivariateNormal b(loc * 0.5, matrix(3, {0.3, 1, 0.7, -0.2, 1.4, 0.6}), numbers({1, 0.7, 1.1}));
  const MultivariateNormal full_a(loc, Covariance{a.covariance_matrix()});
  const MultivariateNormal full_b(loc * 0.5, Covariance{b.covariance_matrix()});
  const double wanted = value_of(kl_divergence(full_a, full_b));
  EXPECT_NEAR(value_of(kl_divergence(a, b)), wanted, 1e-12);
  EXPECT_NEAR(value_of(kl_divergence(full_a, b)), wanted, 1e-12);
  EXPECT_NEAR(value_of(kl_divergence(a, full_b)), wanted, 1e-12);
  EXPECT_THROW(kl_divergence(a, MultivariateNormal(numbers({0, 0}), ScaleTril{matrix(2, {1, 0, 0, 1})})), ValueError);
}

TEST(Divergences, OfMatricesCategoriesAndImages) {
  const Wishart one(number(4.5), ScaleTril{matrix(1, {0.8})}), other(number(3), ScaleTril{matrix(1, {1.3})});
  const Gamma same(number(2.25), number(0.5 / 0.64)), same_other(number(1.5), number(0.5 / 1.69));
  EXPECT_NEAR(value_of(kl_divergence(one, other)), value_of(kl_divergence(same, same_other)), 1e-13);
  const Tensor L = matrix(2, {1.5, 0, -0.4, 0.8});
  expect_mean_of_logarithms(Wishart(number(4.5), ScaleTril{L}), Wishart(number(6), ScaleTril{transpose(L, 0, 1) * L}));

  const Tensor p = numbers({1, 2, 5}), q = numbers({2, 2, 1});
  EXPECT_EQ(value_of(kl_divergence(OneHotCategorical(Probs{p}), OneHotCategorical(Probs{q}))),
            value_of(kl_divergence(Categorical(Probs{p}), Categorical(Probs{q}))));

  const auto base = std::make_shared<Normal>(number(0), number(1)),
             moved = std::make_shared<Normal>(number(1), number(2));
  const auto image = [](const One& d, double scale) {
    return TransformedDistribution(d, {std::make_shared<AffineTransform>(1, scale), std::make_shared<ExpTransform>()});
  };
  EXPECT_EQ(value_of(kl_divergence(image(base, 2), image(moved, 2))), value_of(kl_divergence(*base, *moved)));
  EXPECT_THROW(kl_divergence(image(base, 2), image(moved, 3)), NotImplementedError);
}

}  // namespace
}  // namespace tessera::distributions
