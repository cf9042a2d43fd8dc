// Bayesian linear regression by variational inference: a normal distribution of the weights is moved until the lower
// bound of the evidence is highest, then set beside the exact posterior, which is known here.
//
//   bazel run //examples/regression:regression
#include <array>
#include <cstdio>
#include <memory>

#include "autograd/autograd.h"
#include "distributions/distributions.h"
#include "linalg/linalg.h"
#include "optim/optimizers/adam.h"
#include "optim/optimizers/lr_scheduler.h"
#include "tensor/ops/api.h"

namespace {

using namespace tessera;
using namespace tessera::distributions;

constexpr int64_t kPoints = 60, kWeights = 3, kSamples = 16, kSteps = 3000;
constexpr double kNoise = 0.3;

Tensor number(double x) { return full(IntVector{}, Scalar(x), DType::kFloat64); }

// 1, x, x^2 at random places, and what was measured there.
struct Data {
  Tensor features, targets;
};
Data measure() {
  const Tensor x = Uniform(number(-1), number(1)).sample(IntVector{kPoints});
  const Tensor features = stack(std::array{ones_like(x), x, square(x)}, -1);
  const Tensor truth = features.matmul(stack(std::array{number(0.5), number(-1.2), number(2)}, 0));
  return {features, Normal(truth, number(kNoise)).sample()};
}

// The posterior of the weights before any data are independent, with mean 0 and deviation 1.
MultivariateNormal prior() {
  return {zeros(IntVector{kWeights}, DType::kFloat64), ScaleTril{eye(kWeights, DType::kFloat64)}};
}
MultivariateNormal exact_posterior(const Data& data) {
  const Tensor transposed = data.features.t() / (kNoise * kNoise);
  const Tensor precision = transposed.matmul(data.features) + eye(kWeights, DType::kFloat64);
  return {linalg::solve(precision, transposed.matmul(data.targets)), Precision{precision}};
}

// Its parameters: a mean, and a triangle whose diagonal is exp(.) of what is kept.
struct Guess {
  Tensor mean = zeros(IntVector{kWeights}, DType::kFloat64).requires_grad_();
  Tensor triangle = zeros(IntVector{kWeights, kWeights}, DType::kFloat64).requires_grad_();

  MultivariateNormal posterior() const {
    const Tensor factor = tril(triangle, -1) + diag(exp(diag(triangle)));
    return {mean, ScaleTril{factor}};
  }
};

Tensor negative_bound(const Data& data, const MultivariateNormal& posterior) {
  const Tensor weights = posterior.rsample(IntVector{kSamples});
  const Normal likelihood(weights.matmul(data.features.t()), number(kNoise));
  return kl_divergence(posterior, prior()) - likelihood.log_prob(data.targets).sum() / kSamples;
}

}  // namespace

int main() {
  default_cpu_generator()->manual_seed(0);
  const Data data = measure();
  const Guess guess;
  optim::Adam optimizer({guess.mean, guess.triangle}, {.lr = 0.1});
  optim::CosineAnnealingLR scheduler(optimizer, kSteps);
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    negative_bound(data, guess.posterior()).backward();
    optimizer.step();
    scheduler.step();
  }
  const MultivariateNormal found = guess.posterior(), exact = exact_posterior(data);
  for (int64_t i = 0; i < kWeights; ++i) {
    const auto at = [i](const Tensor& t) { return t.detach().select(0, i).item<double>(); };
    std::printf("weight %d: %.3f +- %.3f, exactly %.3f +- %.3f\n", static_cast<int>(i), at(found.mean()),
                at(found.stddev()), at(exact.mean()), at(exact.stddev()));
  }
  std::printf("divergence %.4f\n", kl_divergence(found, exact).item<double>());
}
