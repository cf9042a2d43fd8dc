// A recurrent layer in one direction, below the Tensor: all steps of all sequences, forward and backward.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// Blocks of gates, in this order. LSTM: input, forget, candidate, output. GRU: reset, update, candidate. The plain
// ones: the new state itself.
enum class RnnKind { kLstm = 0, kGru = 1, kTanh = 2, kRelu = 3 };

struct RnnLayer {
  DType dtype;  // float32, float64
  RnnKind kind;
  int64_t steps;  // at least 1
  int64_t batch;
  int64_t hidden;
  bool reverse;  // from the last step to the first
  int64_t gates() const { return (kind == RnnKind::kLstm ? 4 : kind == RnnKind::kGru ? 3 : 1) * hidden; }
};

// What a layer computed and its backward reads. All arrays are dense and have a row for each (step, sequence).
struct RnnTrace {
  void* gates;   // [steps, batch, gates()]: the gates' values (of the plain layers: what the state is a function of);
                 // null if no backward will follow
  void* output;  // [steps, batch, hidden]
  void* extra;   // [steps, batch, hidden]: LSTM: the cells; GRU: the part of the candidate that comes from the state,
                 // before the reset gate. Others: null
};

// projected: [steps, batch, gates()], the input times its weight, with or without its bias. h0, c0 (LSTM): [batch,
// hidden]. w_hh_t: [hidden, gates()], the recurrent weight's transpose. b_hh: [gates()], added to the state's product,
// may be null.
void rnn_forward(const RnnLayer& layer, const void* projected, const RnnTrace& trace, const void* h0, const void* c0,
                 const void* w_hh_t, const void* b_hh);

// w_hh: [gates(), hidden]. grad_output: [steps, batch, hidden] or null; grad_state, grad_cell: in: gradients of the
// last state and cell, out: of h0 and c0. grad_gates: [steps, batch, gates()], of the projected input; grad_hidden: the
// same for what the state contributes, GRU only (for the others both are one).
void rnn_backward(const RnnLayer& layer, const RnnTrace& trace, const void* h0, const void* c0, const void* w_hh,
                  const void* grad_output, void* grad_state, void* grad_cell, void* grad_gates, void* grad_hidden);

}  // namespace tessera::cpu
