// Convolution and sliding blocks below the Tensor. Tensors are contiguous (the caller makes them so), in NCHW order,
// batch first; 1-d and 2-d problems have leading sizes of 1.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// Spatial problem of up to 3 dimensions (depth, height, width); unused leading dimensions have size 1, kernel 1, stride
// 1, padding 0, dilation 1.
struct ConvGeometry {
  int64_t batch, in_channels, out_channels, groups;
  int64_t in_size[3], kernel[3], stride[3], padding[3], dilation[3], out_size[3];
  // All tensors have their channels last in memory: x and y (batch, ..., channels), the weights (out_channels, ...,
  // in_channels / groups). Only where the device's conv_channels_last says so.
  bool channels_last = false;
};
// Whether convolutions of these sizes take tensors with channels last.
bool conv_channels_last(DType dtype, const ConvGeometry& g);

// y[n,o,...] = bias[o] + sum w[o,i,...] x[n,i,...]; weight is (out_channels, in_channels / groups, *kernel); bias may
// be null. float32, float64, complex64/128, integers; float16/bfloat16 with float32 accumulation. Deterministic at any
// thread count.
void conv_forward(DType dtype, const ConvGeometry& g, const void* x, const void* w, const void* bias, void* y);
// Gradient with respect to the input: also the transposed convolution's forward.
void conv_backward_input(DType dtype, const ConvGeometry& g, const void* dy, const void* w, void* dx);
void conv_backward_weight(DType dtype, const ConvGeometry& g, const void* dy, const void* x, void* dw);

// Sliding blocks: cols is (batch, channels * kernel, out positions).
void im2col(DType dtype, const ConvGeometry& g, const void* x, void* cols);
// The adjoint; x is zeroed first.
void col2im(DType dtype, const ConvGeometry& g, const void* cols, void* x);

}  // namespace tessera::cpu
