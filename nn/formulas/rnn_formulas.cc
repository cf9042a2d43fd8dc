// Backpropagation through time, in the notation of nn/cpu/rnn.cc: g are the gates before their functions, v their
// values.
#include "nn/formulas/rnn_formulas.h"

#include "nn/nn_ops.h"
#include "nn/cpu/rnn.h"
#include "tensor/ops/dual.h"
#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {
namespace {

using cpu::RnnKind;

Tensor plus(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : a + b; }
Tensor block(const Tensor& t, int64_t k, int64_t hidden) { return narrow(t, -1, k * hidden, hidden); }
Tensor logistic_slope(const Tensor& y) { return y * (1 - y); }
Tensor tanh_slope(const Tensor& y) { return 1 - y * y; }

// One step: the state and cell before and after, and the values of the gates.
struct Step {
  Tensor h_before, c_before, h, c;
  Tensor v[4];
  Tensor recurrent;  // GRU: what the state contributes to the candidate, before the reset gate
};

class Composed {
 public:
  Composed(RnnKind kind, const Tensor& gates, const Tensor& h0, const Tensor& c0, const Tensor& w_hh,
           const Tensor& b_hh, bool reverse)
      : kind_(kind), hidden_(h0.size(1)), reverse_(reverse), w_(w_hh), steps_(static_cast<size_t>(gates.size(0))) {
    Tensor h = h0, c = c0;
    for (size_t s = 0; s < steps_.size(); ++s) {
      Step& step = steps_[s];
      step.h_before = h;
      step.c_before = c;
      run(step, select(gates, 0, time(s)), b_hh);
      h = step.h;
      c = step.c;
    }
  }

  // The gradients of gates, of what the state adds to them (as rows of all steps in the order of time), of h0 and c0.
  void backward(const Tensor& grad_output, Tensor grad_h, Tensor grad_c) {
    const size_t n = steps_.size();
    std::vector<Tensor> to_gates(n), to_hidden(n), before(n);
    for (size_t s = n; s-- > 0;) {
      const size_t t = static_cast<size_t>(time(s));
      if (grad_output.defined()) grad_h = plus(grad_h, select(grad_output, 0, time(s)));
      if (!grad_h.defined()) grad_h = zeros_like(steps_[s].h);
      Tensor direct;
      std::tie(to_gates[t], to_hidden[t], direct) = back(steps_[s], grad_h, grad_c);
      grad_h = plus(direct, matmul(to_hidden[t], w_));
      before[t] = steps_[s].h_before;
    }
    grad_gates = stack(to_gates, 0);
    grad_hidden = stack(to_hidden, 0);
    states_before = stack(before, 0);
    grad_h0 = grad_h;
    grad_c0 = grad_c;
  }

  Tensor grad_gates, grad_hidden, states_before, grad_h0, grad_c0;

 private:
  int64_t time(size_t s) const {
    return reverse_ ? static_cast<int64_t>(steps_.size() - 1 - s) : static_cast<int64_t>(s);
  }

  void run(Step& s, const Tensor& x, const Tensor& b_hh) const {
    const Tensor from_state = plus(matmul(s.h_before, transpose(w_, 0, 1)), b_hh);
    if (kind_ == RnnKind::kGru) {
      s.recurrent = block(from_state, 2, hidden_);
      for (int k = 0; k < 2; ++k) s.v[k] = sigmoid(block(x, k, hidden_) + block(from_state, k, hidden_));
      s.v[2] = tanh(block(x, 2, hidden_) + s.v[0] * s.recurrent);
      s.h = (s.h_before - s.v[2]) * s.v[1] + s.v[2];
      return;
    }
    const Tensor g = x + from_state;
    if (kind_ != RnnKind::kLstm) {
      s.h = kind_ == RnnKind::kTanh ? tanh(g) : relu(g);
      return;
    }
    for (int k = 0; k < 4; ++k) s.v[k] = k == 2 ? tanh(block(g, k, hidden_)) : sigmoid(block(g, k, hidden_));
    s.c = s.v[1] * s.c_before + s.v[0] * s.v[2];
    s.h = s.v[3] * tanh(s.c);
  }

