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

struct Shape {
  RnnKind kind;
  int64_t batch, hidden, outputs, directions;
  bool reverse;
  std::vector<int64_t> sizes;  // sequences of each step
};
Shape simple(RnnKind kind, int64_t steps, int64_t batch, int64_t hidden, bool reverse, int64_t directions = 1) {
  return {kind, batch, hidden, hidden, directions, reverse, std::vector<int64_t>(static_cast<size_t>(steps), batch)};
}

// All inputs and results of a layer in float64.
struct Layer {
  Shape shape;
  std::vector<int64_t> begins;
  RnnLayer l;
  Numbers gates, h0, c0, w, b, projection;
  Numbers values, output, extra;

  explicit Layer(Shape s) : shape(std::move(s)), begins{0} {
    for (int64_t n : shape.sizes) begins.push_back(begins.back() + n);
    l = {DType::kFloat64,  shape.kind,   static_cast<int64_t>(shape.sizes.size()),
         shape.batch,      shape.hidden, shape.outputs,
         shape.directions, shape.reverse};
    if (std::ranges::count(shape.sizes, shape.batch) != l.steps) l.sizes = shape.sizes.data(), l.begins = begins.data();
    std::mt19937 rng(7);
    std::uniform_real_distribution<double> draw(-1, 1);
    auto fill = [&](Numbers& x, int64_t n, double scale = 1) {
      x.resize(static_cast<size_t>(n * l.directions));
      for (double& v : x) v = scale * draw(rng);
    };
    const double scale = 1 / std::sqrt(static_cast<double>(l.hidden));
    fill(gates, l.rows() * l.gates());
    fill(h0, l.batch * l.outputs);
    fill(w, l.gates() * l.outputs, scale);
    if (l.kind == RnnKind::kLstm) fill(c0, l.batch * l.hidden);
    fill(b, l.gates());
    if (l.projects()) fill(projection, l.outputs * l.hidden, scale);
    output.resize(static_cast<size_t>(l.rows() * l.outputs * l.directions));
    extra.resize(l.kind == RnnKind::kLstm || l.kind == RnnKind::kGru
                     ? static_cast<size_t>(l.rows() * l.hidden * l.directions)
                     : 0);
  }
  static const double* given(const Numbers& x) { return x.empty() ? nullptr : x.data(); }
  RnnInputs inputs() const { return {h0.data(), given(c0), w.data(), given(b), given(projection)}; }
  RnnTrace trace() { return {values.data(), output.data(), extra.empty() ? nullptr : extra.data()}; }
  void forward() {
    values.resize(gates.size());
    rnn_forward(l, gates.data(), inputs(), trace());
  }
  // A number that depends on everything: its gradients are what the backward gets.
  double loss(const Numbers& weights) {
    forward();
    double sum = 0;
    for (size_t i = 0; i < output.size(); ++i) sum += weights[i] * output[i];
    return sum;
  }
};

// The state and the cell of a sequence after a step, by the definition.
void reference_step(const Layer& m, int64_t d, int64_t row, Numbers& h, Numbers& c) {
  const int64_t n = m.l.hidden, width = m.l.gates(), outputs = m.l.outputs;
  Numbers from_state(static_cast<size_t>(width)), next(static_cast<size_t>(n));
  for (int64_t g = 0; g < width; ++g) {
    double sum = m.b[static_cast<size_t>(d * width + g)];
    for (int64_t j = 0; j < outputs; ++j)
      sum += m.w[static_cast<size_t>((d * width + g) * outputs + j)] * h[static_cast<size_t>(j)];
    from_state[static_cast<size_t>(g)] = sum;
  }
  auto x = [&](int64_t block, int64_t j) {
    return m.gates[static_cast<size_t>((row * m.l.directions + d) * width + block * n + j)];
  };
  auto s = [&](int64_t block, int64_t j) { return from_state[static_cast<size_t>(block * n + j)]; };
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
  if (!m.l.projects()) {
    h = next;
    return;
  }
  for (int64_t p = 0; p < outputs; ++p) {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j)
      sum += m.projection[static_cast<size_t>((d * outputs + p) * n + j)] * next[static_cast<size_t>(j)];
    h[static_cast<size_t>(p)] = sum;
  }
}

void expect_definition(Layer& m) {
  m.forward();
  const int64_t n = m.l.outputs, width = n * m.l.directions;
  for (int64_t d = 0; d < m.l.directions; ++d)
    for (int64_t sequence = 0; sequence < m.l.batch; ++sequence) {
      const auto state = m.h0.begin() + (d * m.l.batch + sequence) * n;
      Numbers h(state, state + n), c(static_cast<size_t>(m.l.hidden));
      const auto cell = m.c0.begin() + (d * m.l.batch + sequence) * m.l.hidden;
      if (!m.c0.empty()) c.assign(cell, cell + m.l.hidden);
      for (int64_t s = 0; s < m.l.steps; ++s) {
        const int64_t t = m.l.reverse || d == 1 ? m.l.steps - 1 - s : s;
        if (sequence >= m.l.size(t)) continue;
        const int64_t row = m.l.row(t) + sequence;
        reference_step(m, d, row, h, c);
        for (int64_t j = 0; j < n; ++j)
          ASSERT_NEAR(m.output[static_cast<size_t>(row * width + d * n + j)], h[static_cast<size_t>(j)], 1e-13)
              << "direction " << d << ", step " << t << ", sequence " << sequence << ", feature " << j;
      }
    }
}

