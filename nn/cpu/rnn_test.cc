#include "nn/cpu/rnn.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/parallel.h"

namespace tessera::cpu {
namespace {

using Numbers = std::vector<double>;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// All inputs and results of a layer in float64; the weight as [gates, hidden].
struct Layer {
  RnnLayer l;
  Numbers gates, h0, c0, w, b;
  Numbers values, output, extra;

  Layer(RnnKind kind, int64_t steps, int64_t batch, int64_t hidden, bool reverse)
      : l{DType::kFloat64, kind, steps, batch, hidden, reverse} {
    std::mt19937 rng(7);
    std::uniform_real_distribution<double> draw(-1, 1);
    auto fill = [&](Numbers& x, int64_t n) {
      x.resize(static_cast<size_t>(n));
      for (double& v : x) v = draw(rng);
    };
    fill(gates, steps * batch * l.gates());
    fill(h0, batch * hidden);
    fill(w, l.gates() * hidden);
    for (double& v : w) v /= std::sqrt(static_cast<double>(hidden));
    if (kind == RnnKind::kLstm) fill(c0, batch * hidden);
    fill(b, l.gates());
    output.resize(static_cast<size_t>(steps * batch * hidden));
    extra.resize(kind == RnnKind::kLstm || kind == RnnKind::kGru ? output.size() : 0);
  }
  const double* cells() const { return c0.empty() ? nullptr : c0.data(); }
  RnnTrace trace() { return {values.data(), output.data(), extra.empty() ? nullptr : extra.data()}; }
  void forward() {
    const int64_t gates_width = l.gates(), hidden = l.hidden;
    Numbers t(w.size());
    for (int64_t i = 0; i < gates_width; ++i)
      for (int64_t j = 0; j < hidden; ++j)
        t[static_cast<size_t>(j * gates_width + i)] = w[static_cast<size_t>(i * hidden + j)];
    values.resize(gates.size());
    rnn_forward(l, gates.data(), trace(), h0.data(), cells(), t.data(), b.empty() ? nullptr : b.data());
  }
  // A number that depends on everything: its gradients are what the backward gets.
  double loss(const Numbers& weights) {
    forward();
    double sum = 0;
    for (size_t i = 0; i < output.size(); ++i) sum += weights[i] * output[i];
    return sum;
  }
};

// The state after a step, by the definition.
void reference_step(const Layer& m, int64_t t, int64_t row, Numbers& h, Numbers& c) {
  const int64_t n = m.l.hidden, width = m.l.gates();
  Numbers from_state(static_cast<size_t>(width));
  for (int64_t g = 0; g < width; ++g) {
    double sum = m.b.empty() ? 0 : m.b[static_cast<size_t>(g)];
    for (int64_t j = 0; j < n; ++j) sum += m.w[static_cast<size_t>(g * n + j)] * h[static_cast<size_t>(j)];
    from_state[static_cast<size_t>(g)] = sum;
  }
  auto x = [&](int64_t block, int64_t j) {
    return m.gates[static_cast<size_t>((t * m.l.batch + row) * width + block * n + j)];
  };
  auto s = [&](int64_t block, int64_t j) { return from_state[static_cast<size_t>(block * n + j)]; };
  Numbers next(h.size());
  for (int64_t j = 0; j < n; ++j) {
    const size_t at = static_cast<size_t>(j);
    if (m.l.kind == RnnKind::kLstm) {
      c[at] = logistic(x(1, j) + s(1, j)) * c[at] + logistic(x(0, j) + s(0, j)) * std::tanh(x(2, j) + s(2, j));
      next[at] = logistic(x(3, j) + s(3, j)) * std::tanh(c[at]);
    } else if (m.l.kind == RnnKind::kGru) {
      const double z = logistic(x(1, j) + s(1, j)),
                   candidate = std::tanh(x(2, j) + logistic(x(0, j) + s(0, j)) * s(2, j));
      next[at] = (h[at] - candidate) * z + candidate;
    } else {
      const double v = x(0, j) + s(0, j);
      next[at] = m.l.kind == RnnKind::kTanh ? std::tanh(v) : std::max(v, 0.0);
    }
  }
  h = next;
}

class RnnTest : public testing::TestWithParam<std::tuple<RnnKind, bool, int64_t, int64_t>> {
 protected:
  Layer layer() const {
    const auto [kind, reverse, batch, hidden] = GetParam();
    return Layer(kind, 4, batch, hidden, reverse);
  }
};

TEST_P(RnnTest, ForwardFollowsTheDefinition) {
  Layer m = layer();
  m.forward();
  const int64_t n = m.l.hidden;
  for (int64_t row = 0; row < m.l.batch; ++row) {
    Numbers h(m.h0.begin() + row * n, m.h0.begin() + (row + 1) * n), c(static_cast<size_t>(n));
    if (!m.c0.empty()) c.assign(m.c0.begin() + row * n, m.c0.begin() + (row + 1) * n);
    for (int64_t s = 0; s < m.l.steps; ++s) {
      const int64_t t = m.l.reverse ? m.l.steps - 1 - s : s;
      reference_step(m, t, row, h, c);
      for (int64_t j = 0; j < n; ++j)
        ASSERT_NEAR(m.output[static_cast<size_t>((t * m.l.batch + row) * n + j)], h[static_cast<size_t>(j)], 1e-13)
            << "step " << t << ", feature " << j;
    }
  }
}

TEST_P(RnnTest, BackwardIsTheDerivative) {
  Layer m = layer();
  std::mt19937 rng(3);
  Numbers weights(m.output.size());
  for (double& v : weights) v = std::uniform_real_distribution<double>(-1, 1)(rng);
  m.loss(weights);
  Numbers grad_h(m.h0.size()), grad_c(m.c0.size()), grad_gates(m.gates.size()),
      grad_hidden(m.l.kind == RnnKind::kGru ? m.gates.size() : 0);
  rnn_backward(m.l, m.trace(), m.h0.data(), m.cells(), m.w.data(), weights.data(), grad_h.data(),
               grad_c.empty() ? nullptr : grad_c.data(), grad_gates.data(),
               grad_hidden.empty() ? nullptr : grad_hidden.data());
  auto expect_slope = [&](Numbers& x, const Numbers& grad, const char* what) {
    for (size_t i = 0; i < x.size(); i += std::max<size_t>(5, x.size() / 64)) {
      const double kept = x[i], step = 1e-6;
      x[i] = kept + step;
      const double above = m.loss(weights);
      x[i] = kept - step;
      const double below = m.loss(weights);
      x[i] = kept;
      ASSERT_NEAR(grad[i], (above - below) / (2 * step), 1e-7) << what << " " << i;
    }
  };
  expect_slope(m.gates, grad_gates, "gates");
  expect_slope(m.h0, grad_h, "h0");
  expect_slope(m.c0, grad_c, "c0");
}

INSTANTIATE_TEST_SUITE_P(
    AllKinds, RnnTest,
    testing::Combine(testing::Values(RnnKind::kLstm, RnnKind::kGru, RnnKind::kTanh, RnnKind::kRelu), testing::Bool(),
                     testing::Values<int64_t>(3, 5, 14, 19), testing::Values<int64_t>(1, 7, 19, 70)));

TEST(Rnn, SameBitsForAnyNumberOfThreads) {
  Numbers results[2];
  for (int threads : {1, 2}) {
    set_num_threads(threads);
    for (const auto& [kind, batch, hidden] : {std::tuple<RnnKind, int64_t, int64_t>{RnnKind::kLstm, 70, 90},
                                              {RnnKind::kGru, 16, 64},
                                              {RnnKind::kTanh, 9, 600}}) {
      Layer m(kind, 5, batch, hidden, false);
      m.forward();
      Numbers grad_h(m.h0.size(), 1), grad_c(m.c0.size(), 1), grad_gates(m.gates.size()),
          grad_hidden(kind == RnnKind::kGru ? m.gates.size() : 0);
      rnn_backward(m.l, m.trace(), m.h0.data(), m.cells(), m.w.data(), m.output.data(), grad_h.data(),
                   grad_c.empty() ? nullptr : grad_c.data(), grad_gates.data(),
                   grad_hidden.empty() ? nullptr : grad_hidden.data());
      for (const Numbers* x : {&m.output, &m.values, &grad_h, &grad_c, &grad_gates, &grad_hidden})
        results[threads - 1].insert(results[threads - 1].end(), x->begin(), x->end());
    }
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(Rnn, GatesNeedNotBeKept) {
  for (RnnKind kind : {RnnKind::kLstm, RnnKind::kGru, RnnKind::kTanh, RnnKind::kRelu})
    for (int64_t batch : {1, 8, 21}) {
      Layer kept(kind, 6, batch, 70, true), m(kind, 6, batch, 70, true);
      kept.forward();
      Numbers t(m.w.size());
      for (int64_t i = 0; i < m.l.gates(); ++i)
        for (int64_t j = 0; j < m.l.hidden; ++j)
          t[static_cast<size_t>(j * m.l.gates() + i)] = m.w[static_cast<size_t>(i * m.l.hidden + j)];
      RnnTrace trace = m.trace();
      trace.gates = nullptr;
      rnn_forward(m.l, m.gates.data(), trace, m.h0.data(), m.cells(), t.data(), m.b.data());
      EXPECT_EQ(m.output, kept.output);
    }
}

TEST(Rnn, NothingForAnEmptyBatch) {
  Layer m(RnnKind::kGru, 3, 0, 4, false);
  m.forward();
  EXPECT_TRUE(m.output.empty());
}

}  // namespace
}  // namespace tessera::cpu
