// Recurrent layers: checks, memory, and the engine's passes over all steps (nn/cpu/rnn.h).
#include "nn/cpu/rnn.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "nn/engine/rnn.h"
#include "nn/nn_ops.h"
#include "nn/rnn_kernels.h"
#include "nn/rnn_steps.h"
#include "tensor/core/dispatch_key.h"
#include "tensor/ops/api.h"
#include "tensor/ops/plain.h"

namespace tessera::kernels {
namespace {

using cpu::RnnKind;
using Results = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;
using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;

bool has_extra(RnnKind kind) { return kind == RnnKind::kLstm || kind == RnnKind::kGru; }
bool is_half(DType t) { return t == DType::kFloat16 || t == DType::kBFloat16; }
Tensor like(const Tensor& t, const std::vector<int64_t>& sizes, DType dtype) {
  return empty_tensor(IntList(sizes.data(), sizes.size()), {}, dtype, t.device());
}
std::vector<int64_t> with(std::vector<int64_t> front, const std::vector<int64_t>& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}
const void* address(const Tensor& t) { return t.defined() && t.numel() ? t.data_ptr() : nullptr; }
void* writable(const Tensor& t) { return t.defined() && t.numel() ? t.data_ptr() : nullptr; }
Tensor dense(const Tensor& t, DType dtype) { return t.defined() ? contiguous(to(t, dtype)) : t; }

// The layer that the arguments describe, after it was found that they fit.
class Layer {
 public:
  // steps: what has the steps in front, the gates (then `width` times what a direction has of a row) or the output.
  Layer(const Tensor& steps, const Tensor& h0, const Tensor& c0, const Tensor& w_hh, const Tensor& b_hh,
        const Tensor& w_hr, int64_t kind, bool reverse, IntList batch_sizes, bool of_gates) {
    TESSERA_CHECK(kind >= 0 && kind <= 3, "_rnn_layer: kind must be 0 (LSTM), 1 (GRU), 2 (tanh) or 3 (relu), but got ",
                  kind);
    packed_ = batch_sizes.size() > 0;
    TESSERA_CHECK(steps.dim() == (packed_ ? 2 : 3) && (packed_ || steps.size(0) > 0), "_rnn_layer: expected ",
                  of_gates ? "gates" : "output", " of shape ", packed_ ? "(rows, " : "(steps, batch, ", "directions * ",
                  of_gates ? "gates * hidden" : "outputs", ") with at least one step, but got ",
                  shape_string(steps.sizes()));
    TESSERA_CHECK(h0.dim() == 3 && (h0.size(0) == 1 || h0.size(0) == 2),
                  "_rnn_layer: expected h0 of shape (1 or 2 directions, batch, outputs), but got ",
                  shape_string(h0.sizes()));
    l.dtype = h0.dtype(), l.kind = static_cast<RnnKind>(kind), l.reverse = reverse;
    l.directions = h0.size(0), l.batch = h0.size(1), l.outputs = h0.size(2);
    l.hidden = w_hr.defined() && w_hr.dim() == 3 ? w_hr.size(2) : l.outputs;
    l.steps = packed_ ? static_cast<int64_t>(batch_sizes.size()) : steps.size(0);
    if (packed_) take(batch_sizes, steps.size(0));
    expect("gates", packed_ || steps.size(1) == l.batch ? Tensor() : steps, {l.steps, l.batch, steps.size(-1)});
    TESSERA_CHECK(steps.size(-1) == l.directions * (of_gates ? l.gates() : l.outputs), "_rnn_layer: expected ",
                  of_gates ? "gates" : "output", " of width ", l.directions * (of_gates ? l.gates() : l.outputs),
                  " for ", l.directions, " direction(s) and a hidden size of ", l.hidden, ", but got ", steps.size(-1));
    TESSERA_CHECK(c0.defined() == (l.kind == RnnKind::kLstm), "_rnn_layer: c0 goes with an LSTM, and only with it");
    TESSERA_CHECK(!w_hr.defined() || l.kind == RnnKind::kLstm,
                  "_rnn_layer: w_hr, a projection, goes with an LSTM only");
    expect("w_hh", w_hh, {l.directions, l.gates(), l.outputs});
    expect("c0", c0, {l.directions, l.batch, l.hidden});
    expect("b_hh", b_hh, {l.directions, l.gates()});
    expect("w_hr", w_hr, {l.directions, l.outputs, l.hidden});
    TESSERA_CHECK(is_floating_point(l.dtype) && (item_size(l.dtype) > 1),
                  "_rnn_layer: expected float64, float32 or a half type, but got ", name_of(l.dtype));
    for (const Tensor* t : {&steps, &c0, &w_hh, &b_hh, &w_hr}) {
      if (!t->defined()) continue;
      TESSERA_CHECK(t->dtype() == l.dtype, "_rnn_layer: expected all tensors to be of dtype ", name_of(l.dtype),
                    ", but got ", name_of(t->dtype()));
      TESSERA_CHECK(t->device() == h0.device(), "_rnn_layer: expected all tensors to be on ", h0.device().str(),
                    ", but got ", t->device().str());
    }
    if (is_half(l.dtype)) l.dtype = DType::kFloat32;
  }
  cpu::RnnLayer l{};

