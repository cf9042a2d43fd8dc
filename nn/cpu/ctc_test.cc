#include "nn/cpu/ctc.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tensor/core/parallel.h"

namespace tessera::cpu {
namespace {

// The label sequence that a path of classes stands for: repetitions go, then blanks.
std::vector<int64_t> said(const std::vector<int64_t>& path, int64_t blank) {
  std::vector<int64_t> r;
  for (size_t t = 0; t < path.size(); ++t)
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) r.push_back(path[t]);
  return r;
}

struct Problem {
  int64_t steps, batch, classes, blank;
  std::vector<std::vector<int64_t>> targets;
  std::vector<int64_t> input_lengths;
  std::vector<double> log_probs;  // normalised

  Problem(int64_t steps, int64_t classes, int64_t blank, std::vector<std::vector<int64_t>> given,
          std::vector<int64_t> lengths)
      : steps(steps),
        batch(given.size()),
        classes(classes),
        blank(blank),
        targets(std::move(given)),
        input_lengths(std::move(lengths)),
        log_probs(steps * batch * classes) {
    std::mt19937 rng(7);
    for (double& x : log_probs) x = static_cast<double>(rng() % 1000) / 300;
    for (int64_t i = 0; i < steps * batch; ++i) {
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(log_probs[i * classes + c]);
      for (int64_t c = 0; c < classes; ++c) log_probs[i * classes + c] -= std::log(sum);
    }
  }

