// Images with zeros around them, for convolutions that read every place that a window names.
#pragma once

#include "nn/cpu/conv/conv_direct.h"
#include "tensor/cpu/support/integer.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::internal {

// The images of a problem (DirectConv or DirectWeight), some at a time, as float: copies with their border or, where
// there is none and they are float, as they lie.
struct Images {
  template <class Problem>
  Images(const Problem& c, int64_t at_once)
      : padded(c.in.with(c.border)),
        planes(planes_of(c)),
        image(lie_ready(c) ? c.x_image : planes * padded.plane()),
        copy(lie_ready(c) ? 0 : at_once * image) {}

  // Images [n, n + count), at most at_once; where the group's channels begin.
  template <class Problem>
  const float* take(const Problem& c, int64_t n, int64_t count) const {
    const Numbers x = c.x + n * c.x_image;
    if (lie_ready(c)) return x.floats() + c.first_channel;
    copy_images_with_border<float>(count, planes, c.in, c.border, x, c.x_image, copy.get());
    return copy.get() + c.first_channel;
  }

  template <class Problem>
  static bool lie_ready(const Problem& c) {
    return c.border.none() && c.x.is_float();
  }
  // How many images stay in L2 with their border.
  template <class Problem>
  static int64_t near(const Problem& c) {
    return max64(1, min64(c.images, (int64_t{1} << 18) / (planes_of(c) * c.in.with(c.border).plane())));
  }
  template <class Problem>
  static int64_t planes_of(const Problem& c) {
    return c.in.channels_last ? 1 : c.in_channels;
  }

  const ImageLayout padded;
  const int64_t planes, image;  // image: elements from one to the next
  ScratchArray<float> copy;
};

}  // namespace tessera::cpu::internal
