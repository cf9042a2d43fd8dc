// What the classes of recurrent layers and cells share.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

namespace torch::nn::recurrent {

using at::Tensor;

enum class Kind : int64_t { kLstm = 0, kGru = 1, kTanh = 2, kRelu = 3 };  // numbers of the operators
inline int64_t gates_of(Kind kind) { return kind == Kind::kLstm ? 4 : kind == Kind::kGru ? 3 : 1; }

using State = std::vector<Tensor>;  // h; of LSTM h and c

// All layers. x: (steps, N, features), or with batch_sizes their sum of rows; states: of (layers * directions, N, .);
// weights: of each layer and direction w_ih, w_hh, with has_biases b_ih, b_hh, and w_hr where states are projected;
// dropout_p: between layers. Returns the last layer's outputs and the last states.
inline std::pair<Tensor, State> run_layers(Kind kind, const Tensor& x, const std::vector<int64_t>& batch_sizes,
                                           const State& states, const std::vector<Tensor>& weights, bool has_biases,
                                           bool bidirectional, double dropout_p) {
  auto [out, h, c] = at::_rnn_layers(x, states, weights, static_cast<int64_t>(kind), has_biases, dropout_p,
                                     bidirectional, batch_sizes);
  return {out, kind == Kind::kLstm ? State{h, c} : State{h}};
}

// One step of (N, features).
inline State step(Kind kind, const Tensor& x, const State& state, const Tensor& w_ih, const Tensor& w_hh,
                  const Tensor& b_ih, const Tensor& b_hh) {
  auto [h, c] = at::_rnn_cell(x, state, w_ih, w_hh, b_ih, b_hh, static_cast<int64_t>(kind));
  return kind == Kind::kLstm ? State{h, c} : State{h};
}

}  // namespace torch::nn::recurrent