  // By all paths: the loss of sequence n, and how often each class is expected at each step.
  double loss(int64_t n, std::vector<double>* visits) const {
    const int64_t length = input_lengths[n];
    visits->assign(steps * classes, 0);
    int64_t paths = 1;
    for (int64_t t = 0; t < length; ++t) paths *= classes;
    double total = 0;
    for (int64_t p = 0; p < paths; ++p) {
      std::vector<int64_t> path;
      double score = 0;
      for (int64_t t = 0, rest = p; t < length; ++t, rest /= classes) {
        path.push_back(rest % classes);
        score += log_probs[(t * batch + n) * classes + path.back()];
      }
      if (said(path, blank) != targets[n]) continue;
      total += std::exp(score);
      for (int64_t t = 0; t < length; ++t) (*visits)[t * classes + path[t]] += std::exp(score);
    }
    for (double& v : *visits) v /= total;
    return -std::log(total);
  }
};

template <class A>
void check(const Problem& p, double tolerance) {
  std::vector<const int64_t*> rows;
  std::vector<int64_t> lengths;
  int64_t longest = 0;
  for (const auto& t : p.targets) {
    rows.push_back(t.data());
    lengths.push_back(static_cast<int64_t>(t.size()));
    longest = std::max(longest, lengths.back());
  }
  const CtcBatch b{p.steps,       p.batch, p.classes, p.blank, 2 * longest + 1, rows.data(), p.input_lengths.data(),
                   lengths.data()};
  const std::vector<A> x(p.log_probs.begin(), p.log_probs.end());
  std::vector<A> loss(p.batch), alpha(p.batch * p.steps * b.states), grad(x.size()), ones(p.batch, A(2));
  const DType dtype = sizeof(A) == 4 ? DType::kFloat32 : DType::kFloat64;
  ctc_forward(dtype, b, x.data(), loss.data(), alpha.data());
  ctc_backward(dtype, b, x.data(), loss.data(), alpha.data(), ones.data(), 1, false, grad.data());
  for (int64_t n = 0; n < p.batch; ++n) {
    std::vector<double> visits;
    const double expected = p.loss(n, &visits);
    if (std::isinf(expected)) {
      EXPECT_EQ(loss[n], std::numeric_limits<A>::infinity()) << n;
      continue;
    }
    EXPECT_NEAR(loss[n], expected, tolerance * (1 + expected)) << n;
    for (int64_t t = 0; t < p.steps; ++t)
      for (int64_t c = 0; c < p.classes; ++c) {
        const int64_t at = (t * p.batch + n) * p.classes + c;
        const double wanted = t < p.input_lengths[n] ? 2 * (std::exp(p.log_probs[at]) - visits[t * p.classes + c]) : 0;
        EXPECT_NEAR(grad[at], wanted, tolerance) << n << " " << t << " " << c;
      }
  }
}

TEST(Ctc, IsTheSumOverAllPaths) {
  const Problem p(6, 4, 1, {{0, 2}, {3, 3, 0}, {}, {2}, {0, 0, 0, 0}, {}, {3}}, {6, 6, 5, 1, 6, 0, 0});
  check<double>(p, 1e-12);
  check<float>(p, 2e-5);
  check<double>(Problem(5, 3, 0, {{1, 2, 1}, {2, 2}}, {5, 4}), 1e-12);
}

// More states than a vector has lanes; the sum over all paths by the recursion in plain numbers.
TEST(Ctc, LongTargets) {
  const int64_t steps = 60, classes = 5, length = 21;
  std::vector<int64_t> target;
  for (int64_t i = 0; i < length; ++i) target.push_back(1 + i * i % 4);
  const Problem p(steps, classes, 0, {target}, {steps});
  const int64_t count = 2 * length + 1;
  std::vector<double> now(count, 0), before;
  const auto label = [&](int64_t s) { return s % 2 ? target[s / 2] : 0; };
  for (int64_t t = 0; t < steps; ++t) {
    before = now;
    for (int64_t s = 0; s < count; ++s) {
      double sum = t == 0 ? (s < 2) : before[s];
      if (t > 0 && s > 0) sum += before[s - 1];
      if (t > 0 && s > 1 && label(s) != 0 && label(s) != label(s - 2)) sum += before[s - 2];
      now[s] = sum * std::exp(p.log_probs[t * classes + label(s)]);
    }
  }
  const int64_t* rows[] = {target.data()};
  const int64_t lengths[] = {length}, steps_of[] = {steps};
  const CtcBatch b{steps, 1, classes, 0, count, rows, steps_of, lengths};
  double loss, one = 1;
  std::vector<double> alpha(steps * count), grad(p.log_probs.size());
  ctc_forward(DType::kFloat64, b, p.log_probs.data(), &loss, alpha.data());
  EXPECT_NEAR(loss, -std::log(now[count - 1] + now[count - 2]), 1e-10);
  ctc_backward(DType::kFloat64, b, p.log_probs.data(), &loss, alpha.data(), &one, 1, false, grad.data());
  for (int64_t t = 0; t < steps; ++t) {
    double sum = 0;  // a state is visited at each step
    for (int64_t c = 0; c < classes; ++c) sum += grad[t * classes + c];
    EXPECT_NEAR(sum, 0, 1e-10);
  }
}

TEST(Ctc, InfiniteLosses) {
  const int64_t target[] = {1, 1}, *rows[] = {target};
  const int64_t lengths[] = {2}, steps[] = {2};
  const CtcBatch b{3, 1, 2, 0, 5, rows, steps, lengths};
  const std::vector<float> x(6, std::log(0.5f));
  std::vector<float> loss(1), alpha(15), grad(6), one(1, 1.0f);
  ctc_forward(DType::kFloat32, b, x.data(), loss.data(), alpha.data());
  EXPECT_TRUE(std::isinf(loss[0]));
  ctc_backward(DType::kFloat32, b, x.data(), loss.data(), alpha.data(), one.data(), 1, true, grad.data());
  EXPECT_EQ(grad, std::vector<float>(6, 0.0f));
  ctc_backward(DType::kFloat32, b, x.data(), loss.data(), alpha.data(), one.data(), 1, false, grad.data());
  EXPECT_TRUE(std::isnan(grad[0]) && std::isnan(grad[3]));
  EXPECT_EQ(grad[4], 0.0f);
}

}  // namespace
}  // namespace tessera::cpu