  // (gradient of gates, of what the state adds, of the state before without a product); grad_c becomes that of the cell
  // before.
  std::tuple<Tensor, Tensor, Tensor> back(const Step& s, const Tensor& grad_h, Tensor& grad_c) const {
    if (kind_ == RnnKind::kGru) {
      const Tensor candidate = grad_h * (1 - s.v[1]) * tanh_slope(s.v[2]),
                   reset = candidate * s.recurrent * logistic_slope(s.v[0]);
      const Tensor update = grad_h * (s.h_before - s.v[2]) * logistic_slope(s.v[1]);
      const Tensor parts[] = {reset, update, candidate}, hidden_parts[] = {reset, update, candidate * s.v[0]};
      return {cat(parts, -1), cat(hidden_parts, -1), grad_h * s.v[1]};
    }
    if (kind_ != RnnKind::kLstm) {
      const Tensor g = kind_ == RnnKind::kTanh ? grad_h * tanh_slope(s.h) : grad_h * to(gt(s.h, 0), s.h.dtype());
      return {g, g, Tensor()};
    }
    const Tensor squashed = tanh(s.c), cell = plus(grad_h * s.v[3] * tanh_slope(squashed), grad_c);
    const Tensor parts[] = {cell * s.v[2] * logistic_slope(s.v[0]), cell * s.c_before * logistic_slope(s.v[1]),
                            cell * s.v[0] * tanh_slope(s.v[2]), grad_h * squashed * logistic_slope(s.v[3])};
    grad_c = cell * s.v[1];
    const Tensor g = cat(parts, -1);
    return {g, g, Tensor()};
  }

  RnnKind kind_;
  int64_t hidden_;
  bool reverse_;
  Tensor w_;
  std::vector<Step> steps_;
};

// The states that each step started from, in the order of time.
Tensor states_before(const Tensor& output, const Tensor& h0, bool reverse) {
  const int64_t rest = output.size(0) - 1;
  const Tensor first = unsqueeze(h0, 0), others = narrow(output, 0, reverse ? 1 : 0, rest);
  const Tensor parts[] = {reverse ? others : first, reverse ? first : others};
  return cat(parts, 0);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> rnn_layer_backward(
    const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n, const Tensor& gates, const Tensor& h0,
    const Tensor& c0, const Tensor& w_hh, const Tensor& b_hh, const Tensor& output, const Tensor& values,
    const Tensor& extra, int64_t kind, bool reverse, std::array<bool, 5> mask) {
  Tensor grad_gates, grad_hidden, grad_h0, grad_c0, before;
  if (grad_mode_enabled() || any_dual(grad_output, grad_h_n, grad_c_n, gates, h0, c0, w_hh, b_hh)) {
    Composed layer(static_cast<RnnKind>(kind), gates, h0, c0, w_hh, b_hh, reverse);
    layer.backward(grad_output, grad_h_n, grad_c_n);
    grad_gates = layer.grad_gates, grad_hidden = layer.grad_hidden, grad_h0 = layer.grad_h0, grad_c0 = layer.grad_c0,
    before = layer.states_before;
  } else {
    std::tie(grad_gates, grad_hidden, grad_h0, grad_c0) =
        _rnn_layer_backward(grad_output, grad_h_n, grad_c_n, h0, c0, w_hh, output, values, extra, kind, reverse);
    if (static_cast<RnnKind>(kind) != RnnKind::kGru) grad_hidden = grad_gates;
    if (mask[3]) before = states_before(output, h0, reverse);
  }
  const Tensor rows = flatten(grad_hidden, 0, 1);
  const Tensor grad_w = mask[3] ? matmul(transpose(rows, 0, 1), flatten(before, 0, 1)) : Tensor();
  const int64_t all_rows[1] = {0};
  const Tensor grad_b = mask[4] ? sum(rows, IntList(all_rows)) : Tensor();
  return {grad_gates, grad_h0, c0.defined() ? grad_c0 : Tensor(), grad_w, grad_b};
}

}  // namespace tessera::autograd::formulas
