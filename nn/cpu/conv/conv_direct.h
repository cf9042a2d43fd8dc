// Convolution without a matrix of columns: a micro kernel keeps a few neighbouring positions of an output row by a few
// vectors of output channels in registers, and reads the image where it lies, one element for all channels at a time.
// So the image needs no order of its own (rows, channels last, any stride), only a border of zeros; the weights are
// packed in vectors of output channels.
#pragma once

#include <type_traits>

#include "nn/cpu/conv/conv.h"
#include "nn/cpu/conv/conv_numbers.h"

namespace tessera::cpu::internal {

// Zeros around an image: `low` before and `high` after each of the three dimensions.
struct Border {
  int64_t low[3], high[3];
  bool none() const { return (low[0] | low[1] | low[2] | high[0] | high[1] | high[2]) == 0; }
};

// Images: planes (a channel, or a whole image whose channels come last) of size[0] x size[1] x size[2] places of `unit`
// contiguous elements (1, or all channels).
struct ImageLayout {
  int64_t size[3], unit;
  bool channels_last;
  int64_t channel() const { return channels_last ? 1 : size[0] * size[1] * size[2]; }
  int64_t step(int i) const { return (i < 2 ? size[2] : 1) * (i < 1 ? size[1] : 1) * unit; }
  int64_t plane() const { return size[0] * size[1] * size[2] * unit; }
  ImageLayout with(const Border& b) const;
};
// Where the elements of a convolution lie: E is float for what is computed with as float32, in whatever it lies;
// uint16_t for bfloat16 as the CPU's dot products take it.
template <class E>
using Source = std::conditional_t<std::is_same_v<E, float>, Numbers, const E*>;
template <class E>
using Target = std::conditional_t<std::is_same_v<E, float>, Numbers, E*>;

// to: images * planes * layout.with(border).plane() elements; x_image: elements from an image to the next.
template <class E>
void copy_images_with_border(int64_t images, int64_t planes, const ImageLayout& layout, const Border& border,
                             Source<E> x, int64_t x_image, E* to);

// One group of a convolution. y[n, o, q] = bias[o] + sum over channels c and taps t of
//   x[n, c, q * step + tap[t]] * w[o * w_out + c * w_channel + tap_w[t]],
// where x has the border, and every place so named exists.
template <class E>
struct DirectConv {
  int64_t images, in_channels, out_channels;
  Source<E> x;  // the first plane
  int64_t x_image,
      first_channel;  // elements between images; channels of other groups before this one's, where channels come last
  ImageLayout in;
  Border border;
  int64_t step[3], taps;
  const int64_t (*tap)[3];
  const int64_t* tap_w;
  Source<E> w;
  int64_t w_out, w_channel;
  Source<E> bias;  // or null
  Target<E> y;
  int64_t y_image, y_channel, y_step[3];
  int64_t size[3];  // output positions
};
void direct_conv(const DirectConv<float>& c);
// bfloat16, on the CPU's dot products; only where has_bf16_conv() of conv_bf16.h says so.
void direct_conv(const DirectConv<uint16_t>& c);

// The other ways of direct_conv, each for what choose.h gives it. For kernels of 3 x 3 without strides, by fewer
// multiplications; false: not all results are finite, and the tiles are to take them.
bool winograd_conv(const DirectConv<float>& c);
// For many weights and few positions.
void narrow_conv(const DirectConv<float>& c);

// One group of a convolution with windows of one position: y[n, o, q] = bias[o] + sum over channels c of x[n, c, q] *
// w[o * w_out + c * w_in]; one of w_out and w_in is 1. Channels are `positions` elements apart.
struct PointwiseConv {
  int64_t images, in_channels, out_channels, positions;
  const float* x;
  int64_t x_image;
  const float* w;
  int64_t w_out, w_in;
  const float* bias;  // or null
  float* y;
  int64_t y_image;
};
// Only what suits_strips of choose.h says.
void pointwise_conv(const PointwiseConv& c);
// Output channels of a tile of it, by the lanes of a vector.
struct TileRows {
  int64_t least, most;
};
[[gnu::always_inline]] constexpr TileRows strip_rows(int64_t lanes) {
  return lanes > 8 ? TileRows{10, 14} : TileRows{5, 6};
}

// A tile of sums: some positions, `step` elements of x apart, by some vectors of channels.
struct TileArgs {
  int64_t k;
  const int64_t* offsets;  // of the k elements of x that a position takes
  const float* x;
  int64_t step;
  const float* w;      // k rows of the vectors
  const float* start;  // what is added to the sums, a vector for each of the tile's; null: c
  float* c;
  int64_t c_row;
};
using TileFn = void (*)(const TileArgs&);
// How a line of positions is cut into tiles: `count` of `rows` positions, the first `longer` of them one more.
struct TileCut {
  int64_t count, rows, longer;
  TileFn tile, longer_tile;
};
TileCut cut_positions(int64_t n, int64_t vectors, int64_t step);
inline void run_tiles(const TileCut& cut, TileArgs& args) {
  for (int64_t t = 0; t < cut.count; ++t) {
    const bool longer = t < cut.longer;
    (longer ? cut.longer_tile : cut.tile)(args);
    const int64_t rows = cut.rows + longer;
    args.x += rows * args.step;
    args.c += rows * args.c_row;
  }
}

// The gradient of the weights of one group: dw[o, k] = sum over images and positions q of dy[n, o, q] * x[n, c, q *
// step + tap * dilation], k being (c, tap), or (tap, c) where channels come last.
struct DirectWeight {
  int64_t images, in_channels, out_channels;
  Numbers x;
  int64_t x_image, first_channel;
  ImageLayout in;
  Border border;
  int64_t step[3], kernel[3], dilation[3];
  Numbers dy;
  int64_t dy_image, dy_channel, dy_step[3];  // lines of positions follow each other
  int64_t size[3];
  Numbers dw;
};
void direct_weight(const DirectWeight& c);
// As for direct_conv.
bool winograd_weight(const DirectWeight& c);
void narrow_weight(const DirectWeight& c);

// The transpose of 32 x 32 numbers.
void transpose_32(const float* from, float* to);

// Whole convolutions (all groups); channels_last: of x, w and y.
template <class E>
void direct_forward(const ConvGeometry& g, bool channels_last, Source<E> x, Source<E> w, Source<E> bias, Target<E> y);
template <class E>
void direct_backward_input(const ConvGeometry& g, bool channels_last, Source<E> dy, Source<E> w, Target<E> dx);
void direct_backward_weight(const ConvGeometry& g, bool channels_last, Numbers dy, Numbers x, Numbers dw);

}  // namespace tessera::cpu::internal
