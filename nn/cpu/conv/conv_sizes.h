// What follows from a convolution's geometry, for the engines of every device.
#pragma once

#include "nn/cpu/conv/conv.h"
#include "tensor/cpu/support/operand.h"
#include "tensor/cpu/support/types.h"

namespace tessera::cpu {

// Sizes of one group.
struct ConvSizes {
  explicit ConvSizes(const ConvGeometry& g)
      : in_c(g.in_channels / g.groups),
        out_c(g.out_channels / g.groups),
        taps(internal::volume(g.kernel)),
        rows(in_c * taps),
        positions(internal::volume(g.out_size)),
        plane(internal::volume(g.in_size)) {}
  int64_t in_c, out_c;  // channels
  int64_t taps, rows;   // places of a window in one channel, in all channels: the rows of the columns
  int64_t positions;    // of a channel of the output: the columns
  int64_t plane;        // elements of a channel of the input
};

// Elements of the three tensors.
struct ConvElements {
  explicit ConvElements(const ConvGeometry& g)
      : x(g.batch * g.in_channels * internal::volume(g.in_size)),
        w(g.out_channels * (g.in_channels / g.groups) * internal::volume(g.kernel)),
        y(g.batch * g.out_channels * internal::volume(g.out_size)) {}
  int64_t x, w, y;
};

// A window is one position, and the windows are the positions: the columns are the image itself. (The image that a
// transposed convolution fills may have positions beyond the last window: its output padding.)
inline bool is_pointwise(const ConvGeometry& g) {
  for (int i = 0; i < 3; ++i)
    if (g.kernel[i] != 1 || g.stride[i] != 1 || g.padding[i] != 0 || g.in_size[i] != g.out_size[i]) return false;
  return true;
}

// A factor of a matrix product.
inline KernelParam whole_number(DType t, int v) {
  KernelParam p;
  if (is_complex(t)) {
    p.c[0] = v;
    p.c[1] = 0;
  } else if (is_floating_point(t)) {
    p.f = v;
  } else {
    p.i = v;
  }
  return p;
}

}  // namespace tessera::cpu
