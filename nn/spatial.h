// What operators on images share: argument lists, memory formats.
#pragma once

#include <string_view>

#include "tensor/core/tensor.h"
#include "tensor/ops/result_memory.h"

namespace tessera::kernels {

// One value for all n dimensions, or one each. Error "<what> must be ..." otherwise.
IntVector per_dimension(IntList values, int64_t n, const char* op, const char* what);
// The same in [depth, height, width] form; missing leading dimensions get `fill`.
void fill_dims(IntList values, int64_t fill, int64_t (&out)[3]);

// Strides of a result of `sizes` in the memory format that t suggests. Empty: row-major.
IntVector strides_of_format(const Tensor& t, IntList sizes);
inline OutputSpec spec_like(const Tensor& t, IntVector sizes) {
  IntVector strides = strides_of_format(t, sizes);
  return OutputSpec(std::move(sizes), std::move(strides), t.dtype(), t.device());
}

// Error for values of a window (kernel, padding, dilation ...) so large that positions in the image would overflow.
void check_extents(IntList values, const char* op, const char* what);

// "(3x5x5)": sizes as the messages about pooling print them.
std::string times_string(IntList sizes);
// Error unless both have one dtype.
void same_dtype(const Tensor& a, const Tensor& b, const char* op);

}  // namespace tessera::kernels
