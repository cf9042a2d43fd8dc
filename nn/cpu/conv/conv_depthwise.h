// Convolutions with one input channel per group, without matrix products: each output row is a sum of shifted input
// rows.
#pragma once

#include "nn/cpu/conv/conv.h"

namespace tessera::cpu::internal {

// One input channel per group and few output channels of it.
inline bool is_depthwise(const ConvGeometry& g) {
  return g.groups > 1 && g.in_channels == g.groups && g.out_channels <= 4 * g.groups;
}

void depthwise_forward(const ConvGeometry& g, const float* x, const float* w, const float* bias, float* y);
void depthwise_forward(const ConvGeometry& g, const double* x, const double* w, const double* bias, double* y);
void depthwise_backward_input(const ConvGeometry& g, const float* dy, const float* w, float* dx);
void depthwise_backward_input(const ConvGeometry& g, const double* dy, const double* w, double* dx);
void depthwise_backward_weight(const ConvGeometry& g, const float* dy, const float* x, float* dw);
void depthwise_backward_weight(const ConvGeometry& g, const double* dy, const double* x, double* dw);

}  // namespace tessera::cpu::internal
