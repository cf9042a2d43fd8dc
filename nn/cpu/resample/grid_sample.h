// Reading images at given places: every output is a weighted sum of the pixels around its place.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

enum class GridMode : uint8_t { kLinear, kNearest, kCubic };
enum class GridPadding : uint8_t { kZeros, kBorder, kReflection };

// Dimensions of an image stand as depth (1 for planes), height, width; those of a place as x, y, z.
struct GridSample {
  GridMode mode;
  GridPadding padding;
  bool align_corners;
  int dims;  // of a place: 2 or 3
  int64_t batch, channels;
  int64_t in[3];      // none of them 0
  int64_t positions;  // places for each image
  int order[3];       // how often the weights are differentiated by x, y, z
};

// x: (batch, channels, in...), grid: (batch, positions, dims), y: (batch, channels, positions), row-major, all of one
// floating dtype. A place goes from -1 to 1 across the image; NaN stands for -1.
void grid_sample_forward(DType dtype, const GridSample& g, const void* x, const void* grid, void* y);
// What gradients dy of y give to x and to the grid; either result may be null, and x is read for the grid's alone.
void grid_sample_backward(DType dtype, const GridSample& g, const void* dy, const void* x, const void* grid, void* dx,
                          void* dgrid);

}  // namespace tessera::cpu
