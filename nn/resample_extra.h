// What the table of resampling calls by name.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>

#include "tensor/core/tensor.h"

namespace tessera::kernels {

// grid_sampler of images with n dimensions, or with any if n is 0.
Tensor grid_sampler_nd(const char* op, int64_t n, const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                       int64_t padding_mode, bool align_corners);

// The input (N, C, spatial...) with spatial sizes `size`; mode: of _resample; scales: outputs for one input, of which
// the places follow, or nullopt: from the sizes. On any device; of floats, and of bytes and integers where the mode has
// no weights (bytes: any mode, rounded after each dimension).
Tensor upsampled(const char* op, int64_t mode, const Tensor& input, SymIntList size, bool align_corners,
                 std::initializer_list<std::optional<double>> scales);
// The same of n spatial dimensions, either to sizes or by scales.
Tensor upsampled_by(const char* op, int64_t mode, int64_t n, const Tensor& input, std::optional<SymIntList> size,
                    bool align_corners, std::optional<std::span<const double>> scales);

}  // namespace tessera::kernels