  // A shape with the steps and sequences in front of `last`.
  std::vector<int64_t> rows(int64_t last) const {
    return packed_ ? std::vector<int64_t>{l.rows(), last} : std::vector<int64_t>{l.steps, l.batch, last};
  }
  std::vector<int64_t> each(int64_t last) const { return with({l.directions}, rows(last)); }
  static void expect(const char* name, const Tensor& t, std::initializer_list<int64_t> sizes) {
    TESSERA_CHECK(!t.defined() || std::ranges::equal(t.sizes(), sizes), "_rnn_layer: expected ", name, " of shape ",
                  shape_string(IntList(sizes.begin(), sizes.size())), ", but got ", shape_string(t.sizes()));
  }

 private:
  void take(IntList sizes, int64_t rows) {
    sizes_.assign(sizes.begin(), sizes.end());
    begins_.push_back(0);
    for (size_t t = 0; t < sizes_.size(); ++t) {
      TESSERA_CHECK(sizes_[t] > 0 && (t == 0 || sizes_[t] <= sizes_[t - 1]),
                    "_rnn_layer: expected batch_sizes above 0 that never rise, but got ", sizes_[t], " for step ", t);
      begins_.push_back(begins_.back() + sizes_[t]);
    }
    TESSERA_CHECK(sizes_[0] == l.batch, "_rnn_layer: batch_sizes begin with ", sizes_[0], ", but h0 is for ", l.batch,
                  " sequences");
    TESSERA_CHECK(begins_.back() == rows, "_rnn_layer: batch_sizes add up to ", begins_.back(), " rows, but got ",
                  rows);
    l.sizes = sizes_.data(), l.begins = begins_.data();
  }
  bool packed_;
  std::vector<int64_t> sizes_, begins_;
};

// Memory for the results.
Results result_tensors(const Layer& layer, const Tensor& h0, bool for_backward) {
  const cpu::RnnLayer& l = layer.l;
  return {like(h0, layer.rows(l.directions * l.outputs), l.dtype),
          like(h0, {l.directions, l.batch, l.outputs}, l.dtype),
          l.kind == RnnKind::kLstm ? like(h0, {l.directions, l.batch, l.hidden}, l.dtype) : like(h0, {0}, l.dtype),
          for_backward ? like(h0, layer.each(l.gates()), l.dtype) : like(h0, {0}, l.dtype),
          has_extra(l.kind) ? like(h0, layer.each(l.hidden), l.dtype) : like(h0, {0}, l.dtype)};
}
// What is for others than the backward has the dtype of the inputs.
Results rounded(Results r, DType dtype) {
  auto& [output, h_n, c_n, values, extra] = r;
  return {to(output, dtype), to(h_n, dtype), to(c_n, dtype), values, extra};
}

// The rows behind the last step of each sequence, joined. rows: (rows, n); to: (batch, n).
void copy_last(const cpu::RnnLayer& l, const Tensor& rows, const Tensor& to, bool reverse) {
  std::vector<Tensor> parts;
  for (int64_t t = reverse ? 0 : l.steps - 1, done = 0; done < l.batch; --t) {
    const int64_t n = l.size(t);
    if (n > done) parts.push_back(narrow(rows, 0, l.row(t) + done, n - done));
    done = n;
  }
  parts.size() == 1 ? copy_(to, parts[0]) : cat_out(to, parts, 0);
}
void copy_last(const cpu::RnnLayer& l, const Tensor& output, const Tensor& extra, const Tensor& h_n,
               const Tensor& c_n) {
  if (l.batch == 0) return;
  const auto flat = [&](const Tensor& t, int64_t n) {
    const int64_t sizes[] = {l.rows(), n};
    return view(t, IntList(sizes, 2));
  };
  for (int64_t d = 0; d < l.directions; ++d) {
    const bool reverse = l.reverse || d == 1;
    copy_last(l, narrow(flat(output, l.directions * l.outputs), 1, d * l.outputs, l.outputs), select(h_n, 0, d),
              reverse);
    if (l.kind == RnnKind::kLstm) copy_last(l, flat(select(extra, 0, d), l.hidden), select(c_n, 0, d), reverse);
  }
}

}  // namespace

Results _rnn_layer_meta(const Tensor& gates, const Tensor& h0, const Tensor& c0, const Tensor& w_hh, const Tensor& b_hh,
                        const Tensor& w_hr, int64_t kind, bool reverse, IntList batch_sizes, bool for_backward) {
  const Layer layer(gates, h0, c0, w_hh, b_hh, w_hr, kind, reverse, batch_sizes, true);
  return rounded(result_tensors(layer, h0, for_backward), h0.dtype());
}

Results _rnn_layer_kernel(const Tensor& gates, const Tensor& h0, const Tensor& c0, const Tensor& w_hh,
                          const Tensor& b_hh, const Tensor& w_hr, int64_t kind, bool reverse, IntList batch_sizes,
                          bool for_backward) {
  const Layer layer(gates, h0, c0, w_hh, b_hh, w_hr, kind, reverse, batch_sizes, true);
  const cpu::RnnLayer& l = layer.l;
  const Tensor x = dense(gates, l.dtype), h = dense(h0, l.dtype), c = dense(c0, l.dtype), w = dense(w_hh, l.dtype),
               b = dense(b_hh, l.dtype), r = dense(w_hr, l.dtype);
  if (!recurrent::has_engine(gates.device())) {  // step by step
    const auto made = recurrent::forward({x, h, c, w, b, r}, l.kind, reverse, batch_sizes);
    const auto or_empty = [&](const Tensor& t) { return t.defined() ? t : like(h0, {0}, l.dtype); };
    return rounded({made.output, made.h_n, or_empty(made.c_n), for_backward ? made.values : like(h0, {0}, l.dtype),
                    or_empty(made.extra)},
                   h0.dtype());
  }
  Results results = result_tensors(layer, h0, for_backward);
  auto& [output, h_n, c_n, values, extra] = results;
  TESSERA_ON(gates.device(), rnn_forward)
  (l, address(x), {address(h), address(c), address(w), address(b), address(r)},
   {writable(values), writable(output), writable(extra)});
  copy_last(l, output, extra, h_n, c_n);
  return rounded(results, h0.dtype());
}

namespace {

Gradients gradient_tensors(const Layer& layer, const Tensor& h0) {
  const cpu::RnnLayer& l = layer.l;
  const int64_t hidden = l.kind == RnnKind::kGru ? l.gates() : l.projects() ? l.outputs : 0;
  return {like(h0, layer.rows(l.directions * l.gates()), l.dtype),
          hidden ? like(h0, layer.each(hidden), l.dtype) : like(h0, {0}, l.dtype),
          like(h0, {l.directions, l.batch, l.outputs}, l.dtype),
          l.kind == RnnKind::kLstm ? like(h0, {l.directions, l.batch, l.hidden}, l.dtype) : like(h0, {0}, l.dtype)};
}
// A tensor of the backward against the one that it belongs to.
void check_fits(const char* name, const Tensor& t, const std::vector<int64_t>& sizes, const Tensor& output) {
  if (!t.defined()) return;
  TESSERA_CHECK(std::ranges::equal(t.sizes(), sizes), "_rnn_layer_backward: expected ", name, " of shape ",
                shape_string(IntList(sizes.data(), sizes.size())), ", but got ", shape_string(t.sizes()));
  TESSERA_CHECK(t.dtype() == output.dtype() && t.device() == output.device(), "_rnn_layer_backward: expected ", name,
                " to be of dtype ", name_of(output.dtype()), " on ", output.device().str(), ", but got ",
                name_of(t.dtype()), " on ", t.device().str());
}
Layer checked(const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n, const Tensor& h0,
              const Tensor& c0, const Tensor& w_hh, const Tensor& w_hr, const Tensor& output, const Tensor& values,
              const Tensor& extra, int64_t kind, bool reverse, IntList batch_sizes) {
  Layer layer(output, h0, c0, w_hh, Tensor(), w_hr, kind, reverse, batch_sizes, false);
  const cpu::RnnLayer& l = layer.l;
  TESSERA_CHECK(!is_half(output.dtype()), "_rnn_layer_backward: expected float32 or float64, but got ",
                name_of(output.dtype()));
  check_fits("grad_output", grad_output, layer.rows(l.directions * l.outputs), output);
  check_fits("grad_h_n", grad_h_n, {l.directions, l.batch, l.outputs}, output);
  if (c0.defined()) check_fits("grad_c_n", grad_c_n, {l.directions, l.batch, l.hidden}, output);
  check_fits("values", values, layer.each(l.gates()), output);
  if (has_extra(l.kind)) check_fits("extra", extra, layer.each(l.hidden), output);
  return layer;
}
void start_with(const Tensor& to, const Tensor& grad) { grad.defined() ? copy_(to, detach(grad)) : zero_(to); }

}  // namespace

Gradients _rnn_layer_backward_meta(const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n,
                                   const Tensor& h0, const Tensor& c0, const Tensor& w_hh, const Tensor& w_hr,
                                   const Tensor& output, const Tensor& values, const Tensor& extra, int64_t kind,
                                   bool reverse, IntList batch_sizes) {
  return gradient_tensors(
      checked(grad_output, grad_h_n, grad_c_n, h0, c0, w_hh, w_hr, output, values, extra, kind, reverse, batch_sizes),
      h0);
}

Gradients _rnn_layer_backward_kernel(const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n,
                                     const Tensor& h0, const Tensor& c0, const Tensor& w_hh, const Tensor& w_hr,
                                     const Tensor& output, const Tensor& values, const Tensor& extra, int64_t kind,
                                     bool reverse, IntList batch_sizes) {
  const Layer layer =
      checked(grad_output, grad_h_n, grad_c_n, h0, c0, w_hh, w_hr, output, values, extra, kind, reverse, batch_sizes);
  Gradients gradients = gradient_tensors(layer, h0);
  auto& [grad_gates, grad_hidden, grad_h0, grad_c0] = gradients;
  start_with(grad_h0, grad_h_n);
  if (c0.defined()) start_with(grad_c0, grad_c_n);
  const DType t = layer.l.dtype;
  const Tensor grad = dense(grad_output, t), h = dense(h0, t), c = dense(c0, t), w = dense(w_hh, t), r = dense(w_hr, t),
               v = dense(values, t), states = dense(output, t), more = dense(extra, t);
  TESSERA_ON(values.device(), rnn_backward)
  (layer.l, {address(h), address(c), address(w), nullptr, address(r)}, {writable(v), writable(states), writable(more)},
   address(grad), {writable(grad_h0), writable(grad_c0), writable(grad_gates), writable(grad_hidden)});
  return gradients;
}

// ---- Layers and cells ----

std::tuple<Tensor, Tensor, Tensor> _rnn_layers_composite(const Tensor& input, TensorList hx, TensorList params,
                                                         int64_t kind, bool has_biases, double dropout_p,
                                                         bool bidirectional, IntList batch_sizes) {
  const bool lstm = kind == static_cast<int64_t>(RnnKind::kLstm), gru = kind == static_cast<int64_t>(RnnKind::kGru);
  const int64_t directions = bidirectional ? 2 : 1, least = has_biases ? 4 : 2;
  TESSERA_CHECK(hx.size() == (lstm ? 2u : 1u), "_rnn_layers: expected ", lstm ? "the state and the cell" : "the state",
                ", but got ", hx.size(), " tensors");
  for (const Tensor& h : hx)
    TESSERA_CHECK(h.dim() == 3,
                  "_rnn_layers: expected states of shape (layers * directions, batch, features), but got ",
                  shape_string(h.sizes()));
  const int64_t groups = hx[0].size(0), count = static_cast<int64_t>(params.size());
  const int64_t each = groups > 0 ? count / groups : 0;
  TESSERA_CHECK(groups > 0 && groups % directions == 0 && each * groups == count && each >= least && each <= least + 1,
                "_rnn_layers: ", groups, " layers and directions have ", least, " weights each (", least + 1,
                " with a projection), but got ", count, " weights");
  const auto param = [&](int64_t k, int64_t i) { return Tensor(params[static_cast<size_t>(k * each + i)]); };
  Tensor x = input;
  std::vector<Tensor> h_n, c_n;
  for (int64_t k = 0; k < groups; k += directions) {
    // f(direction) of all directions, one behind the other, or one above the other.
    const auto behind = [&](auto f) {
      return directions == 1 ? Tensor(f(k)) : cat(std::vector<Tensor>{f(k), f(k + 1)}, 0);
    };
    const auto above = [&](int64_t i) {
      return directions == 1 ? unsqueeze(param(k, i), 0) : stack(std::vector<Tensor>{param(k, i), param(k + 1, i)}, 0);
    };
    Tensor bias, b_hh;
    if (has_biases && !gru) bias = behind([&](int64_t j) { return param(j, 2) + param(j, 3); });  // one for both
    if (has_biases && gru) bias = behind([&](int64_t j) { return param(j, 2); }), b_hh = above(3);
    const Tensor gates = linear(x, behind([&](int64_t j) { return param(j, 0); }), bias);
    auto [out, h, c, values, extra] =
        _rnn_layer(gates, narrow(hx[0], 0, k, directions), lstm ? narrow(hx[1], 0, k, directions) : Tensor(), above(1),
                   b_hh, each > least ? above(each - 1) : Tensor(), kind, false, batch_sizes, grad_mode_enabled());
    // Under autocast the products of the input are in a lower precision, and so is the result; the steps are not.
    const DType dtype = gru ? x.dtype() : gates.dtype();
    x = to(out, dtype);
    h_n.push_back(to(h, dtype));
    c_n.push_back(to(c, dtype));
    if (dropout_p > 0 && k + directions < groups) x = dropout(x, dropout_p, true);
  }
  if (h_n.size() == 1) return {x, h_n[0], c_n[0]};
  return {x, cat(h_n, 0), lstm ? cat(c_n, 0) : c_n[0]};
}

namespace {

// One step whose gradients nobody asks for: what a layer of one step computes, without its views and copies. Nothing
// where layers look on, or where the arguments do not fit: what follows says how.
std::optional<std::tuple<Tensor, Tensor>> plain_cell(const Tensor& input, const Tensor& h, const Tensor& c,
                                                     const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih,
                                                     const Tensor& b_hh, RnnKind kind) {
  if (thread_state.included || !h.defined() || !w_hh.defined() || h.dim() != 2 || input.dim() != 2) return {};
  cpu::RnnLayer l{h.dtype(), kind, 1, h.size(0), h.size(1), h.size(1), 1, false};
  if (l.dtype != DType::kFloat32 && l.dtype != DType::kFloat64) return {};
  const auto fits = [&](const Tensor& t, std::initializer_list<int64_t> sizes) {
    return is_plain(t) && t.is_cpu() && t.dtype() == l.dtype && t.is_contiguous() &&
           !(thread_state.grad_enabled && t.requires_grad()) && std::ranges::equal(t.sizes(), sizes);
  };
  const int64_t features = input.size(1);
  if (!l.batch || !l.hidden || !fits(h, {l.batch, l.hidden}) || !fits(input, {l.batch, features}) ||
      !fits(w_ih, {l.gates(), features}) || !fits(w_hh, {l.gates(), l.hidden}) ||
      (b_ih.defined() && !fits(b_ih, {l.gates()})) || (b_hh.defined() && !fits(b_hh, {l.gates()})) ||
      (c.defined() && !fits(c, {l.batch, l.hidden})))
    return {};
  const Tensor gates = linear(input, w_ih, b_ih), state = empty_tensor(h.sizes(), {}, l.dtype, h.device()),
               extra = empty_tensor(h.sizes(), {}, l.dtype, h.device());
  TESSERA_ON(h.device(), rnn_forward)
  (l, address(gates), {address(h), address(c), address(w_hh), address(b_hh), nullptr},
   {nullptr, writable(state), writable(extra)});
  return {{state, c.defined() ? extra : h}};
}

}  // namespace

std::tuple<Tensor, Tensor> _rnn_cell_composite(const Tensor& input, TensorList hx, const Tensor& w_ih,
                                               const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh,
                                               int64_t kind) {
  const bool lstm = kind == static_cast<int64_t>(RnnKind::kLstm), gru = kind == static_cast<int64_t>(RnnKind::kGru);
  TESSERA_CHECK(kind >= 0 && kind <= 3, "_rnn_cell: kind must be 0 (LSTM), 1 (GRU), 2 (tanh) or 3 (relu), but got ",
                kind);
  TESSERA_CHECK(hx.size() == (lstm ? 2u : 1u), "_rnn_cell: expected ", lstm ? "the state and the cell" : "the state",
                ", but got ", hx.size(), " tensors");
  if (lstm || gru)
    if (auto made = plain_cell(input, hx[0], lstm ? Tensor(hx[1]) : Tensor(), w_ih, w_hh, b_ih, b_hh,
                               static_cast<RnnKind>(kind)))
      return *made;
  const auto in_front = [](const Tensor& t) { return t.defined() ? unsqueeze(t, 0) : t; };
  const Tensor gates = linear(input, w_ih, b_ih);
  if (!lstm && !gru) {  // nothing that an engine could join
    const Tensor sum = gates + linear(hx[0], w_hh, b_hh);
    return {kind == static_cast<int64_t>(RnnKind::kTanh) ? tanh(sum) : relu(sum), Tensor(hx[0])};
  }
  auto [out, h, c, values, extra] =
      _rnn_layer(in_front(gates), in_front(hx[0]), lstm ? in_front(hx[1]) : Tensor(), in_front(w_hh), in_front(b_hh),
                 Tensor(), kind, false, IntList(), grad_mode_enabled());
  const DType dtype = gru ? input.dtype() : gates.dtype();
  return {to(select(out, 0, 0), dtype), lstm ? to(select(c, 0, 0), dtype) : Tensor(hx[0])};
}

}  // namespace tessera::kernels
