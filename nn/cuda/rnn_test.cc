#include <cmath>
#include <numeric>
#include <vector>

#include "nn/cpu/rnn.h"
#include "nn/cuda/rnn_engines.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using cpu::RnnKind;
using cpu::RnnLayer;
using testing::Mirror;
using testing::random_elements;

struct Shape {
  RnnKind kind;
  int64_t batch, hidden, outputs, directions;
  bool reverse;
  std::vector<int64_t> sizes;  // sequences of each step
  bool bias = true, given = true;
};
// NOLINTNEXTLINE: the name is gtest's
void PrintTo(const Shape& s, std::ostream* out) {
  *out << "kind " << static_cast<int>(s.kind) << ", " << s.batch << " x " << s.hidden << " (" << s.outputs << "), "
       << s.directions << (s.reverse ? " reversed, " : " directions, ") << s.sizes.size() << " steps";
}

// A layer's arrays in both memories.
struct Layer {
  const Shape& s;
  DType t;
  std::vector<int64_t> begins{0};
  RnnLayer l;
  Mirror x, h0, c0, w, b, r, values, output, extra, grad, grad_h, grad_c, grad_gates, grad_hidden;

  Mirror make(int64_t n, uint64_t seed, double size = 1) const {
    return Mirror(random_elements(t, n * s.directions, seed, -size, size));
  }
  static RnnLayer layer(const Shape& s, DType t, std::vector<int64_t>& begins) {
    for (int64_t n : s.sizes) begins.push_back(begins.back() + n);
    RnnLayer l{t, s.kind, static_cast<int64_t>(s.sizes.size()), s.batch, s.hidden, s.outputs, s.directions, s.reverse};
    if (begins.back() != l.steps * s.batch) l.sizes = s.sizes.data(), l.begins = begins.data();
    return l;
  }
  Layer(const Shape& shape, DType dtype)
      : s(shape),
        t(dtype),
        l(layer(shape, dtype, begins)),
        x(make(l.rows() * l.gates(), 1)),
        h0(make(l.batch * l.outputs, 2)),
        c0(make(l.batch * l.hidden, 3)),
        w(make(l.gates() * l.outputs, 4, scale())),
        b(make(l.gates(), 5)),
        r(make(l.outputs * l.hidden, 6, scale())),
        values(make(l.rows() * l.gates(), 7)),
        output(make(l.rows() * l.outputs, 8)),
        extra(make(l.rows() * l.hidden, 9)),
        grad(make(l.rows() * l.outputs, 10)),
        grad_h(make(l.batch * l.outputs, 11)),
        grad_c(make(l.batch * l.hidden, 12)),
        grad_gates(make(l.rows() * l.gates(), 13)),
        grad_hidden(make(l.rows() * std::max(l.gates(), l.outputs), 14)) {}
  double scale() const { return 1 / std::sqrt(static_cast<double>(s.hidden)); }
  bool lstm() const { return s.kind == RnnKind::kLstm; }
  bool has_extra() const { return lstm() || s.kind == RnnKind::kGru; }
  bool has_hidden() const { return s.kind == RnnKind::kGru || l.projects(); }

  // f(array) gives a pointer into one of the memories.
  template <class F>
  cpu::RnnInputs inputs(F f) {
    return {f(h0), lstm() ? f(c0) : nullptr, f(w), s.bias ? f(b) : nullptr, l.projects() ? f(r) : nullptr};
  }
  template <class F>
  cpu::RnnTrace trace(F f) {
    return {f(values), f(output), has_extra() ? f(extra) : nullptr};
  }
  template <class F>
  cpu::RnnGradients gradients(F f) {
    return {f(grad_h), lstm() ? f(grad_c) : nullptr, f(grad_gates), has_hidden() ? f(grad_hidden) : nullptr};
  }
  void run() {
    const auto host = [](Mirror& m) { return m.host(); };
    const auto device = [](Mirror& m) { return m.device(); };
    cpu::rnn_forward(l, x.host(), inputs(host), trace(host));
    cuda::rnn_forward(l, x.device(), inputs(device), trace(device));
    cpu::rnn_backward(l, inputs(host), trace(host), s.given ? grad.host() : nullptr, gradients(host));
    cuda::rnn_backward(l, inputs(device), trace(device), s.given ? grad.device() : nullptr, gradients(device));
  }
};

