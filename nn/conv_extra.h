// What the expressions of conv.textproto call: convolutions of one number of spatial dimensions, with or without a
// batch.
#pragma once

#include <string_view>

#include "tensor/core/tensor.h"

namespace tessera::kernels {

Tensor conv_nd(int64_t n, const char* name, const Tensor& input, const Tensor& weight, const Tensor& bias,
               IntList stride, IntList padding, IntList dilation, SymInt groups);
// padding "valid" (none) or "same" (as many results as elements; stride 1 only).
Tensor conv_nd_named_padding(int64_t n, const char* name, const Tensor& input, const Tensor& weight, const Tensor& bias,
                             IntList stride, std::string_view padding, IntList dilation, SymInt groups);
Tensor conv_transpose_nd(int64_t n, const char* name, const Tensor& input, const Tensor& weight, const Tensor& bias,
                         IntList stride, IntList padding, IntList output_padding, SymInt groups, IntList dilation);

}  // namespace tessera::kernels
