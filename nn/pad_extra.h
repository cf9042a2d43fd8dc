// What the callees and expressions of pad.textproto refer to.
#pragma once

#include "tensor/core/tensor.h"

namespace tessera::kernels {

// Padding whose results are elements of the input (mirrored or repeated at the border) in the last n dimensions.
OutputSpec mapped_pad_spec(bool reflect, int64_t n, const Tensor& self, IntList padding);
void mapped_pad_into(bool reflect, int64_t n, const Tensor& self, IntList padding, const Tensor& out);
OutputSpec mapped_pad_backward_spec(bool reflect, int64_t n, const Tensor& grad, const Tensor& self, IntList padding);
void mapped_pad_backward_into(bool reflect, int64_t n, const Tensor& grad, IntList padding, const Tensor& out);

template <bool kReflect, int N>
OutputSpec mapped_pad_meta(const Tensor& self, SymIntList padding) {
  return mapped_pad_spec(kReflect, N, self, padding.ints());
}
template <bool kReflect, int N>
void mapped_pad_kernel(const Tensor& self, SymIntList padding, const Tensor& out) {
  mapped_pad_into(kReflect, N, self, padding.ints(), out);
}
template <bool kReflect, int N>
OutputSpec mapped_pad_backward_meta(const Tensor& grad, const Tensor& self, SymIntList padding) {
  return mapped_pad_backward_spec(kReflect, N, grad, self, padding.ints());
}
template <bool kReflect, int N>
void mapped_pad_backward_kernel(const Tensor& grad, const Tensor&, SymIntList padding, const Tensor& out) {
  mapped_pad_backward_into(kReflect, N, grad, padding.ints(), out);
}

Tensor shuffle_channels(const Tensor& self, int64_t groups);

}  // namespace tessera::kernels
