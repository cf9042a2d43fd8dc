// Derivatives of padding.
#pragma once

#include "nn/nn_ops.h"

namespace tessera::autograd::formulas {

inline IntList last_two(IntList sizes) { return sizes.subspan(sizes.size() - 2); }
// Padding the other way round: crops what was padded, puts zeros where it was cropped.
inline Tensor constant_pad_nd_backward(const Tensor& grad, SymIntList pad) {
  IntVector back = to_vector(pad.ints());
  for (int64_t& p : back) p = -p;
  return constant_pad_nd(grad, back, 0);
}

}  // namespace tessera::autograd::formulas
