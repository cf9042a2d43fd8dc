// Relaxations, vectors, matrices, mixtures: draws and densities of a seed, closed forms, moments, refusals.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "autograd/autograd.h"
#include "distributions/classes/testing.h"
#include "gtest/gtest.h"

namespace tessera::distributions {
namespace {

// Two draws of the seed 5 by the Python classes, and their densities there.
struct Drawn {
  std::shared_ptr<Distribution> distribution;
  std::vector<double> draws, log_probs;
};
std::vector<Drawn> drawn_in_python() {
  const Tensor weights = numbers({1, 2, 5});
  return {{std::make_shared<VonMises>(number(0.5), number(1.7)),
           {-0.5840381690680738, 0.8251967239104134},
           {-1.6653858237983497, -0.8496835682367947}},
          {std::make_shared<GeneralizedPareto>(number(0.5), number(1.7), number(-0.3)),
           {2.002893010513337, 0.9889319149877634},
           {-1.2497131990530828, -0.7411728543027902}},
          {std::make_shared<LogitRelaxedBernoulli>(number(0.6), Probs{number(0.3)}),
           {-0.4386287495447703, -3.1575417215645247},
           {-1.9812334359368267, -2.1596088055764153}},
          {std::make_shared<RelaxedBernoulli>(number(0.6), Probs{number(0.3)}),
           {0.3920677592484831, 0.04079513969439653},
           {-0.547220987674206, 1.0812341324697075}},
          {std::make_shared<OneHotCategorical>(Probs{weights}),
           {0.0, 0.0, 1.0, 0.0, 1.0, 0.0},
           {-0.4700036292457356, -1.3862943611198906}},
          {std::make_shared<Multinomial>(7, Probs{weights}),
           {0.0, 3.0, 4.0, 0.0, 4.0, 3.0},
           {-2.4835495388532003, -3.3998402707273554}},
          {std::make_shared<RelaxedOneHotCategorical>(number(0.6), Probs{weights}),
           {0.19438166907971424, 0.09663330570527003, 0.7089850252150158, 0.002536952832579802, 0.0064140969335745885,
            0.9910489502338455},
           {0.39402359364442274, 6.391924762762759}},
          {std::make_shared<LowRankMultivariateNormal>(numbers({1, -2, 0.5}), matrix(3, {1, 0.5, -2}),
                                                       numbers({0.5, 1, 2})),
           {0.11858561991749861, -1.5758660738217238, 1.1943743991561737, 1.7699338226185948, -3.7036128065373712,
            0.6292245319121261},
           {-4.093244069728553, -5.604308060052565}},
          {std::make_shared<Wishart>(number(4.5), ScaleTril{matrix(2, {1.5, 0, -0.4, 0.8})}),
           {5.933918810640816, -0.3522880270650084, -0.3522880270650084, 1.0611172218633345, 7.452643118734852,
            -3.9510488518801767, -3.9510488518801767, 8.770320839742388},
           {-5.517891675168433, -8.89788909244446}},
          {std::make_shared<LKJCholesky>(3, number(1.5)),
           {1.0, 0.0, 0.0, -0.07362164004460477, 0.9972862448249964, 0.0, -0.48327318942359837, -0.08712836895529025,
            0.8711232241810188, 1.0, 0.0, 0.0, 0.40574851060717293, 0.9139847625316633, 0.0, 0.28159381964125474,
            0.8088688265386184, 0.5161745268742802},
           {-1.170353576121662, -1.868139948219465}},
          {std::make_shared<MixtureSameFamily>(Categorical{Probs{weights}},
                                               std::make_shared<Normal>(numbers({-1, 0, 3}), numbers({1, 2, 0.5}))),
           {2.901292453382997, -2.803404025190739},
           {-0.6802473389777121, -3.5585604938485655}}};
}

TEST(Vectors, DrawsAndDensitiesAreThoseOfPython) {
  const Generator g = default_cpu_generator();
  for (const auto& [d, draws, log_probs] : drawn_in_python()) {
    g->manual_seed(5);
    const Tensor x = d->sample(IntVector{2}, g);
    ASSERT_EQ(x.numel(), draws.size()) << d->name();
    EXPECT_LT(largest_difference(reshape(x, IntVector{-1}), numbers(draws)), 1e-12) << d->name();
    EXPECT_LT(largest_difference(d->log_prob(x), numbers(log_probs)), 1e-9) << d->name();
  }
}

TEST(Vectors, SamplesHaveTheMoments) {
  constexpr int64_t kCount = 40000;
  const Generator g = default_cpu_generator();
  g->manual_seed(23);
  int checked = 0;
  for (const Drawn& one : drawn_in_python()) {
    const Distribution& d = *one.distribution;
    Tensor mean, variance;
    try {
      mean = d.mean(), variance = d.variance();
    } catch (const NotImplementedError&) { continue; }
    if (d.name() == "VonMises") continue;
    ++checked;
    const Tensor x = d.sample(IntVector{kCount}, g), squares = square(x - mean);
    const Tensor fourth = tessera::mean(square(squares - variance), IntVector{0});
    EXPECT_LT(value_of(max(abs(tessera::mean(x, IntVector{0}) - mean) / sqrt(variance / kCount))), 6) << d.name();
    const Tensor apart = abs(tessera::mean(squares, IntVector{0}) - variance);
    EXPECT_LT(value_of(max(apart / sqrt(fourth / kCount))), 6) << d.name();
  }
  EXPECT_EQ(checked, 6);
}

TEST(Vectors, EntropiesAreMeansOfLogarithms) {
  constexpr int64_t kCount = 40000;
  default_cpu_generator()->manual_seed(29);
  int checked = 0;
  for (const Drawn& one : drawn_in_python()) {
    const Distribution& d = *one.distribution;
    double entropy = 0;
    try {
      entropy = value_of(d.entropy());
    } catch (const NotImplementedError&) { continue; }
    ++checked;
    const Tensor logs = neg(d.log_prob(d.sample(IntVector{kCount})));
    const double spread = value_of(tessera::mean(square(logs - entropy)));
    EXPECT_NEAR(value_of(tessera::mean(logs)), entropy, 6 * std::sqrt(spread / kCount)) << d.name();
  }
  EXPECT_EQ(checked, 5);
}

TEST(Vectors, ExpandAndGradients) {
  for (const Drawn& one : drawn_in_python()) {
    const Distribution& d = *one.distribution;
    const auto larger = d.expand(IntVector{4, 3});
    EXPECT_EQ(larger->name(), d.name());
    EXPECT_EQ(larger->batch_shape(), (IntVector{4, 3})) << d.name();
    EXPECT_EQ(larger->event_shape(), d.event_shape()) << d.name();
    const Tensor x = larger->sample(IntVector{2});
    EXPECT_EQ(to_vector(larger->log_prob(x).sizes()), (IntVector{2, 4, 3})) << d.name();
    EXPECT_LT(largest_difference(larger->log_prob(x), d.log_prob(x)), 1e-12) << d.name();
  }
  const Tensor t = number(0.7);
  t.requires_grad_();
  const std::vector<std::shared_ptr<Distribution>> smooth{
      std::make_shared<RelaxedBernoulli>(t, Probs{number(0.3)}),
      std::make_shared<RelaxedOneHotCategorical>(t, Probs{numbers({1, 2, 5})}),
      std::make_shared<OneHotCategoricalStraightThrough>(Logits{numbers({0, 1, 2}) * t})->expand(IntVector{2}),
      std::make_shared<GeneralizedPareto>(number(0), t, number(0.2)),
      std::make_shared<LowRankMultivariateNormal>(numbers({0, 1}), matrix(2, {1, 2}) * t, numbers({1, 2})),
      std::make_shared<Wishart>(t + 3, ScaleTril{matrix(2, {1.5, 0, -0.4, 0.8})})};
  for (const auto& d : smooth) {
    const Tensor x = d->rsample(IntVector{3});
    ASSERT_TRUE(x.requires_grad()) << d->name();
    const auto g = autograd::grad(std::vector<Tensor>{sum(square(x))}, std::vector<Tensor>{t});
    EXPECT_TRUE(std::isfinite(value_of(g[0])) && value_of(g[0]) != 0) << d->name();
  }
}

TEST(Vectors, DensitiesInClosedForm) {
  const Tensor x = numbers({0.2, 1, 2.5});
  const GeneralizedPareto flat(number(0), number(0.5), number(0));
  EXPECT_LT(largest_difference(flat.log_prob(x), Exponential(number(2)).log_prob(x)), 1e-14);
  // I_0(1.7) = 1.8639...: by the mean of exp(k cos) over a turn.
  const Tensor turn = arange(0, 64, DType::kFloat64) * (2 * M_PI / 64);
  const double bessel = value_of(tessera::mean(exp(cos(turn) * 1.7)));
  const Tensor wanted = cos(x - 0.5) * 1.7 - std::log(2 * M_PI * bessel);
  EXPECT_LT(largest_difference(VonMises(number(0.5), number(1.7)).log_prob(x), wanted), 1e-13);
  // Counts of two categories are binomial.
  const Tensor counts = numbers({0, 3, 7}), pairs = stack(std::vector<Tensor>{counts, 7 - counts}, -1);
  EXPECT_LT(largest_difference(Multinomial(7, Probs{numbers({0.3, 0.7})}).log_prob(pairs),
                               Binomial(number(7), Probs{number(0.3)}).log_prob(counts)),
            1e-13);
  // Matrices (1, 1) are gamma numbers.
  EXPECT_LT(
      largest_difference(Wishart(number(3), Covariance{matrix(1, {0.64})}).log_prob(reshape(x, IntVector{3, 1, 1})),
                         Gamma(number(1.5), number(0.5 / 0.64)).log_prob(x)),
      1e-13);
  // Correlations r of two numbers: (1 - r^2)^(eta - 1) / B(1/2, eta), where r is the factor's element.
  const double r = 0.6, eta = 1.5;
  const double beta = std::tgamma(0.5) * std::tgamma(eta) / std::tgamma(0.5 + eta);
  EXPECT_NEAR(value_of(LKJCholesky(2, number(eta)).log_prob(matrix(2, {1, 0, r, 0.8}))),
              (eta - 1) * std::log(1 - r * r) - std::log(beta), 1e-13);
}

TEST(Vectors, NormalVectorsOfLowRank) {
  const Tensor loc = numbers({1, -2, 0.5}), x = matrix(2, {0.3, 1, 2, -1, 0, 0});
  const LowRankMultivariateNormal d(loc, matrix(3, {1, 0.5, -2}), numbers({0.5, 1, 2}));
  const MultivariateNormal same(loc, Covariance{d.covariance_matrix()});
  EXPECT_LT(largest_difference(d.log_prob(x), same.log_prob(x)), 1e-13);
  EXPECT_LT(largest_difference(d.scale_tril(), same.scale_tril()), 1e-14);
  EXPECT_LT(largest_difference(d.precision_matrix(), same.precision_matrix()), 1e-13);
  EXPECT_LT(largest_difference(d.variance(), same.variance()), 1e-13);
  EXPECT_NEAR(value_of(d.entropy()), value_of(same.entropy()), 1e-13);
}

TEST(Vectors, MatricesAreMadeThreeWays) {
  const Tensor L = matrix(2, {1.5, 0, -0.4, 0.8});
  const Wishart a(number(4.5), ScaleTril{L});
  const Wishart b(number(4.5), Covariance{a.covariance_matrix()}), c(number(4.5), Precision{a.precision_matrix()});
  const Tensor x = a.sample(IntVector{3});
  EXPECT_LT(largest_difference(a.log_prob(x), b.log_prob(x)), 1e-11);
  EXPECT_LT(largest_difference(a.log_prob(x), c.log_prob(x)), 1e-11);
  EXPECT_LT(largest_difference(a.mode(), a.covariance_matrix() * 1.5), 1e-14);
}

TEST(Vectors, MixturesOfNumbersAndVectors) {
  const Tensor weights = numbers({1, 3}), loc = matrix(2, {0, 1, 4, -2});
  const MixtureSameFamily d(Categorical{Probs{weights}},
                            std::make_shared<Independent>(std::make_shared<Normal>(loc, number(0.5)), 1));
  EXPECT_EQ(d.batch_shape(), IntVector{});
  EXPECT_EQ(d.event_shape(), IntVector{2});
  EXPECT_EQ(to_vector(d.sample(IntVector{5}).sizes()), (IntVector{5, 2}));
  EXPECT_LT(largest_difference(d.mean(), numbers({3, -1.25})), 1e-15);
  const MixtureSameFamily line(Categorical{Probs{weights}}, std::make_shared<Normal>(numbers({0, 1}), number(2)));
  const double wanted = value_of(Normal(number(0), number(2)).cdf(number(0.3))) * 0.25 +
                        value_of(Normal(number(1), number(2)).cdf(number(0.3))) * 0.75;
  EXPECT_NEAR(value_of(line.cdf(number(0.3))), wanted, 1e-15);
}

TEST(Vectors, OneHotVectors) {
  const OneHotCategorical d{Probs{numbers({1, 2, 5})}};
  EXPECT_TRUE(equal(d.mode(), numbers({0, 0, 1})));
  EXPECT_TRUE(equal(d.enumerate_support(), eye(3, DType::kFloat64)));
  EXPECT_NEAR(value_of(d.log_prob(numbers({0, 1, 0}))), std::log(0.25), 1e-15);
}

TEST(Vectors, WrongParametersAndValuesAreRefused) {
  const Tensor bad = numbers({1, -2}), L = matrix(2, {1.5, 0, -0.4, 0.8});
  const auto says = [](const std::function<void()>& f, const char* what) {
    EXPECT_NE(message_of(f).find(what), std::string::npos) << message_of(f);
  };
  says([&] { OneHotCategorical{Probs{bad}}; }, "parameter probs (Tensor of shape (2,)) of distribution OneHot");
  says([&] { Multinomial(-1, Probs{numbers({1, 2})}); }, "total_count must be at least 0, but was -1");
  says([&] { VonMises(number(0), number(-1)); }, "parameter concentration");
  says([&] { RelaxedBernoulli(number(-1), Probs{number(0.5)}); }, "parameter temperature");
  says([&] { ExpRelaxedCategorical(number(-1), Probs{numbers({1, 2})}); }, "parameter temperature");
  says([&] { LowRankMultivariateNormal(bad, matrix(2, {1, 2}), bad); }, "parameter cov_diag");
  says([&] { LowRankMultivariateNormal(bad, matrix(1, {1, 2}), bad); }, "matrices with shape 2 x m");
  says([&] { Wishart(number(0.5), ScaleTril{L}); }, "greater than ndim - 1 = 1");
  says([&] { Wishart(number(3), Covariance{neg(L)}); }, "of distribution Wishart to satisfy");
  says([&] { LKJCholesky(1, number(1)); }, "greater than or equal to 2. Found dim=1");
  says(
      [&] {
        MixtureSameFamily(Categorical{Probs{numbers({1, 2, 3})}}, std::make_shared<Normal>(bad, number(1)));
      },
      "(3) does not equal `component_distribution.batch_shape[-1]` (2)");
  says([&] { OneHotCategorical{Probs{numbers({1, 2})}}.log_prob(numbers({1, 1})); }, "OneHot()");
  says([&] { Multinomial(2, Probs{numbers({1, 2})}).log_prob(numbers({2, 1})); }, "Multinomial()");
  says([&] { GeneralizedPareto(number(0), number(1), number(-0.5)).log_prob(number(2.5)); }, "within the support");
  says([&] { Wishart(number(3), ScaleTril{L}).log_prob(L); }, "PositiveDefinite()");
  says([&] { LKJCholesky(2, number(1)).log_prob(L); }, "CorrCholesky()");
  says([&] { RelaxedBernoulli(number(1), Probs{number(0.5)}).log_prob(number(1.5)); }, "within the support");
  EXPECT_THROW(VonMises(number(0), number(1)).rsample(), NotImplementedError);
}

}  // namespace
}  // namespace tessera::distributions
