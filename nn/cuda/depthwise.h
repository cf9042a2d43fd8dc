// Convolutions with one input channel per group, for float types: kernels of their own, in either order of memory.
// Every result is one sum in an order that depends on the sizes alone.
#pragma once

#include "nn/cpu/conv/conv.h"

namespace tessera::cuda::internal {

inline bool is_depthwise(DType dtype, const cpu::ConvGeometry& g) {
  return g.groups > 1 && g.in_channels == g.groups && g.out_channels > 0 &&
         (dtype == DType::kFloat32 || dtype == DType::kFloat64 || is_reduced_float(dtype));
}
// As conv_forward, conv_backward_input, conv_backward_weight of nn/engine/conv.h.
void depthwise_forward(DType dtype, const cpu::ConvGeometry& g, const void* x, const void* w, const void* bias,
                       void* y);
void depthwise_backward_input(DType dtype, const cpu::ConvGeometry& g, const void* dy, const void* w, void* dx);
void depthwise_backward_weight(DType dtype, const cpu::ConvGeometry& g, const void* dy, const void* x, void* dw);

}  // namespace tessera::cuda::internal
