// Resizing images: every output position along a dimension is a weighted sum of a few input positions.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// The antialiasing ones take in all inputs that an output stands for when the size shrinks.
enum class ResampleMode : uint8_t { kNearest, kNearestExact, kLinear, kCubic, kLinearAntialias, kCubicAntialias };

struct ResampleGeometry {
  ResampleMode mode;
  bool align_corners;
  int64_t planes, in[3], out[3];
  double step[3];  // input positions for one output position; 0: from the sizes
};

// Along dimension `dim` of g: output o is the sum over k < taps of input index[k * out + o] times weight[k * out + o];
// returns taps. A: float or double.
template <class A>
int resample_weights(const ResampleGeometry& g, int dim, std::vector<int64_t>* index, std::vector<A>* weight);
extern template int resample_weights<float>(const ResampleGeometry& g, int dim, std::vector<int64_t>* index,
                                            std::vector<float>* weight);
extern template int resample_weights<double>(const ResampleGeometry& g, int dim, std::vector<int64_t>* index,
                                             std::vector<double>* weight);

// x: planes of in[0] x in[1] x in[2], row-major, floating dtypes; y: the same of out.
void resample_forward(DType dtype, const ResampleGeometry& g, const void* x, void* y);
// The adjoint: dx = sums of what y's gradients say.
void resample_backward(DType dtype, const ResampleGeometry& g, const void* dy, void* dx);

}  // namespace tessera::cpu