class RnnTest : public testing::DeviceTest, public ::testing::WithParamInterface<Shape> {};
using RnnValues = testing::DeviceTest;

TEST_P(RnnTest, LikeTheCpu) {
  for (DType t : {DType::kFloat32, DType::kFloat64}) {
    Layer m(GetParam(), t);
    m.run();
    const double tolerance = t == DType::kFloat64 ? 1e-12 : 2e-5;
    const auto expect = [&](const Mirror& x, const char* what) {
      testing::expect_close(t, x.host_bytes(), x.device_bytes(), tolerance, tolerance, what);
    };
    expect(m.output, "output");
    expect(m.values, "values");
    expect(m.extra, "extra");
    expect(m.grad_gates, "gradient of the gates");
    expect(m.grad_hidden, "gradient of what the state contributes");
    expect(m.grad_h, "gradient of h0");
    expect(m.grad_c, "gradient of c0");
  }
}
// Small layers, whose steps are in a launch; those of one launch a step, of sequences of different lengths, with
// projections; products by cuBLAS.
INSTANTIATE_TEST_SUITE_P(Shapes, RnnTest,
                         ::testing::Values(Shape{RnnKind::kLstm, 5, 7, 7, 1, false, {5, 5, 5, 5}},
                                           Shape{RnnKind::kGru, 19, 33, 33, 2, false, {19, 19, 19}},
                                           Shape{RnnKind::kTanh, 3, 17, 17, 1, true, {3, 3, 3}, false},
                                           Shape{RnnKind::kRelu, 17, 64, 64, 2, false, {17, 17}, true, false},
                                           Shape{RnnKind::kLstm, 6, 70, 70, 2, false, {6, 6, 6}},
                                           Shape{RnnKind::kGru, 66, 65, 65, 1, true, {66, 66}},
                                           Shape{RnnKind::kLstm, 5, 7, 7, 1, true, {5, 5, 3, 1}},
                                           Shape{RnnKind::kGru, 5, 7, 7, 2, false, {5, 4, 4, 2}},
                                           Shape{RnnKind::kTanh, 3, 6, 6, 2, false, {3, 2, 1}, true, false},
                                           Shape{RnnKind::kLstm, 2, 9, 4, 2, false, {2, 2}},
                                           Shape{RnnKind::kLstm, 19, 40, 7, 2, false, {19, 17, 9, 9, 1}},
                                           Shape{RnnKind::kLstm, 150, 240, 240, 2, false, {150, 150}},
                                           Shape{RnnKind::kGru, 260, 210, 210, 1, true, {260, 200}},
                                           Shape{RnnKind::kLstm, 1, 3, 3, 1, false, {1}},
                                           Shape{RnnKind::kLstm, 0, 3, 3, 1, false, {0, 0}}));

TEST_F(RnnValues, NeedNotBeKept) {
  for (int64_t hidden : {20, 70}) {
    const Shape shape{RnnKind::kGru, 3, hidden, hidden, 1, false, {3, 3}};
    Layer kept(shape, DType::kFloat32), m(shape, DType::kFloat32);
    const auto device = [](Mirror& x) { return x.device(); };
    cuda::rnn_forward(kept.l, kept.x.device(), kept.inputs(device), kept.trace(device));
    cpu::RnnTrace trace = m.trace(device);
    trace.gates = nullptr;
    cuda::rnn_forward(m.l, m.x.device(), m.inputs(device), trace);
    EXPECT_EQ(kept.output.device_bytes(), m.output.device_bytes());
    EXPECT_NE(kept.values.device_bytes(), m.values.device_bytes());
  }
}

}  // namespace
}  // namespace tessera::cuda
