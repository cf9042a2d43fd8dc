#include "nn/rnn_steps.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "nn/engine/rnn.h"
#include "nn/nn_ops.h"
#include "tensor/ops/api.h"

namespace tessera::recurrent {
namespace {

using cpu::RnnKind;

Tensor plus(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : a + b; }
Tensor block(const Tensor& t, int64_t k, int64_t hidden) { return narrow(t, -1, k * hidden, hidden); }
Tensor logistic_slope(const Tensor& y) { return y * (1 - y); }
Tensor tanh_slope(const Tensor& y) { return 1 - y * y; }
Tensor joined(const std::vector<Tensor>& parts, int64_t dim) { return parts.size() == 1 ? parts[0] : cat(parts, dim); }
Tensor on_top(const std::vector<Tensor>& directions) { return stack(directions, 0); }

// What goes from step to step (states, cells, their gradients), a row for each sequence: a step of more sequences takes
// the others from where all start, those that a step lacks are done.
class Flow {
 public:
  explicit Flow(const Tensor& start) : start_(start) {}
  // The rows of a step of n sequences.
  const Tensor& of(int64_t n) {
    const int64_t have = now_.defined() ? now_.size(0) : 0;
    if (have == 0)
      now_ = narrow(start_, 0, 0, n);
    else if (n > have)
      now_ = joined({now_, narrow(start_, 0, have, n - have)}, 0);
    else if (n < have) {
      done_.push_back(narrow(now_, 0, n, have - n));
      now_ = narrow(now_, 0, 0, n);
    }
    return now_;
  }
  void set(const Tensor& now) { now_ = now; }
  // Of all sequences, behind the last step.
  Tensor end() {
    done_.push_back(now_);
    std::reverse(done_.begin(), done_.end());
    return joined(done_, 0);
  }

 private:
  Tensor start_, now_;
  std::vector<Tensor> done_;  // the shortest sequences first
};

// One step: the state and cell before and after, and the values of the gates.
struct Step {
  Tensor h_before, c_before, h, c;
  Tensor v[4];
  Tensor recurrent;    // GRU: what the state contributes to the candidate, before the reset gate
  Tensor unprojected;  // the state before its projection
};

class Direction {
 public:
  Direction(const Inputs& in, int64_t d, RnnKind kind, bool reverse, const std::vector<int64_t>& sizes)
      : kind_(kind),
        hidden_(in.w_hr.defined() ? in.w_hr.size(2) : in.h0.size(2)),
        reverse_(reverse),
        sizes_(sizes),
        steps_(sizes.size()) {
    const auto own = [&](const Tensor& t) { return t.defined() ? select(t, 0, d) : t; };
    const int64_t width = in.w_hh.size(1);
    if (in.gates.defined()) x_ = narrow(flat(in.gates), 1, d * width, width);
    h0_ = own(in.h0), c0_ = own(in.c0), w_hh_ = own(in.w_hh), b_hh_ = own(in.b_hh), w_hr_ = own(in.w_hr);
  }

  // All but the last dimension of what has (steps, batch, n), or has been rows already.
  static Tensor flat(const Tensor& t) { return t.dim() == 3 ? flatten(t, 0, 1) : t; }

  void run() {
    Flow h(h0_), c(c0_);
    in_order([&](size_t t, int64_t row, int64_t n) {
      Step& step = steps_[t];
      step.h_before = h.of(n);
      if (c0_.defined()) step.c_before = c.of(n);
      compute(step, narrow(x_, 0, row, n));
      h.set(step.h);
      c.set(step.c);
    });
    h_n = h.end();
    if (c0_.defined()) c_n = c.end();
  }

  // What each step gives, as rows in the order of time.
  template <class F>
  Tensor rows(F f) const {
    std::vector<Tensor> parts;
    for (const Step& s : steps_) parts.push_back(f(s));
    return joined(parts, 0);
  }
  Tensor output() const {
    return rows([](const Step& s) { return s.h; });
  }
  Tensor values() const {
    return rows([&](const Step& s) {
      std::vector<Tensor> v;
      for (const Tensor& t : s.v)
        if (t.defined()) v.push_back(t);
      return joined(v, -1);
    });
  }
  Tensor extra() const {
    return rows([&](const Step& s) { return kind_ == RnnKind::kGru ? s.recurrent : s.c; });
  }
  Tensor unprojected() const {
    return rows([](const Step& s) { return s.unprojected; });
  }
  Tensor states_before() const {
    return rows([](const Step& s) { return s.h_before; });
  }

