// Convolution as matrix products: blocks of the image become columns (im2col), small enough to stay in cache, in pieces
// that depend on the sizes only. For any dtype whose sums are kept in it: not for reduced floats.
#pragma once

#include "nn/cpu/conv/conv.h"

namespace tessera::cpu::internal {

void columns_forward(DType dtype, const ConvGeometry& g, const void* x, const void* w, const void* bias, void* y);
// T: as visit_addable names the dtype.
template <class T>
void columns_backward_input(DType dtype, const ConvGeometry& g, const void* dy, const void* w, void* dx);
template <class T>
void columns_backward_weight(DType dtype, const ConvGeometry& g, const void* dy, const void* x, void* dw);

}  // namespace tessera::cpu::internal
