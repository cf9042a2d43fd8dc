// A recurrent layer in one direction or in both, below the Tensor: all steps of all sequences, forward and backward.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// Blocks of gates, in this order. LSTM: input, forget, candidate, output. GRU: reset, update, candidate. The plain
// ones: the new state itself.
enum class RnnKind { kLstm = 0, kGru = 1, kTanh = 2, kRelu = 3 };

// The rows of a step are its sequences. Those of a step come behind those of the step before it; where sequences end
// early, the longest come first, so that the sequences of a step are the first ones of the step before.
struct RnnLayer {
  DType dtype;  // float32, float64
  RnnKind kind;
  int64_t steps;                    // at least 1
  int64_t batch;                    // sequences
  int64_t hidden;                   // units
  int64_t outputs;                  // numbers of a state: hidden, or fewer where the layer (LSTM) projects its states
  int64_t directions;               // 1 or 2: the second one goes from the last step to the first
  bool reverse;                     // with one direction: so does that one
  const int64_t* sizes = nullptr;   // sequences of each step, never rising, sizes[0] = batch; null: all, at every step
  const int64_t* begins = nullptr;  // with sizes: rows before each step, and of all of them

  int64_t gates() const { return (kind == RnnKind::kLstm ? 4 : kind == RnnKind::kGru ? 3 : 1) * hidden; }
  bool projects() const { return outputs != hidden; }
  int64_t size(int64_t step) const { return sizes ? sizes[step] : batch; }
  int64_t row(int64_t step) const { return sizes ? begins[step] : step * batch; }
  int64_t rows() const { return row(steps); }
};

// What a layer computed and its backward reads. All arrays are dense.
struct RnnTrace {
  void* gates;   // [directions, rows, gates()]: the gates' values (of the plain layers: what the state is a function
                 // of); null if no backward will follow
  void* output;  // [rows, directions * outputs]
  void* extra;   // [directions, rows, hidden]: LSTM: the cells; GRU: the part of the candidate that comes from the
                 // state, before the reset gate. Others: null
};

// What a layer reads; each array begins with a dimension for the directions.
struct RnnInputs {
  const void* h0;    // [batch, outputs]
  const void* c0;    // [batch, hidden], LSTM
  const void* w_hh;  // [gates(), outputs]
  const void* b_hh;  // [gates()], added to the state's product, may be null; the backward does not read it
  const void* w_hr;  // [outputs, hidden] where the layer projects
};

// projected: [rows, directions * gates()], the input times its weight, with or without its bias.
void rnn_forward(const RnnLayer& layer, const void* projected, const RnnInputs& inputs, const RnnTrace& trace);

// grad_state [directions, batch, outputs], grad_cell [directions, batch, hidden]: in: gradients of the last states and
// cells, out: of h0 and c0. grad_gates [rows, directions * gates()]: of the projected input. grad_hidden: GRU
// [directions, rows, gates()], the same for what the state contributes (for the others both are one); of a layer that
// projects [directions, rows, outputs], the gradient of each state.
struct RnnGradients {
  void *grad_state, *grad_cell, *grad_gates, *grad_hidden;
};

// grad_output: [rows, directions * outputs] or null.
void rnn_backward(const RnnLayer& layer, const RnnInputs& inputs, const RnnTrace& trace, const void* grad_output,
                  const RnnGradients& gradients);

}  // namespace tessera::cpu