  void backward(const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n) {
    const size_t count = sizes_.size();
    std::vector<Tensor> to_gates(count), to_hidden(count), to_states(count);
    Flow grad_h(grad_h_n.defined() ? grad_h_n : zeros_like(h0_)),
        grad_c(grad_c_n.defined() || !c0_.defined() ? grad_c_n : zeros_like(c0_));
    in_order(
        [&](size_t t, int64_t row, int64_t n) {
          Tensor grad = grad_h.of(n), direct, cell = c0_.defined() ? grad_c.of(n) : Tensor();
          if (grad_output.defined()) grad = grad + narrow(grad_output, 0, row, n);
          to_states[t] = grad;
          if (w_hr_.defined()) grad = matmul(grad, w_hr_);
          std::tie(to_gates[t], to_hidden[t], direct) = back(steps_[t], grad, cell);
          grad_h.set(plus(direct, matmul(to_hidden[t], w_hh_)));
          grad_c.set(cell);
        },
        true);
    grad_gates = joined(to_gates, 0);
    grad_hidden = joined(to_hidden, 0);
    if (w_hr_.defined()) grad_states = joined(to_states, 0);
    grad_h0 = grad_h.end();
    if (c0_.defined()) grad_c0 = grad_c.end();
  }

  Tensor h_n, c_n, grad_gates, grad_hidden, grad_states, grad_h0, grad_c0;

 private:
  // f(step, its first row, its sequences), in the order of computation or in the opposite one.
  template <class F>
  void in_order(F f, bool backwards = false) const {
    int64_t row = 0;
    std::vector<int64_t> begins;
    for (int64_t n : sizes_) begins.push_back(std::exchange(row, row + n));
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const size_t t = reverse_ != backwards ? sizes_.size() - 1 - i : i;
      f(t, begins[t], sizes_[t]);
    }
  }

  void compute(Step& s, const Tensor& x) const {
    const Tensor from_state = plus(matmul(s.h_before, transpose(w_hh_, 0, 1)), b_hh_);
    if (kind_ == RnnKind::kGru) {
      s.recurrent = block(from_state, 2, hidden_);
      for (int k = 0; k < 2; ++k) s.v[k] = sigmoid(block(x, k, hidden_) + block(from_state, k, hidden_));
      s.v[2] = tanh(block(x, 2, hidden_) + s.v[0] * s.recurrent);
      s.h = (s.h_before - s.v[2]) * s.v[1] + s.v[2];
      return;
    }
    const Tensor g = x + from_state;
    if (kind_ != RnnKind::kLstm) {
      s.v[0] = g;
      s.h = kind_ == RnnKind::kTanh ? tanh(g) : relu(g);
      return;
    }
    for (int k = 0; k < 4; ++k) s.v[k] = k == 2 ? tanh(block(g, k, hidden_)) : sigmoid(block(g, k, hidden_));
    s.c = s.v[1] * s.c_before + s.v[0] * s.v[2];
    s.h = s.v[3] * tanh(s.c);
    if (!w_hr_.defined()) return;
    s.unprojected = s.h;
    s.h = matmul(s.h, transpose(w_hr_, 0, 1));
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
    const Tensor squashed = tanh(s.c), cell = grad_h * s.v[3] * tanh_slope(squashed) + grad_c;
    const Tensor parts[] = {cell * s.v[2] * logistic_slope(s.v[0]), cell * s.c_before * logistic_slope(s.v[1]),
                            cell * s.v[0] * tanh_slope(s.v[2]), grad_h * squashed * logistic_slope(s.v[3])};
    grad_c = cell * s.v[1];
    const Tensor g = cat(parts, -1);
    return {g, g, Tensor()};
  }

  RnnKind kind_;
  int64_t hidden_;
  bool reverse_;
  const std::vector<int64_t>& sizes_;
  std::vector<Step> steps_;
  Tensor x_, h0_, c0_, w_hh_, b_hh_, w_hr_;
};

// Rows in the shape that the layer's gates had.
Tensor as_steps(const Tensor& rows, const std::vector<int64_t>& sizes, IntList batch_sizes, int64_t dim) {
  const int64_t shape[] = {static_cast<int64_t>(sizes.size()), sizes[0]};
  return batch_sizes.size() ? rows : unflatten(rows, dim, IntList(shape, 2));
}

}  // namespace

