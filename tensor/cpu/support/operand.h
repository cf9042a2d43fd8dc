// What engines are called with: memory, and numbers.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera {

// An extra scalar argument of an op (alpha, a clamp bound, a slope), converted by the caller for the category of the
// compute dtype.
union KernelParam {
  double f;     // floating compute dtypes
  int64_t i;    // integers and bool; uint64 by bit pattern
  double c[2];  // complex compute dtypes: real, imaginary
};

namespace cpu {

// An operand: where it starts, what its elements are, how far apart they are (bytes, one per dimension of the iteration
// shape; 0 broadcasts).
struct Operand {
  void* data;
  DType dtype;
  const int64_t* strides;
  bool host = false;  // on other devices: an input of one element, in host memory
};

}  // namespace cpu
}  // namespace tessera
