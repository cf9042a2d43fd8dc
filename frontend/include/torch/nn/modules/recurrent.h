// The steps of recurrent layers over all of a batch's sequences, shared by the classes that hold their weights.
#pragma once

#include <utility>
#include <vector>

#include <ATen/ATen.h>

namespace torch::nn::recurrent {

using at::Tensor;

enum class Kind : int64_t { kLstm = 0, kGru = 1, kTanh = 2, kRelu = 3 };  // numbers of the operator _rnn_layer
inline int64_t gates_of(Kind kind) { return kind == Kind::kLstm ? 4 : kind == Kind::kGru ? 3 : 1; }

// Of one layer in one direction; biases, and the projection of what LSTM gives out, may be undefined.
struct Weights {
  Tensor w_ih, w_hh, b_ih, b_hh, w_hr;
};
using State = std::vector<Tensor>;  // h; of LSTM h and c

// One step of (N, gates * hidden), the projected input.
inline State step(Kind kind, const Tensor& x, const State& state, const Weights& w) {
  const Tensor projected = at::linear(state[0], w.w_hh, w.b_hh);
  if (kind == Kind::kTanh) return {at::tanh(at::add(x, projected))};
  if (kind == Kind::kRelu) return {at::relu(at::add(x, projected))};
  if (kind == Kind::kGru) {
    const auto in = at::chunk(x, 3, -1), own = at::chunk(projected, 3, -1);
    const Tensor keep = at::sigmoid(at::add(in[1], own[1]));
    const Tensor fresh = at::tanh(at::add(in[2], at::mul(at::sigmoid(at::add(in[0], own[0])), own[2])));
    return {at::add(at::mul(at::sub(state[0], fresh), keep), fresh)};
  }
  const auto gates = at::chunk(at::add(x, projected), 4, -1);
  const Tensor c =
      at::add(at::mul(at::sigmoid(gates[1]), state[1]), at::mul(at::sigmoid(gates[0]), at::tanh(gates[2])));
  const Tensor h = at::mul(at::sigmoid(gates[3]), at::tanh(c));
  return {w.w_hr.defined() ? at::linear(h, w.w_hr) : h, c};
}

// `steps` steps of as many sequences each; x: the projected rows, step by step. Returns the outputs as rows and moves
// the state on.
inline Tensor run_steps(Kind kind, const Tensor& x, int64_t steps, State* state, const Weights& w, bool reverse) {
  const auto dtype = w.w_hh.scalar_type();
  if (!w.w_hr.defined() && x.is_cpu() && x.scalar_type() == dtype && (dtype == at::kFloat || dtype == at::kDouble)) {
    const bool lstm = kind == Kind::kLstm;
    auto [out, h, c, values, extra] =
        at::_rnn_layer(at::view(at::contiguous(x), {steps, -1, x.size(-1)}), (*state)[0], lstm ? (*state)[1] : Tensor(),
                       w.w_hh, w.b_hh, static_cast<int64_t>(kind), reverse, at::GradMode::is_enabled());
    *state = lstm ? State{h, c} : State{h};
    return at::flatten(out, 0, 1);
  }
  const auto pieces = at::chunk(x, steps);
  State outputs(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const auto t = static_cast<size_t>(reverse ? steps - 1 - i : i);
    *state = step(kind, pieces[t], *state, w);
    outputs[t] = (*state)[0];
  }
  return at::cat(outputs);
}

// One layer in one direction. x: (sum of batch_sizes, input), the rows of step t after those of t - 1, sequences
// sorted by falling length; start: states (N, .). Returns the outputs in that layout and the last states.
inline std::pair<Tensor, State> run_direction(Kind kind, const Tensor& x, const std::vector<int64_t>& batch_sizes,
                                              const State& start, const Weights& w, bool reverse) {
  struct Run {  // neighbouring steps of as many sequences
    int64_t sequences, steps, row;
  };
  std::vector<Run> runs;
  int64_t row = 0;
  for (int64_t n : batch_sizes) {
    if (runs.empty() || runs.back().sequences != n) runs.push_back({n, 0, row});
    ++runs.back().steps;
    row += n;
  }
  const auto rows = [](const State& s, int64_t from, int64_t count) {
    State part;
    for (const Tensor& t : s) part.push_back(at::narrow(t, 0, from, count));
    return part;
  };
  const auto joined = [](const State& a, const State& b) {
    State both;
    for (size_t i = 0; i < a.size(); ++i) both.push_back(at::cat(State{a[i], b[i]}));
    return both;
  };
  const Tensor gates = at::linear(x, w.w_ih, w.b_ih);
  State state = start, outputs(runs.size());
  if (reverse) state = rows(start, 0, 0);
  std::vector<State> finished;  // of the sequences that ended, the shortest first
  for (size_t i = 0; i < runs.size(); ++i) {
    const size_t k = reverse ? runs.size() - 1 - i : i;
    const int64_t n = runs[k].sequences, have = state[0].size(0);
    if (n > have) {
      const State fresh = rows(start, have, n - have);
      state = have ? joined(state, fresh) : fresh;
    } else if (n < have) {
      finished.push_back(rows(state, n, have - n));
      state = rows(state, 0, n);
    }
    outputs[k] =
        run_steps(kind, at::narrow(gates, 0, runs[k].row, n * runs[k].steps), runs[k].steps, &state, w, reverse);
  }
  for (size_t i = finished.size(); i-- > 0;) state = joined(state, finished[i]);
  return {outputs.size() == 1 ? outputs[0] : at::cat(outputs), state};
}

// All layers. states: h, or h and c, of (layers * directions, N, .); weights: of each layer and direction; dropout_p:
// between layers. Returns the last layer's outputs and the last states.
inline std::pair<Tensor, State> run_layers(Kind kind, Tensor x, const std::vector<int64_t>& batch_sizes,
                                           const State& states, const std::vector<Weights>& weights, int64_t directions,
                                           double dropout_p) {
  std::vector<State> last(states.size());
  for (size_t k = 0; k < weights.size(); k += static_cast<size_t>(directions)) {
    State outs;
    for (size_t d = 0; d < static_cast<size_t>(directions); ++d) {
      State start;
      for (const Tensor& s : states) start.push_back(at::select(s, 0, static_cast<int64_t>(k + d)));
      auto [out, state] = run_direction(kind, x, batch_sizes, start, weights[k + d], d == 1);
      outs.push_back(out);
      for (size_t i = 0; i < state.size(); ++i) last[i].push_back(state[i]);
    }
    x = outs.size() == 1 ? outs[0] : at::cat(outs, -1);
    if (dropout_p > 0 && k + static_cast<size_t>(directions) < weights.size()) x = at::dropout(x, dropout_p, true);
  }
  State result;
  for (const State& s : last) result.push_back(at::stack(s));
  return {x, result};
}

}  // namespace torch::nn::recurrent
