// Convolution as one matrix product over a whole batch, whose right-hand side, the columns of the images, is never
// stored: the product packs its panels straight from the images.
#pragma once

#include "nn/cpu/conv/conv.h"

namespace tessera::cpu::internal {

// For float and double.
template <class T>
void implicit_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y);

// The gradient of the input is a convolution of dy with the mirrored weights where no stride is in the way.
inline bool has_implicit_backward(const ConvGeometry& g) {
  for (int i = 0; i < 3; ++i)
    if (g.stride[i] != 1 || g.in_size[i] != g.out_size[i] + g.dilation[i] * (g.kernel[i] - 1) - 2 * g.padding[i])
      return false;
  return true;
}
template <class T>
void implicit_backward_input(const ConvGeometry& g, const T* dy, const T* w, T* dx);
// The geometry of that convolution, and its weights: per group (in channels, out channels, mirrored kernel).
ConvGeometry mirrored_geometry(const ConvGeometry& g);
template <class T>
void mirror_weights(const ConvGeometry& g, const T* w, T* mirrored);

// Images with the border that the windows reach, zeros outside the image, so that reading a window needs no checks.
// Where the windows move by s elements, each row is stored as s phases (elements 0, s, 2s ..., then 1, s + 1 ...), so
// that the same element of neighbouring windows is always contiguous.
template <class T>
class PaddedImages {
 public:
  // Elements of a copy in whole vectors beyond the last one.
  static constexpr int64_t kSlack = 16;
  static int64_t size(const ConvGeometry& g, int i) {
    return (g.out_size[i] - 1) * g.stride[i] + g.dilation[i] * (g.kernel[i] - 1) + 1;
  }
  static int64_t phase(const ConvGeometry& g) { return (size(g, 2) + g.stride[2] - 1) / g.stride[2]; }
  static int64_t row(const ConvGeometry& g) { return phase(g) * g.stride[2]; }
  static int64_t plane(const ConvGeometry& g) { return size(g, 0) * size(g, 1) * row(g); }
  // Where the window of an output position begins in its padded channel.
  static int64_t window(const ConvGeometry& g, int64_t od, int64_t oh, int64_t ow) {
    return (od * g.stride[0] * size(g, 1) + oh * g.stride[1]) * row(g) + ow;
  }

  // `count` runs of `channels` channels; run i starts at x + i * image_stride. to: count * channels * plane(g) + kSlack
  // elements.
  static void fill(const ConvGeometry& g, const T* x, int64_t image_stride, int64_t count, int64_t channels, T* to);
  // Where the elements of the matrix row r lie relative to a window's first element.
  static void tap_offsets(const ConvGeometry& g, int64_t channels, int64_t* offsets);
};

// Rows [p, p + k) of the columns [j, j + count) of padded images: as GemmSource::pack.
template <class T>
struct VirtualColumns {
  const ConvGeometry* g;
  const T* images;
  int64_t image_size;  // elements
  const int64_t* taps;
  void pack(int64_t j, int64_t count, int64_t p, int64_t k, int64_t width, T* dst) const;
};

}  // namespace tessera::cpu::internal
