// What the table of resampling calls by name.
#pragma once

#include "tensor/core/tensor.h"

namespace tessera::kernels {

// grid_sampler of images with n dimensions, or with any if n is 0.
Tensor grid_sampler_nd(const char* op, int64_t n, const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                       int64_t padding_mode, bool align_corners);

}  // namespace tessera::kernels