bool has_engine(Device d) {
  return d.is_cpu() || d.type == DeviceType::kMeta || nn::RnnEngines::of(d.type).rnn_forward;
}

std::vector<int64_t> step_sizes(const Tensor& gates, IntList batch_sizes) {
  if (batch_sizes.size()) return {batch_sizes.begin(), batch_sizes.end()};
  return std::vector<int64_t>(static_cast<size_t>(gates.size(0)), gates.size(1));
}

Trace forward(const Inputs& in, RnnKind kind, bool reverse, IntList batch_sizes) {
  const std::vector<int64_t> sizes = step_sizes(in.gates, batch_sizes);
  std::vector<Tensor> outputs, h, c, values, extra;
  for (int64_t d = 0; d < in.h0.size(0); ++d) {
    Direction one(in, d, kind, reverse || d == 1, sizes);
    one.run();
    outputs.push_back(one.output());
    h.push_back(one.h_n);
    values.push_back(one.values());
    if (in.c0.defined()) c.push_back(one.c_n);
    if (in.c0.defined() || kind == RnnKind::kGru) extra.push_back(one.extra());
  }
  const auto shaped = [&](const Tensor& t, int64_t dim) { return as_steps(t, sizes, batch_sizes, dim); };
  return {shaped(joined(outputs, 1), 0), on_top(h), c.empty() ? Tensor() : on_top(c), shaped(on_top(values), 1),
          extra.empty() ? Tensor() : shaped(on_top(extra), 1)};
}

Gradients backward(const Inputs& in, const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n,
                   RnnKind kind, bool reverse, IntList batch_sizes) {
  const std::vector<int64_t> sizes = step_sizes(in.gates, batch_sizes);
  std::vector<Tensor> gates, h0, c0;
  Gradients result;
  const int64_t outputs = in.h0.size(2);
  for (int64_t d = 0; d < in.h0.size(0); ++d) {
    Direction one(in, d, kind, reverse || d == 1, sizes);
    const auto columns = [&](const Tensor& t) { return narrow(Direction::flat(t), 1, d * outputs, outputs); };
    const auto own = [&](const Tensor& t) { return t.defined() ? select(t, 0, d) : t; };
    one.run();
    one.backward(grad_output.defined() ? columns(grad_output) : grad_output, own(grad_h_n), own(grad_c_n));
    gates.push_back(one.grad_gates);
    result.hidden.push_back(one.grad_hidden);
    result.before.push_back(one.states_before());
    h0.push_back(one.grad_h0);
    if (in.c0.defined()) c0.push_back(one.grad_c0);
    if (!in.w_hr.defined()) continue;
    result.projected.push_back(one.grad_states);
    result.unprojected.push_back(one.unprojected());
  }
  result.gates = as_steps(joined(gates, 1), sizes, batch_sizes, 0);
  result.h0 = on_top(h0);
  if (in.c0.defined()) result.c0 = on_top(c0);
  return result;
}

Tensor states_before(const Tensor& output, const Tensor& h0, const std::vector<int64_t>& sizes, bool reverse) {
  // Runs of steps of as many sequences are one piece: all but its first step start from rows of the run itself.
  std::vector<Tensor> parts;
  int64_t row = 0;
  for (size_t t = 0; t < sizes.size();) {
    const int64_t n = sizes[t];
    size_t end = t + 1;
    while (end < sizes.size() && sizes[end] == n) ++end;
    const int64_t inner = static_cast<int64_t>(end - t - 1) * n, next = row + inner + n;
    if (reverse) {
      parts.push_back(narrow(output, 0, row + n, inner));
      const int64_t known = end < sizes.size() ? sizes[end] : 0;
      parts.push_back(narrow(output, 0, next, known));
      parts.push_back(narrow(h0, 0, known, n - known));
    } else {
      parts.push_back(t == 0 ? narrow(h0, 0, 0, n) : narrow(output, 0, row - sizes[t - 1], n));
      parts.push_back(narrow(output, 0, row, inner));
    }
    row = next;
    t = end;
  }
  return cat(parts, 0);
}

}  // namespace tessera::recurrent
