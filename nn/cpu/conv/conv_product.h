// Convolutions with windows of one position over large images: products of the weights with each image.
#pragma once

#include "nn/cpu/conv/conv.h"

namespace tessera::cpu::internal {

// y[n] = w x[n] + bias (or null), or w^T x[n]. For float and double.
template <class T>
void pointwise_product(const ConvGeometry& g, bool transposed, const T* x, const T* w, const T* bias, T* y);

}  // namespace tessera::cpu::internal
