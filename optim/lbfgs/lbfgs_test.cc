#include "optim/lbfgs/lbfgs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "tensor/ops/api.h"

namespace tessera::optim::lbfgs {
namespace {

Tensor vec(std::initializer_list<double> values) {
  Tensor t =
      empty_tensor(IntVector{static_cast<int64_t>(values.size())}, {}, DType::kFloat64, Device(DeviceType::kCPU));
  std::copy(values.begin(), values.end(), t.data<double>());
  return t;
}

// A function of one number as a line search sees it.
template <class F, class D>
Found search(F f, D df, double first, Wolfe w = {}, int* calls = nullptr) {
  const Trial start{0, f(0), df(0), vec({df(0)})};
  const Tensor along = vec({1});
  return strong_wolfe(
      [&](double at) {
        if (calls) ++*calls;
        return std::pair(f(at), vec({df(at)}));
      },
      along, start, first, w);
}

TEST(CubicMinimum, FindsTheMinimumOfACubicAndStaysWithinBounds) {
  // x^3 - 3x has its minimum at 1
  auto trial = [](double x) { return Trial{x, x * x * x - 3 * x, 3 * x * x - 3, {}}; };
  EXPECT_NEAR(cubic_minimum(trial(0), trial(3), 0, 3), 1, 1e-12);
  EXPECT_NEAR(cubic_minimum(trial(3), trial(0), 0, 3), 1, 1e-12);
  EXPECT_EQ(cubic_minimum(trial(0), trial(3), 2, 3), 2);
  // one that falls everywhere has none
  EXPECT_EQ(cubic_minimum({0, 0, -1, {}}, {1, -1, -1.5, {}}, 2, 4), 3);
}

class Wolfes : public testing::TestWithParam<double> {};

TEST_P(Wolfes, PointsMeetTheStrongConditions) {
  struct {
    double (*f)(double);
    double (*df)(double);
  } const functions[] = {
      {[](double x) { return (x - 2) * (x - 2); }, [](double x) { return 2 * (x - 2); }},
      {[](double x) { return -x / (x * x + 2); }, [](double x) { return (x * x - 2) / ((x * x + 2) * (x * x + 2)); }},
      {[](double x) { return std::exp(x) - 3 * x; }, [](double x) { return std::exp(x) - 3; }},
  };
  for (const auto& [f, df] : functions) {
    const Wolfe w{.flatness = 0.1};
    int calls = 0;
    const Found found = search(f, df, GetParam(), w, &calls);
    EXPECT_LE(found.trial.value, f(0) + w.decrease * found.trial.at * df(0));
    EXPECT_LE(std::abs(found.trial.slope), w.flatness * std::abs(df(0)));
    EXPECT_EQ(found.evaluations, calls);
    EXPECT_EQ(found.trial.value, f(found.trial.at));
    EXPECT_EQ(found.trial.gradient.data<double>()[0], df(found.trial.at));
  }
}
INSTANTIATE_TEST_SUITE_P(First, Wolfes, testing::Values(1e-3, 0.1, 1.0, 10.0));

TEST(StrongWolfe, StopsAfterTheMostTrialsWithTheBestPoint) {
  int calls = 0;
  const Found found = search([](double x) { return -x; }, [](double) { return -1.0; }, 1, {.most_trials = 4}, &calls);
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(found.evaluations, 5);
  EXPECT_EQ(found.trial.at, 10000);
}

TEST(Direction, IsNewtonsOnAQuadratic) {
  // f = (x^2 + 4 y^2) / 2 along its axes: two pairs of differences know the whole Hessian
  const std::vector<Tensor> steps = {vec({1, 0}), vec({0, 1})}, changes = {vec({1, 0}), vec({0, 4})};
  const std::vector<double> weights = {1, 0.25};
  const Direction d = direction(vec({3, 8}), {changes, steps, weights}, 7);
  EXPECT_NEAR(d.vector.data<double>()[0], -3, 1e-12);
  EXPECT_NEAR(d.vector.data<double>()[1], -2, 1e-12);
  EXPECT_EQ(d.shares.size(), 2u);
  EXPECT_THROW(direction(vec({3, 8}), {changes, steps, {}}, 1), ValueError);
  EXPECT_EQ(direction(vec({3, 8}), {}, 2).vector.data<double>()[1], -16);
}

TEST(Lbfgs, MinimisesRosenbrocksFunction) {
  double x[] = {-1.2, 1};
  auto at = [&](const Tensor& d, double t, int i) { return x[i] + t * d.data<double>()[i]; };
  auto value = [](double a, double b) { return 100 * (b - a * a) * (b - a * a) + (1 - a) * (1 - a); };
  auto gradient = [](double a, double b) { return vec({-400 * a * (b - a * a) - 2 * (1 - a), 200 * (b - a * a)}); };
  std::deque<Tensor> changes, steps;
  std::deque<double> weights;
  double scale = 1;
  Tensor g = gradient(x[0], x[1]);
  for (int i = 0; i < 60 && g.abs().max().item_scalar().to_double() > 1e-9; ++i) {
    const std::vector<Tensor> y(changes.begin(), changes.end()), s(steps.begin(), steps.end());
    const std::vector<double> w(weights.begin(), weights.end());
    const Tensor d = direction(g, {y, s, w}, scale).vector;
    const Found found = strong_wolfe(
        [&](double t) {
          const double a = at(d, t, 0), b = at(d, t, 1);
          return std::pair(value(a, b), gradient(a, b));
        },
        d, {0, value(x[0], x[1]), dot(g, d).item_scalar().to_double(), g}, i ? 1 : 1e-3);
    for (int k = 0; k < 2; ++k) x[k] = at(d, found.trial.at, k);
    steps.push_back(d.mul(found.trial.at));
    changes.push_back(found.trial.gradient.sub(g));
    const double ys = dot(changes.back(), steps.back()).item_scalar().to_double();
    weights.push_back(1 / ys);
    scale = ys / dot(changes.back(), changes.back()).item_scalar().to_double();
    g = found.trial.gradient;
  }
  EXPECT_NEAR(x[0], 1, 1e-6);
  EXPECT_NEAR(x[1], 1, 1e-6);
}

}  // namespace
}  // namespace tessera::optim::lbfgs