struct Slopes {
  Numbers h, c, gates, hidden;
  RnnGradients all() {
    const auto of = [](Numbers& x) { return x.empty() ? nullptr : x.data(); };
    return {of(h), of(c), of(gates), of(hidden)};
  }
};
Slopes backward(Layer& m, const Numbers& grad_output, double last = 0) {
  Slopes s{Numbers(m.h0.size(), last), Numbers(m.c0.size(), last), Numbers(m.gates.size()), {}};
  const int64_t width = m.l.kind == RnnKind::kGru ? m.l.gates() : m.l.projects() ? m.l.outputs : 0;
  s.hidden.resize(static_cast<size_t>(width * m.l.rows() * m.l.directions));
  rnn_backward(m.l, m.inputs(), m.trace(), grad_output.data(), s.all());
  return s;
}

void expect_derivative(Layer& m) {
  std::mt19937 rng(3);
  Numbers weights(m.output.size());
  for (double& v : weights) v = std::uniform_real_distribution<double>(-1, 1)(rng);
  m.loss(weights);
  const Slopes slopes = backward(m, weights);
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
  expect_slope(m.gates, slopes.gates, "gates");
  expect_slope(m.h0, slopes.h, "h0");
  expect_slope(m.c0, slopes.c, "c0");
}

class RnnTest : public testing::TestWithParam<std::tuple<RnnKind, bool, int64_t, int64_t>> {
 protected:
  Layer layer() const {
    const auto [kind, reverse, batch, hidden] = GetParam();
    return Layer(simple(kind, 4, batch, hidden, reverse));
  }
};

TEST_P(RnnTest, ForwardFollowsTheDefinition) {
  Layer m = layer();
  expect_definition(m);
}
TEST_P(RnnTest, BackwardIsTheDerivative) {
  Layer m = layer();
  expect_derivative(m);
}

// Sequences of different lengths, both directions, projections; batches that are taken in groups, as a whole, and with
// the weights as they lie.
class RnnShapes : public testing::TestWithParam<Shape> {};
TEST_P(RnnShapes, ForwardFollowsTheDefinition) {
  Layer m(GetParam());
  expect_definition(m);
}
TEST_P(RnnShapes, BackwardIsTheDerivative) {
  Layer m(GetParam());
  expect_derivative(m);
}
INSTANTIATE_TEST_SUITE_P(All, RnnShapes,
                         testing::Values(Shape{RnnKind::kLstm, 5, 7, 7, 1, false, {5, 5, 3, 1}},
                                         Shape{RnnKind::kGru, 5, 7, 7, 1, true, {5, 4, 4, 2}},
                                         Shape{RnnKind::kTanh, 3, 6, 6, 2, false, {3, 2, 1}},
                                         Shape{RnnKind::kLstm, 5, 9, 4, 1, false, {5, 5, 5, 5}},
                                         Shape{RnnKind::kLstm, 2, 9, 4, 2, false, {2, 2}},
                                         Shape{RnnKind::kLstm, 19, 20, 7, 2, false, {19, 17, 9, 9, 1}},
                                         Shape{RnnKind::kGru, 21, 18, 18, 2, false, {21, 21, 16, 3, 3}},
                                         Shape{RnnKind::kRelu, 6, 40, 40, 2, false, {6, 6, 6, 6, 6}},
                                         Shape{RnnKind::kLstm, 5, 300, 120, 2, false, {5, 4, 4, 4}},
                                         Shape{RnnKind::kGru, 2, 400, 400, 2, false, {2, 1}}));

INSTANTIATE_TEST_SUITE_P(
    AllKinds, RnnTest,
    testing::Combine(testing::Values(RnnKind::kLstm, RnnKind::kGru, RnnKind::kTanh, RnnKind::kRelu), testing::Bool(),
                     testing::Values<int64_t>(3, 5, 14, 19), testing::Values<int64_t>(1, 7, 19, 70)));

TEST(Rnn, SameBitsForAnyNumberOfThreads) {
  Numbers results[2];
  for (int threads : {1, 2}) {
    set_num_threads(threads);
    for (const Shape& shape : {simple(RnnKind::kLstm, 5, 70, 90, false), simple(RnnKind::kGru, 5, 16, 64, false),
                               simple(RnnKind::kTanh, 5, 9, 600, false), simple(RnnKind::kLstm, 5, 9, 600, false, 2),
                               Shape{RnnKind::kLstm, 33, 70, 30, 2, false, {33, 33, 20, 7, 1}}}) {
      Layer m(shape);
      m.forward();
      const Slopes s = backward(m, m.output, 1);
      for (const Numbers& x : {m.output, m.values, s.h, s.c, s.gates, s.hidden})
        results[threads - 1].insert(results[threads - 1].end(), x.begin(), x.end());
    }
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(Rnn, GatesNeedNotBeKept) {
  for (RnnKind kind : {RnnKind::kLstm, RnnKind::kGru, RnnKind::kTanh, RnnKind::kRelu})
    for (int64_t batch : {1, 8, 21}) {
      Layer kept(simple(kind, 6, batch, 70, true)), m(simple(kind, 6, batch, 70, true));
      kept.forward();
      RnnTrace trace = m.trace();
      trace.gates = nullptr;
      rnn_forward(m.l, m.gates.data(), m.inputs(), trace);
      EXPECT_EQ(m.output, kept.output);
    }
}

TEST(Rnn, NothingForAnEmptyBatch) {
  Layer m(simple(RnnKind::kGru, 3, 0, 4, false));
  m.forward();
  EXPECT_TRUE(m.output.empty());
}

}  // namespace
}  // namespace tessera::cpu
