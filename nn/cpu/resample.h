// Resizing images: every output position along a dimension is a weighted sum of a few input positions.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

enum class ResampleMode : uint8_t { kNearest, kNearestExact, kLinear, kCubic };

struct ResampleGeometry {
  ResampleMode mode;
  bool align_corners;
  int64_t planes, in[3], out[3];
  double step[3];  // input positions for one output position; 0: from the sizes
};

// Inputs that an output is a sum of: 1 (nearest), 2 (linear) or 4 (cubic).
int resample_taps(ResampleMode mode);
// Along dimension `dim` of g: output o is the sum over k < taps of input index[k * out + o] times weight[k * out + o].
// A: float or double.
template <class A>
void resample_weights(const ResampleGeometry& g, int dim, int64_t* index, A* weight);
extern template void resample_weights<float>(const ResampleGeometry& g, int dim, int64_t* index, float* weight);
extern template void resample_weights<double>(const ResampleGeometry& g, int dim, int64_t* index, double* weight);

// x: planes of in[0] x in[1] x in[2], row-major, floating dtypes; y: the same of out.
void resample_forward(DType dtype, const ResampleGeometry& g, const void* x, void* y);
// The adjoint: dx = sums of what y's gradients say.
void resample_backward(DType dtype, const ResampleGeometry& g, const void* dy, void* dx);

}  // namespace tessera::cpu
