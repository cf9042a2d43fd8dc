// Recurrent layers: checks, memory, and the engine's passes over all steps (nn/cpu/rnn.h).
#include "nn/cpu/rnn.h"

#include <algorithm>

#include "nn/nn_ops.h"
#include "nn/rnn_kernels.h"
#include "tensor/core/dispatch_key.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {
namespace {

using cpu::RnnKind;

cpu::RnnLayer layer_of(const Tensor& gates, const Tensor& h0, int64_t kind, bool reverse) {
  return {gates.dtype(), static_cast<RnnKind>(kind), gates.size(0), gates.size(1), h0.size(1), reverse};
}

void check_layer(const Tensor& gates, const Tensor& h0, const Tensor& c0, const Tensor& w_hh, const Tensor& b_hh,
                 int64_t kind) {
  TESSERA_CHECK(kind >= 0 && kind <= 3, "_rnn_layer: kind must be 0 (LSTM), 1 (GRU), 2 (tanh) or 3 (relu), but got ",
                kind);
  TESSERA_CHECK(gates.dim() == 3 && gates.size(0) > 0,
                "_rnn_layer: expected gates of shape (steps, batch, gates * hidden) with at least one step, but got ",
                shape_string(gates.sizes()));
  TESSERA_CHECK(h0.dim() == 2 && h0.size(0) == gates.size(1), "_rnn_layer: expected h0 of shape (", gates.size(1),
                ", hidden), but got ", shape_string(h0.sizes()));
  const cpu::RnnLayer l = layer_of(gates, h0, kind, false);
  TESSERA_CHECK(gates.size(2) == l.gates(), "_rnn_layer: expected gates of width ", l.gates(), " for a hidden size of ",
                l.hidden, ", but got ", gates.size(2));
  TESSERA_CHECK(w_hh.dim() == 2 && w_hh.size(0) == l.gates() && w_hh.size(1) == l.hidden,
                "_rnn_layer: expected w_hh of shape (", l.gates(), ", ", l.hidden, "), but got ",
                shape_string(w_hh.sizes()));
  TESSERA_CHECK(c0.defined() == (l.kind == RnnKind::kLstm), "_rnn_layer: c0 goes with an LSTM, and only with it");
  TESSERA_CHECK(!c0.defined() || (c0.dim() == 2 && c0.size(0) == l.batch && c0.size(1) == l.hidden),
                "_rnn_layer: expected c0 of h0's shape, but got ", shape_string(c0.sizes()));
  TESSERA_CHECK(!b_hh.defined() || (b_hh.dim() == 1 && b_hh.size(0) == l.gates()),
                "_rnn_layer: expected b_hh of shape (", l.gates(), "), but got ", shape_string(b_hh.sizes()));
  TESSERA_CHECK(gates.dtype() == DType::kFloat32 || gates.dtype() == DType::kFloat64,
                "_rnn_layer: expected float32 or float64, but got ", name_of(gates.dtype()));
  for (const Tensor* t : {&h0, &c0, &w_hh, &b_hh}) {
    if (!t->defined()) continue;
    TESSERA_CHECK(t->dtype() == gates.dtype(), "_rnn_layer: expected all tensors to be of dtype ",
                  name_of(gates.dtype()), ", but got ", name_of(t->dtype()));
    TESSERA_CHECK(t->device() == gates.device(), "_rnn_layer: expected all tensors to be on ", gates.device().str(),
                  ", but got ", t->device().str());
  }
}

Tensor like(const Tensor& t, std::initializer_list<int64_t> sizes) {
  return empty_tensor(IntList(sizes.begin(), sizes.size()), {}, t.dtype(), t.device());
}
const void* address(const Tensor& t) { return t.defined() && t.numel() ? t.data_ptr() : nullptr; }
void* writable(const Tensor& t) { return t.defined() && t.numel() ? t.data_ptr() : nullptr; }
bool has_extra(RnnKind kind) { return kind == RnnKind::kLstm || kind == RnnKind::kGru; }

using Results = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

// Memory for the results.
Results result_tensors(const Tensor& gates, const Tensor& h0, int64_t kind, bool for_backward) {
  const cpu::RnnLayer l = layer_of(gates, h0, kind, false);
  return {like(gates, {l.steps, l.batch, l.hidden}), like(gates, {l.batch, l.hidden}),
          l.kind == RnnKind::kLstm ? like(gates, {l.batch, l.hidden}) : like(gates, {0}),
          for_backward ? like(gates, {l.steps, l.batch, l.gates()}) : like(gates, {0}),
          has_extra(l.kind) ? like(gates, {l.steps, l.batch, l.hidden}) : like(gates, {0})};
}

}  // namespace

Results _rnn_layer_meta(const Tensor& gates, const Tensor& h0, const Tensor& c0, const Tensor& w_hh, const Tensor& b_hh,
                        int64_t kind, bool, bool for_backward) {
  check_layer(gates, h0, c0, w_hh, b_hh, kind);
  return result_tensors(gates, h0, kind, for_backward);
}

