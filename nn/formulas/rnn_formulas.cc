// Backpropagation through time: by the engine, or step by step (nn/rnn_steps.h).
#include "nn/formulas/rnn_formulas.h"

#include "nn/nn_ops.h"
#include "nn/rnn_steps.h"
#include "tensor/ops/dual.h"
#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {
namespace {

using cpu::RnnKind;
using recurrent::Gradients;
using recurrent::Inputs;
using recurrent::Trace;

Tensor rows(const Tensor& t, bool packed) { return packed ? t : flatten(t, 0, 1); }

Gradients by_engine(const Inputs& in, const Trace& trace, const Tensor& grad_output, const Tensor& grad_h_n,
                    const Tensor& grad_c_n, RnnKind kind, bool reverse, IntList batch_sizes,
                    const std::array<bool, 6>& mask) {
  auto [gates, hidden, h0, c0] =
      _rnn_layer_backward(grad_output, grad_h_n, grad_c_n, in.h0, in.c0, in.w_hh, in.w_hr, trace.output, trace.values,
                          trace.extra, static_cast<int64_t>(kind), reverse, batch_sizes);
  Gradients result;
  const bool packed = batch_sizes.size() > 0, gru = kind == RnnKind::kGru;
  const int64_t width = in.w_hh.size(1), outputs = in.w_hh.size(2);
  const std::vector<int64_t> sizes = recurrent::step_sizes(trace.output, batch_sizes);
  for (int64_t d = 0; d < in.h0.size(0); ++d) {
    if (mask[3] || mask[4])
      result.hidden.push_back(gru ? rows(select(hidden, 0, d), packed)
                                  : narrow(rows(gates, packed), 1, d * width, width));
    if (mask[3])
      result.before.push_back(recurrent::states_before(narrow(rows(trace.output, packed), 1, d * outputs, outputs),
                                                       select(in.h0, 0, d), sizes, reverse || d == 1));
    if (!mask[5]) continue;
    result.projected.push_back(rows(select(hidden, 0, d), packed));
    const Tensor cells = rows(select(trace.extra, 0, d), packed);
    result.unprojected.push_back(narrow(rows(select(trace.values, 0, d), packed), 1, 3 * cells.size(1), cells.size(1)) *
                                 tanh(cells));
  }
  result.gates = gates, result.h0 = h0;
  if (in.c0.defined()) result.c0 = c0;
  return result;
}

// The gradient of a weight of each direction: rows of gradients times rows of what they were multiplied with.
Tensor of_weight(const std::vector<Tensor>& grads, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> each;
  for (size_t d = 0; d < grads.size(); ++d) each.push_back(matmul(transpose(grads[d], 0, 1), inputs[d]));
  return each.size() == 1 ? unsqueeze(each[0], 0) : stack(each, 0);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> rnn_layer_backward(
    const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n, const Tensor& gates, const Tensor& h0,
    const Tensor& c0, const Tensor& w_hh, const Tensor& b_hh, const Tensor& w_hr, const Tensor& output,
    const Tensor& values, const Tensor& extra, int64_t number, bool reverse, IntList batch_sizes,
    std::array<bool, 6> mask) {
  const auto kind = static_cast<RnnKind>(number);
  const bool again = grad_mode_enabled() || !recurrent::has_engine(values.device()) ||
                     any_dual(grad_output, grad_h_n, grad_c_n, gates, h0, c0, w_hh, b_hh, w_hr);
  const auto wide = [&](const Tensor& t) { return t.defined() ? to(t, values.dtype()) : t; };  // half types
  const Inputs in{again ? wide(gates) : Tensor(), wide(h0), wide(c0), wide(w_hh), wide(b_hh), wide(w_hr)};
  const Tensor grad = wide(grad_output), grad_h = wide(grad_h_n), grad_c = c0.defined() ? wide(grad_c_n) : Tensor();
  const Trace trace{wide(output), Tensor(), Tensor(), values, extra};
  const Gradients g = again ? recurrent::backward(in, grad, grad_h, grad_c, kind, reverse, batch_sizes)
                            : by_engine(in, trace, grad, grad_h, grad_c, kind, reverse, batch_sizes, mask);
  Tensor grad_b;
  if (mask[4]) {
    const int64_t all_rows[1] = {0};
    std::vector<Tensor> sums;
    for (const Tensor& t : g.hidden) sums.push_back(sum(t, IntList(all_rows)));
    grad_b = stack(sums, 0);
  }
  return {g.gates, g.h0,
          g.c0,    mask[3] ? of_weight(g.hidden, g.before) : Tensor(),
          grad_b,  mask[5] ? of_weight(g.projected, g.unprojected) : Tensor()};
}

}  // namespace tessera::autograd::formulas
