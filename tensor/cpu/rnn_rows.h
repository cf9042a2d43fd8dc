// One row of one step of a recurrent layer: what the SIMD kernels of rnn.cc work on.
#pragma once

#include <cstdint>

namespace tessera::cpu::internal {

// One row of one step; the members that a kind does not have are null.
template <class T>
struct Row {
  int64_t hidden;
  T* gates;
  const T* from_state;  // GRU: state times weight plus bias
  const T* h_before;
  const T* c_before;
  T* h;
  T* extra;
};

// grad_h: in: of this step's state; out: the part that goes to the state before without a product. grad_c: of this step's cell, then of the one before.
template <class T>
struct BackRow {
  int64_t hidden;
  const T* gates;
  const T* h_before;
  const T* c_before;
  const T* h;
  const T* extra;
  T* grad_h;
  T* grad_c;
  T* grad_gates;
  T* grad_hidden;
};

}  // namespace tessera::cpu::internal
