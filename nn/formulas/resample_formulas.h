// Derivatives of reading images at given places.
#pragma once

#include "nn/nn_ops.h"

namespace tessera::autograd::formulas {

// The arguments of _grid_sample behind the tensors.
struct GridOptions {
  int64_t interpolation_mode, padding_mode;
  bool align_corners;
  IntList order;
};

// The tangent of what lies at the places; one of the inputs' may be undefined.
Tensor grid_sample_tangent(const Tensor& input_t, const Tensor& grid_t, const Tensor& input, const Tensor& grid,
                           const GridOptions& options);

// Gradients of grad, input and grid from those of the gradients of input and grid, of which one may be undefined.
std::tuple<Tensor, Tensor, Tensor> grid_sample_double_backward(const Tensor& to_input, const Tensor& to_grid,
                                                               const Tensor& grad, const Tensor& input,
                                                               const Tensor& grid, const GridOptions& options,
                                                               std::array<bool, 3> mask);

}  // namespace tessera::autograd::formulas