Results _rnn_layer_kernel(const Tensor& gates, const Tensor& h0, const Tensor& c0, const Tensor& w_hh,
                          const Tensor& b_hh, int64_t kind, bool reverse, bool for_backward) {
  check_layer(gates, h0, c0, w_hh, b_hh, kind);
  TESSERA_CHECK_NOT_IMPLEMENTED(gates.is_cpu(), "_rnn_layer: there is no kernel for ", gates.device().str());
  Results results = result_tensors(gates, h0, kind, for_backward);
  auto& [output, h_n, c_n, values, extra] = results;
  const cpu::RnnLayer l = layer_of(gates, h0, kind, reverse);
  const Tensor x = contiguous(gates), h = contiguous(h0), c = c0.defined() ? contiguous(c0) : c0,
               w = contiguous(transpose(w_hh, 0, 1)), b = b_hh.defined() ? contiguous(b_hh) : b_hh;
  cpu::rnn_forward(l, address(x), {writable(values), writable(output), writable(extra)}, address(h), address(c),
                   address(w), address(b));
  const int64_t last = reverse ? 0 : l.steps - 1;
  copy_(h_n, select(output, 0, last));
  if (c0.defined()) copy_(c_n, select(extra, 0, last));
  return results;
}

namespace {

using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Gradients gradient_tensors(const Tensor& h0, const Tensor& c0, const Tensor& values, int64_t kind) {
  const bool gru = static_cast<RnnKind>(kind) == RnnKind::kGru;
  return {like(values, {values.size(0), values.size(1), values.size(2)}),
          gru ? like(values, {values.size(0), values.size(1), values.size(2)}) : like(values, {0}),
          like(h0, {h0.size(0), h0.size(1)}), c0.defined() ? like(h0, {h0.size(0), h0.size(1)}) : like(h0, {0})};
}
// A tensor of the backward against the one that it belongs to.
void check_fits(const char* name, const Tensor& t, std::initializer_list<int64_t> sizes, const Tensor& values) {
  if (!t.defined()) return;
  TESSERA_CHECK(std::ranges::equal(t.sizes(), sizes), "_rnn_layer_backward: expected ", name, " of shape ",
                shape_string(IntList(sizes.begin(), sizes.size())), ", but got ", shape_string(t.sizes()));
  TESSERA_CHECK(t.dtype() == values.dtype() && t.device() == values.device(), "_rnn_layer_backward: expected ", name,
                " to be of dtype ", name_of(values.dtype()), " on ", values.device().str(), ", but got ",
                name_of(t.dtype()), " on ", t.device().str());
}
void check_backward(const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n, const Tensor& h0,
                    const Tensor& c0, const Tensor& w_hh, const Tensor& output, const Tensor& values,
                    const Tensor& extra, int64_t kind) {
  check_layer(values, h0, c0, w_hh, Tensor(), kind);
  const cpu::RnnLayer l = layer_of(values, h0, kind, false);
  check_fits("grad_output", grad_output, {l.steps, l.batch, l.hidden}, values);
  check_fits("grad_h_n", grad_h_n, {l.batch, l.hidden}, values);
  if (c0.defined()) check_fits("grad_c_n", grad_c_n, {l.batch, l.hidden}, values);
  check_fits("output", output, {l.steps, l.batch, l.hidden}, values);
  if (has_extra(l.kind)) check_fits("extra", extra, {l.steps, l.batch, l.hidden}, values);
}
void start_with(const Tensor& to, const Tensor& grad) { grad.defined() ? copy_(to, grad) : zero_(to); }

}  // namespace

Gradients _rnn_layer_backward_meta(const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n,
                                   const Tensor& h0, const Tensor& c0, const Tensor& w_hh, const Tensor& output,
                                   const Tensor& values, const Tensor& extra, int64_t kind, bool) {
  check_backward(grad_output, grad_h_n, grad_c_n, h0, c0, w_hh, output, values, extra, kind);
  return gradient_tensors(h0, c0, values, kind);
}

Gradients _rnn_layer_backward_kernel(const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n,
                                     const Tensor& h0, const Tensor& c0, const Tensor& w_hh, const Tensor& output,
                                     const Tensor& values, const Tensor& extra, int64_t kind, bool reverse) {
  check_backward(grad_output, grad_h_n, grad_c_n, h0, c0, w_hh, output, values, extra, kind);
  TESSERA_CHECK_NOT_IMPLEMENTED(values.is_cpu(), "_rnn_layer_backward: there is no kernel for ", values.device().str());
  Gradients gradients = gradient_tensors(h0, c0, values, kind);
  auto& [grad_gates, grad_hidden, grad_h0, grad_c0] = gradients;
  const cpu::RnnLayer l = layer_of(values, h0, kind, reverse);
  start_with(grad_h0, grad_h_n);
  if (c0.defined()) start_with(grad_c0, grad_c_n);
  const Tensor grad = grad_output.defined() ? contiguous(grad_output) : grad_output, h = contiguous(h0),
               c = c0.defined() ? contiguous(c0) : c0, w = contiguous(w_hh);
  const Tensor v = contiguous(values), states = contiguous(output), more = contiguous(extra);
  cpu::rnn_backward(l, {writable(v), writable(states), writable(more)}, address(h), address(c), address(w),
                    address(grad), writable(grad_h0), writable(grad_c0), writable(grad_gates), writable(grad_hidden));
  return gradients;
}

}  // namespace tessera::kernels
