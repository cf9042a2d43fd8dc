// A recurrent layer step by step, of other operators: what can be differentiated again, and what devices without an
// engine for whole layers (nn/engine/rnn.h) compute. In the notation of nn/cpu/rnn.cc: g are the gates before their
// functions, v their values.
#pragma once

#include <vector>

#include "nn/cpu/rnn.h"
#include "tensor/core/tensor.h"

namespace tessera::recurrent {

struct Inputs {
  Tensor gates, h0, c0, w_hh, b_hh, w_hr;  // as _rnn_layer takes them
};
struct Trace {
  Tensor output, h_n, c_n, values, extra;  // as _rnn_layer gives them
};
struct Gradients {
  Tensor gates, h0, c0;  // as _rnn_layer_backward gives them
  // For each direction rows of all steps: the gradients of what the state contributed, (rows, gates), and the states
  // that the steps started from; where states are projected, the gradients of the states, and these before it.
  std::vector<Tensor> hidden, before, projected, unprojected;
};

// Whether _rnn_layer and its backward have kernels there: else they are these functions.
bool has_engine(Device d);

// The sequences of each step: batch_sizes, or as many as gates has in each.
std::vector<int64_t> step_sizes(const Tensor& gates, IntList batch_sizes);

Trace forward(const Inputs& in, cpu::RnnKind kind, bool reverse, IntList batch_sizes);
// The forward is computed again, of the inputs, so that the gradients can be differentiated. Gradients that come in may
// be undefined.
Gradients backward(const Inputs& in, const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n,
                   cpu::RnnKind kind, bool reverse, IntList batch_sizes);

// The states that each step started from as rows of all steps, (rows, outputs), for one direction; output: (rows,
// outputs), h0: (batch, outputs).
Tensor states_before(const Tensor& output, const Tensor& h0, const std::vector<int64_t>& sizes, bool reverse);

}  // namespace tessera::recurrent
