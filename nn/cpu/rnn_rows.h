// The rows of one step of a recurrent layer: what the SIMD kernels of rnn.cc work on.
#pragma once

#include <cstdint>

namespace tessera::cpu::internal {

// Arrays have rows of `hidden` numbers, or of gates (blocks of `hidden`), and as many elements from row to row unless a
// member NAME_row says otherwise. The members that a kind does not have are null.
template <class T>
struct Rows {
  int64_t rows, hidden, gates;
  const T* from_state;  // state times weight, state_row elements from row to row
  int64_t state_row;
  const T* bias;  // of from_state, may be null
  const T* projected;
  int64_t projected_row;
  T* values;
  int64_t values_row;  // elements from row to row; 0: only the last row is kept
  const T* h_before;
  int64_t before_row;
  const T* c_before;
  T* h;
  int64_t h_row;
  T* extra;
};

// grad_h: in: of this step's state, without grad_output, which may be null; out, GRU only: the part that goes to the
// state before without a product. grad_c: of this step's cell, then of the one before. h_row: of h and of grad_output.
template <class T>
struct BackRows {
  int64_t rows, hidden, gates;
  const T* values;
  const T* h_before;
  int64_t before_row;
  const T* c_before;
  const T* h;
  int64_t h_row;
  const T* extra;
  const T* grad_output;
  T* grad_h;
  T* grad_c;
  T* grad_gates;
  int64_t gates_row;
  T* grad_hidden;
};

}  // namespace tessera::cpu::internal
